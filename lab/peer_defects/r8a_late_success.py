"""R8a: the Success of an earlier use of a room completes the present one.

Decode aborts a request just when prefill has finished it. It uses the room number again, as a retry
or a rebootstrap does. Only then the old status comes: it names the room, and not its use.
"""

from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import SUCCESS, must, ready


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    sender, receiver = ready(prefill, decode, 8, page=1)
    prefill.sent.is_held = True  # the status is still in the network
    sender.send(prefill.computed(8, 8, 77))
    must(lambda: sender.poll() == SUCCESS, "prefill has sent everything")
    sender.clear()
    receiver.abort()
    decode.fail(receiver)
    must(lambda: 8 not in prefill.manager.request_status, "prefill has received the abort")
    decode.release(receiver)
    again = decode.receiver(8)
    decode.publish(again, 2)
    must(lambda: 8 in prefill.manager.transfer_infos, "prefill knows of the second use")
    prefill.sent.let_go()
    wait(lambda: again.poll() == SUCCESS, 2.0)
    shows = again.poll() == SUCCESS
    return Seen(shows, f"decode polls {decode.status(8)} for the second use, whose page holds "
                f"{decode.page(2)}, and prefill has not even begun it")


SCRIPT: Final = Script(
    scene, race="R8a", expected="a status of the first use does not count for the second")

if __name__ == "__main__":
    play(SCRIPT)
