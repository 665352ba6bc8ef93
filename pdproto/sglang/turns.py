"""The ranks of a decode group open their receivers in one order, so that lives have one number.

SGLang makes receivers in the same order on all ranks of a tensor parallelism, and begins them when
the prefill server is known, which each rank learns by itself. A source that feeds several ranks
knows their hand-over by one life, whose number all of them must have found alone.
"""

from collections.abc import Callable
from threading import Lock
from typing import Final


class Turns:
    """Numbers in the order of `draw`; what is to be done with them is done in that order."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._drawn = self._next = 0
        self._waiting: Final[dict[int, Callable[[], None]]] = {}

    def draw(self) -> int:
        with self._lock:
            self._drawn += 1
            return self._drawn - 1

    def take(self, number: int, action: Callable[[], None]) -> None:
        """Do this in its turn: now, or when all earlier numbers have been taken or passed.

        A number that has had its turn is left alone.
        """
        with self._lock:
            if number < self._next or number in self._waiting:
                return
            self._waiting[number] = action
            while self._next in self._waiting:
                self._waiting.pop(self._next)()
                self._next += 1

    def skip(self, number: int) -> None:
        """Nothing will be done in this turn, unless it has been taken."""
        self.take(number, _nothing)


def _nothing() -> None:
    """What a number does that is passed."""
