"""R3: an abort is sent once; if it is lost, prefill never learns of it.

A frame is lost when its connection breaks. Decode does not repeat it, and waits for an answer until
its clock runs out. Prefill keeps the request, its pages, and the address to write to.
"""

from time import sleep
from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import READY, must, ready

SECONDS = 3.0


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, receiver = ready(prefill, decode, 3)
    prefill.aborts.is_held = True
    receiver.abort()
    decode.fail(receiver)
    must(lambda: prefill.aborts.held, "the abort has been sent")
    prefill.aborts.held.clear()  # lost
    prefill.aborts.is_held = False
    sleep(SECONDS)
    return Seen(sender.poll() == READY and not decode.may_release(receiver),
                f"{SECONDS:.0f} s later prefill has the room {prefill.status(3)}, ready to write, "
                "and decode has no answer: after 30 s it gives the pages away without one (R2)")


SCRIPT: Final = Script(
    scene, race="R3", expected="decode repeats the abort until it has an answer")

if __name__ == "__main__":
    play(SCRIPT)
