"""B09, part 6.2: a request that prefill aborts in its waiting queue spoils its room number.

In three of four cases SGLang's scheduler aborts a sender and never clears it. Failed stays in the
table, and a later request with the number has failed before it begins.
"""

from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import FAILED, fail


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    prefill.sender(9).abort()  # as in abort_request for the waiting queue: no clear() follows
    receiver = decode.receiver(9)
    again = prefill.sender(9)
    shows = again.poll() == FAILED
    why = fail(again)
    receiver.abort()
    return Seen(shows, f"the new sender polls {'failed' if shows else 'something else'}: {why}")


SCRIPT: Final = Script(scene, race="B09", expected="the new sender waits for metadata")

if __name__ == "__main__":
    play(SCRIPT)
