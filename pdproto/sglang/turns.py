"""The ranks of a decode group open their receivers in one order, so that lives have one number.

SGLang makes receivers in the same order on all ranks of a tensor parallelism. It begins them when
the prefill server is known; each rank learns that by itself, at its own time. A source that feeds
several ranks knows their hand-over by one life, so all these ranks must give it the same number.
"""

from collections.abc import Callable
from threading import Lock
from typing import Final


class Turns:
    """Gives out numbers, and runs the actions of their holders in the order of the numbers."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._drawn = self._next = 0
        self._waiting: Final[dict[int, Callable[[], None]]] = {}

    def draw(self) -> int:
        with self._lock:
            self._drawn += 1
            return self._drawn - 1

    def take(self, number: int, action: Callable[[], None]) -> None:
        """Run an action in its turn: now, or when all earlier numbers have been taken or passed.

        Does nothing for a number that has had its turn.
        """
        with self._lock:
            if number < self._next or number in self._waiting:
                return
            self._waiting[number] = action
            while self._next in self._waiting:
                self._waiting.pop(self._next)()
                self._next += 1

    def skip(self, number: int) -> None:
        """Give up this turn, unless it has been taken."""
        self.take(number, _nothing)


def _nothing() -> None:
    """The action of a turn that was passed: nothing."""
