"""R21: a failure is lost between two threads that write the same status.

update_status reads the status, compares, and writes it, without a lock. A worker that is about to
write Success has read WaitingForInput. Decode's abort comes in between, and writes Failed. The
worker writes Success over it. A scheduler's abort is lost in the same way.
"""

import threading
from typing import Any, Final

from lab.peer_defects.pair import Decode, Prefill, World, wait
from lab.peer_defects.script import Script, Seen, play
from lab.peer_defects.steps import must, ready


class Slow(dict[int, Any]):
    """The same table, where one thread takes long between reading and writing."""

    def __init__(self, entries: dict[int, Any], slow: threading.Event) -> None:
        super().__init__(entries)
        self.has_read, self.may_go_on, self.slow = threading.Event(), threading.Event(), slow

    def get(self, key: int, default: Any = None) -> Any:
        found = super().get(key, default)
        if self.slow.is_set() and threading.current_thread() is not threading.main_thread() and (
                not self.has_read.is_set()):
            self.has_read.set()
            self.may_go_on.wait(10)
        return found


def scene(world: World) -> Seen:
    prefill, decode = Prefill(world), Decode(world)
    _, receiver = ready(prefill, decode, 21)
    sender_thread_is_slow = threading.Event()
    manager = prefill.manager
    manager.request_status = table = Slow(manager.request_status, sender_thread_is_slow)
    inner = manager.update_status

    def update_status(room: int, status: Any) -> None:
        if status == 4:
            sender_thread_is_slow.set()
        inner(room, status)

    manager.update_status = update_status
    manager.add_transfer_request(21, prefill.computed(21, 8, 1), slice(0, 1), True, aux_index=0)
    must(table.has_read.is_set, "the worker has read the status")
    sender_thread_is_slow.clear()
    prefill.aborts.is_held = True
    receiver.abort()
    must(lambda: prefill.aborts.held, "the abort has come")
    prefill.aborts.let_go()  # the control thread does this
    between = prefill.status(21)
    table.may_go_on.set()
    wait(lambda: prefill.status(21) == "success", 2.0)
    return Seen(between == "failed" and prefill.status(21) == "success",
                f"after the abort the room was {between} on prefill, and is {prefill.status(21)}")


SCRIPT: Final = Script(
    scene, race="R21", expected="a room that has failed stays failed", traced=False)

if __name__ == "__main__":
    play(SCRIPT)
