"""The numbers of a decode rank's lives: the next one, the open ones, and the floor below them."""

from collections import deque
from typing import Final


class Generations:
    """floor: every life with a number below it is over. Lives begin in the order of their numbers.
    """

    def __init__(self) -> None:
        self.floor = 0
        self._next = 0
        self._open: Final[set[int]] = set()
        self._begun: Final[deque[int]] = deque()  # from the oldest that is open on

    def next(self, given: int | None) -> int:
        """The number of the next life: the given one, if there is one."""
        return self._next if given is None else given

    def use(self, number: int) -> None:
        """A life of this number will begin."""
        self._next = max(self._next, number + 1)

    def begin(self, number: int) -> None:
        """The life begins."""
        self._open.add(number)
        self._begun.append(number)

    def end(self, number: int) -> None:
        """The life is over. The floor rises when the oldest open life ends."""
        self._open.remove(number)
        while self._begun and self._begun[0] not in self._open:
            self.floor = self._begun.popleft() + 1
