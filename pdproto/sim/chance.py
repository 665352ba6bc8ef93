"""Chance as an argument: streams of numbers by name, each its own, so that what is taken out of a
run changes nothing for what remains.

Only `random()` is asked of a generator: of all that generators do, it is what Python promises to
keep. Everything else here is sums and products, which come out alike on every machine.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

TAIL: Final = 0.01  # of all delays,
TAIL_FACTOR: Final = 20.0  # which are so many times as long, at most


class Generator(Protocol):
    """What `random.Random` is, as far as it is used here."""

    def random(self) -> float:
        """The next number, at least 0 and below 1."""


Seeded: TypeAlias = Callable[[str], Generator]


class Stream:
    """Numbers for one purpose. The same seed and name give the same numbers."""

    __slots__ = ("number",)

    def __init__(self, seeded: Seeded, name: str) -> None:
        self.number: Final = seeded(name).random

    def strikes(self, probability: float) -> bool:
        """True so often."""
        return probability > 0.0 and self.number() < probability

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.number()

    def whole(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self.number() * (high - low + 1))

    def one(self, among: Sequence[T]) -> T:
        return among[int(self.number() * len(among))]

    def delay(self, typical: float) -> float:
        """A time that is mostly about so long, and sometimes much longer."""
        seconds = typical * (0.5 + self.number())
        if self.number() < TAIL:
            seconds *= 1.0 + TAIL_FACTOR * self.number()
        return seconds
