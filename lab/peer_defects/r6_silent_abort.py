"""R6: prefill aborts, and does not tell decode.

Decode has published its pages, and prefill ends the request without a message. Decode keeps the
pages until its own time-out.
"""

from time import sleep
from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import fail, ready

SECONDS = 2.0


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, receiver = ready(prefill, decode, 6)
    sender.abort()
    fail(sender)
    sleep(SECONDS)
    return Seen(receiver.poll() == 2, f"{SECONDS:.0f} s later decode polls {decode.status(6)}, and "
                f"would for {decode.manager.waiting_timeout} s")


SCRIPT: Final = Script(scene, race="R6", expected="decode fails the room at once")

if __name__ == "__main__":
    play(SCRIPT)
