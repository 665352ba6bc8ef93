"""A network that goes wrong, in a thread: the proxy that stands between real nodes in the tests."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from time import monotonic
from typing import Final, TypeVar

from pdproto.testing.proxy import Proxy
from tests.waiting import ended

TURN_S: Final = 0.002

Answer = TypeVar("Answer")


class Network:
    """Gives the proxy its turns. Whatever else is done to it is done between two of them.

    clock: by which it delays messages.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.proxy: Final = Proxy()
        self._clock: Final = clock
        self._asked: Final[SimpleQueue[Callable[[], None]]] = SimpleQueue()
        self._ended = False
        self._thread: Final = threading.Thread(target=self._run, name="network", daemon=True)
        self._thread.start()

    def do(self, action: Callable[[Proxy], Answer]) -> Answer:
        """Have something done to the proxy, and wait until it has been."""
        done: Future[Answer] = Future()
        self._asked.put(lambda: done.set_result(action(self.proxy)))
        return done.result(timeout=30)

    def close(self) -> None:
        self._ended = True
        ended(self._thread)
        self.proxy.close()

    def _run(self) -> None:
        while not self._ended:
            while not self._asked.empty():
                self._asked.get_nowait()()
            self.proxy.turn(self._clock(), TURN_S)


@contextmanager
def network(clock: Callable[[], float] = monotonic) -> Iterator[Network]:
    """One that is closed, whatever becomes of the test."""
    it = Network(clock)
    try:
        yield it
    finally:
        it.close()
