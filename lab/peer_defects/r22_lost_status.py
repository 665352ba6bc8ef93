"""R22: the status that ends a transfer is sent once; if it is lost, decode throws good KV away.

Prefill answers Success to its client. Decode has the KV and the metadata row, polls WaitingForInput
until its time-out, and aborts.
"""

from time import sleep
from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import READY, SUCCESS, must, ready

SECONDS = 3.0


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, receiver = ready(prefill, decode, 22)
    prefill.sent.is_held = True
    sender.send(prefill.computed(22, 8, 5))
    must(lambda: sender.poll() == SUCCESS, "prefill has sent everything")
    sender.clear()
    prefill.sent.held.clear()  # lost
    prefill.sent.is_held = False
    sleep(SECONDS)
    row = int(decode.metadata.bootstrap_room[0, 0])
    return Seen(receiver.poll() == READY, f"prefill has succeeded; {SECONDS:.0f} s later decode, "
                f"whose page holds {decode.page(1)} and whose row is that of room {row}, polls "
                f"{decode.status(22)}, and would until it aborts after "
                f"{decode.manager.waiting_timeout} s")


SCRIPT: Final = Script(scene, race="R22", expected=
                       "decode asks again, or prefill repeats the status")

if __name__ == "__main__":
    play(SCRIPT)
