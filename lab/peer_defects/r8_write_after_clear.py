"""R8, by clear(): a chunk is written for a room whose abort has been acknowledged.

A chunk waits in the queue when decode aborts. No write of the room is under way, so prefill answers
that it has drained, and decode gives the page to another request. The worker takes the chunk, finds
the room there, and is about to check its status when the scheduler clears it. NIXL's manager takes
a room without a status for one that waits for input, and its addresses go a moment later.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

from lab.peer_defects.pair import Decode, Gate, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import fail, must, ready, writing
from lab.sglang_0_5_23.ledger import wrap

ROOM: Final = 8


class Clearing(dict[int, Any]):
    """The table from which clear() takes a room between its status and its addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: Final = Gate()

    def pop(self, *entry: Any) -> Any:
        return self.gate.around(super().pop, *entry)


class Looking:
    """A worker that takes long between finding the room and checking its status."""

    def __init__(self, manager: Any) -> None:
        self.gate: Final = Gate()
        wrap(manager, "check_status", self._around)

    def _around(self, original: Callable[[int], Any], room: int) -> Any:
        return self.gate.around(original, room) if room == ROOM else original(room)


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    other, _ = ready(prefill, decode, 80, page=5)
    writing(prefill, other, 1, page=9, slot=3)  # the worker is busy with another room
    sender, receiver = ready(prefill, decode, ROOM)
    sender.send(prefill.computed(ROOM, 8, 77))
    receiver.abort()
    decode.fail(receiver)
    must(lambda: decode.may_release(receiver), "prefill has drained: nothing is being written")
    decode.release(receiver)
    for buffer in decode.buffers:
        buffer[1] = 55  # the KV of the request that has the page now
    looking = Looking(prefill.manager)
    looking.gate.shut()
    prefill.manager.req_to_decode_prefix_len = clearing = Clearing()
    prefill.writes.open()
    must(looking.gate.reached.is_set, "the worker has found the room")
    clearing.gate.shut()
    scheduler = threading.Thread(target=fail, args=(sender,))
    scheduler.start()
    must(clearing.gate.reached.is_set, "the scheduler has removed the status of the room")
    looking.gate.open()
    shows = wait(lambda: decode.buffers[-1][1, -1] == 77, 3.0)
    clearing.gate.open()
    scheduler.join()
    return Seen(shows, "the abort was acknowledged while the chunk was in the queue; the page of "
                f"the next request held 55, and holds {decode.page(1)}")


SCRIPT: Final = Script(
    scene, race="R8, by clear()", expected=
        "chunks that were queued for an aborted room are dropped",
    traced=False, only="nixl")

if __name__ == "__main__":
    play(SCRIPT)
