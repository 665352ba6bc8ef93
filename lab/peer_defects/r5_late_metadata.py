"""R5: metadata for a room that prefill has given up opens the room again, without an owner.

Prefill gives a request up, and clears it, before decode has had memory for it. Decode publishes its
pages. Prefill makes a room of the message, in which nothing will ever happen, and sends no answer.
"""

from time import sleep
from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import fail, must

SECONDS = 2.0


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, receiver = prefill.sender(5), decode.receiver(5)
    sender.abort()
    fail(sender)
    decode.publish(receiver, 1)
    must(lambda: 5 in prefill.manager.transfer_infos, "the metadata has come")
    sleep(SECONDS)
    return Seen(
        receiver.poll() == 2 and prefill.status(5) == "waiting",
        f"{SECONDS:.0f} s later the room is {prefill.status(5)} on prefill, without a sender, and "
        f"{decode.status(5)} on decode, which holds its pages for {decode.manager.waiting_timeout}"
        " s")


SCRIPT: Final = Script(
    scene, race="R5", expected="prefill answers that the room is over, and keeps nothing")

if __name__ == "__main__":
    play(SCRIPT)
