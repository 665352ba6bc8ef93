"""Part 3.5: room 0 is handed over, and decode never takes it.

The metadata row begins with its room number, and 0 there means that the row has not come yet. The
bytes of room 0 arrive, prefill succeeds, and decode waits for a row that it has. It waits for ever,
because its time-out runs only in WaitingForInput.
"""

from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World, utils
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import SUCCESS, must, ready


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, receiver = ready(prefill, decode, 0)
    sender.send(prefill.computed(0, 8, 7))
    must(lambda: sender.poll() == SUCCESS and receiver.poll() == SUCCESS, "the status has come")
    polls = [int(receiver.poll())]
    utils._apply_metadata_gate(polls, [decode.request(receiver)], decode.metadata)
    return Seen(polls[0] == 3, f"the page holds {decode.page(1)}, both ends say success, and the "
                f"scheduler's gate makes {'Transferring' if polls[0] == 3 else polls[0]} of it")


SCRIPT: Final = Script(
    scene, race="room 0", expected="the request is committed, or room 0 is refused")

if __name__ == "__main__":
    play(SCRIPT)
