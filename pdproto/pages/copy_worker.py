"""The thread of a data path that begins copies, and acts when they are done.

A copy in host memory is done when its call returns, and a copy on a device later. The thread asks
the device again and again, so that no other thread waits for it.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import Final

from pdproto.engine.contract import CLOSE_S, POLL_S


class CopyWorker(ThreadPoolExecutor):
    """The thread of a data path. begin: called in it first of all. is_closing: the data path is
    being closed.
    """

    def __init__(self, name: str, begin: Callable[[], None]) -> None:
        super().__init__(1, name, begin)
        self.is_closing = False
        self._acts: Final[deque[Callable[[], bool]]] = deque()  # only the thread uses it
        self._is_polling = False

    def in_order(self, act: Callable[[], bool]) -> None:
        """On the thread: act when all acts before it have been done. act: returns whether it has
        acted; if not, it is called again.
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
