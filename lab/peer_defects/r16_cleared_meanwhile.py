"""R16, by clear(): a transfer worker dies because the scheduler clears a room at that moment.

When a chunk is done the worker checks that the room still has addresses, and takes them out. The
scheduler has polled Success meanwhile, and clears the room between the two steps. The worker's pop
raises, its thread ends, and every room of its queue waits for a time-out.
"""

import threading
from time import sleep
from typing import Any, Final

from lab.peer_defects.pair import Decode, Prefill, World
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import READY, SUCCESS, must, ready

SECONDS = 2.0


class Slow(dict[int, Any]):
    """The same table, where a worker takes long between the check and the pop."""

    looked = threading.Event()
    may_take = threading.Event()
    room = 16

    def pop(self, key: int, *default: Any) -> Any:
        if key == self.room and not default:  # only the worker asks without a default
            self.looked.set()
            self.may_take.wait(10)
        return super().pop(key, *default)


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    prefill.manager.transfer_infos = table = Slow(prefill.manager.transfer_infos)
    sender, _ = ready(prefill, decode, 16)
    sender.send(prefill.computed(16, 8, 1))
    must(table.looked.is_set, "the worker has checked")
    must(lambda: sender.poll() == SUCCESS, "the scheduler polls Success")
    sender.clear()
    table.may_take.set()
    sleep(0.3)
    other, receiver = ready(prefill, decode, 17, page=2)
    other.send(prefill.computed(17, 9, 2))
    sleep(SECONDS)
    return Seen(other.poll() == READY and receiver.poll() == READY,
                f"{SECONDS:.0f} s after it was sent room 17 is {prefill.status(17)} on prefill and "
                f"{decode.status(17)} on decode: nothing empties its queue any more")


SCRIPT: Final = Script(
    scene, race="R16, by clear()", expected="room 17 is handed over", traced=False,
    only="mooncake")

if __name__ == "__main__":
    play(SCRIPT)
