"""R16: one room of an unregistered decode rank kills a transfer worker for all others.

The worker looks up the pages of the room's decode rank. Its registration was lost, or was never
sent: the look-up raises, the thread ends, and every room of its queue waits for a time-out. NIXL
catches the error.
"""

from time import sleep
from typing import Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import READY, must, ready

SECONDS = 2.0


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    manager, queues = decode.manager, len(prefill.manager.transfer_queues)
    healthy, receiver = ready(prefill, decode, 17, page=2)
    name = manager.get_session_id
    host, _, port = name().rpartition(":")
    # A restarted engine is another session, whose rooms go to the same queue.
    manager.get_session_id = lambda: f"{host}:{int(port) + queues}"
    strange, _ = prefill.sender(16, slot=1), decode.publish(decode.receiver(16), 1, slot=1)
    must(lambda: strange.poll() == READY, "prefill learns the addresses of room 16's pages")
    manager.get_session_id = name
    strange.send(prefill.computed(16, 7, 1, slot=1))
    sleep(0.5)
    healthy.send(prefill.computed(17, 8, 2))
    sleep(SECONDS)
    return Seen(healthy.poll() == READY and receiver.poll() == READY,
                f"{SECONDS:.0f} s later room 17, whose decode rank is registered, is "
                f"{prefill.status(17)} on prefill and {decode.status(17)} on decode: nothing "
                "empties its queue any more")


SCRIPT: Final = Script(
    scene, race="R16", expected="room 16 fails, and room 17 is handed over", traced=False,
    only="mooncake")

if __name__ == "__main__":
    play(SCRIPT)
