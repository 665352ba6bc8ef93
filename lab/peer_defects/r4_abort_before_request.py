"""R4: an abort that comes before its request is forgotten, and the request waits for a time-out.

Decode aborts before prefill's copy of the request has arrived. Prefill finds no such room, and
keeps nothing. The request then comes, and waits for metadata that decode will never send.
"""

from time import sleep
from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import must

SECONDS = 2.0


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    receiver = decode.receiver(4)
    prefill.aborts.is_held = True
    receiver.abort()
    decode.fail(receiver)
    must(lambda: prefill.aborts.held, "the abort has come")
    prefill.aborts.let_go()  # prefill has received it
    sender = prefill.sender(4)
    sleep(SECONDS)
    status = prefill.status(4)
    return Seen(sender.poll() == 1, f"{SECONDS:.0f} s later the room is {status} on prefill, and "
                f"would be for {prefill.manager.bootstrap_timeout} s")


SCRIPT: Final = Script(
    scene, race="R4", expected="the request fails on prefill as soon as it comes")

if __name__ == "__main__":
    play(SCRIPT)
