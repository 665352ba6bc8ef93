"""The thread of a data path that begins copies, and acts when they are done.

A copy in host memory is done when its call returns, and a copy on a device later. The thread asks
the device again and again, so that no other thread waits for it.

While the thread has nothing to do, the node's loop makes a small copy in host memory itself: the
order of copies stays the same, and no thread has to be woken.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from time import monotonic, sleep
from typing import Any, Final, TypeVar

POLL_S: Final = 0.000_05  # between two questions to a device
CLOSE_S: Final = 5.0  # how long a device may go on with the pages of a node that is closed


Result = TypeVar("Result")


class CopyWorker(ThreadPoolExecutor):
    """The thread of a data path. is_closing: the data path is being closed.

    loop_bytes: the most bytes that the node's loop copies itself; None if it copies nothing.
    """

    def __init__(self, name: str, loop_bytes: int | None) -> None:
        super().__init__(1, name)
        self.is_closing = False
        self._loop_bytes: Final = loop_bytes
        self._counting: Final = Lock()
        self._given = 0  # tasks of the thread that have not ended
        self._acts: Final[deque[Callable[[], bool]]] = deque()  # only a task uses it
        self._is_polling = False

    def submit(self, task: Callable[..., Result], /, *given: Any, **named: Any) -> Future[Result]:
        """See Executor."""
        future = super().submit(task, *given, **named)
        with self._counting:
            self._given += 1
        future.add_done_callback(self._ended)
        return future

    def run(self, length: int, task: Callable[..., None], *given: Any) -> None:
        """Run a task that copies `length` bytes: at once if they are few and the thread has nothing
        to do, else on the thread. Only the node's loop calls this.
        """
        is_small = self._loop_bytes is not None and length <= self._loop_bytes
        if is_small and not (self.busy or self.is_closing):
            task(*given)
        else:
            self.submit(task, *given)

    @property
    def busy(self) -> bool:
        """Whether the thread has a task that has not ended."""
        return self._given > 0

    def _ended(self, _: Future[Any]) -> None:
        with self._counting:
            self._given -= 1

    def in_order(self, act: Callable[[], bool]) -> None:
        """In a task: act when all acts before it have been done. act: returns whether it has acted;
        if not, it is called again.
        """
        self._acts.append(act)
        self._advance()

    def close(self) -> None:
        """End the thread. Copies that a device has begun are waited for, `CLOSE_S` at most."""
        self.is_closing = True
        self.shutdown(wait=True, cancel_futures=True)
        end = monotonic() + CLOSE_S
        while self._advance() and monotonic() < end:
            sleep(POLL_S)

    def _advance(self) -> bool:
        """Do the acts whose turn it is. Returns whether some are left."""
        while self._acts and self._acts[0]():
            self._acts.popleft()
        if self._acts and not (self._is_polling or self.is_closing):
            self._is_polling = True
            self.submit(self._poll)
        return bool(self._acts)

    def _poll(self) -> None:
        sleep(POLL_S)
        self._is_polling = False
        self._advance()
