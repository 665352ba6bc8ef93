"""Random numbers as arguments: independent streams, each with a name. So when an event is removed
from a run, the numbers of the other events stay the same.

Only `random()` of a generator is used, because Python guarantees its values across releases. All
other numbers are sums and products of those, so they are the same on every machine.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

TAIL: Final = 0.01  # the share of delays that are much longer than the others
TAIL_FACTOR: Final = 20.0  # how many times as long they are, at most


class Generator(Protocol):
    """The part of `random.Random` that is used here."""

    def random(self) -> float:
        """The next number, at least 0 and below 1."""


Seeded: TypeAlias = Callable[[str], Generator]


class Stream:
    """Random numbers for one purpose. The same seed and name give the same numbers."""

    __slots__ = ("number",)

    def __init__(self, seeded: Seeded, name: str) -> None:
        self.number: Final = seeded(name).random

    def happens(self, probability: float) -> bool:
        """True with this probability."""
        return probability > 0.0 and self.number() < probability

    def between(self, low: float, high: float) -> float:
        """A number from low to high."""
        return low + (high - low) * self.number()

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.number() * (high - low + 1))

    def one(self, among: Sequence[T]) -> T:
        """One element of the sequence."""
        return among[int(self.number() * len(among))]

    def delay(self, typical: float) -> float:
        """A random delay: 0.5 to 1.5 times the typical one, and sometimes much longer."""
        seconds = typical * (0.5 + self.number())
        if self.number() < TAIL:
            seconds *= 1.0 + TAIL_FACTOR * self.number()
        return seconds
