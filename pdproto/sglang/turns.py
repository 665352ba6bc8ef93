"""The ranks of a decode group open their receivers in the same order, so that lives agree.

SGLang creates receivers in the same order on all ranks of a tensor parallelism. But it starts them
when the prefill server is known, which each rank finds out at its own time. A source that writes to
several ranks has one life for their hand-over, so all these ranks must give that life the same
number.
"""

from collections.abc import Callable
from threading import Lock
from typing import Final


class Turns:
    """Gives out numbers, and runs one action for each number, in the order of the numbers."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._drawn = self._next = 0
        self._waiting: Final[dict[int, Callable[[], None]]] = {}

    def draw(self) -> int:
        """The next number, from 0 on."""
        with self._lock:
            self._drawn += 1
            return self._drawn - 1

    def take(self, number: int, action: Callable[[], None]) -> None:
        """Run an action in its turn: now, or when all earlier numbers have been taken or skipped.

        A second action for the same number is ignored.
        """
        with self._lock:
            if number < self._next or number in self._waiting:
                return
            self._waiting[number] = action
            while self._next in self._waiting:
                self._waiting.pop(self._next)()
                self._next += 1

    def skip(self, number: int) -> None:
        """Skip this number, unless it has been taken."""
        self.take(number, _nothing)


def _nothing() -> None:
    """The action of a skipped number."""
