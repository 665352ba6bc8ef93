"""The ranges of numbers, and sums of a number with what is counted (numbers.py)."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

from .formula import Summand
from .kinds import require, shown
from .states import Number

WIDEST: Final = 1 << 10  # numbers of one range


@dataclass(frozen=True, slots=True, repr=False)
class Int:
    """The range of a function's values: `Int(0, 5)` has 0 and 5 and the numbers between them.

    saturates: an update that would leave the range assigns its nearest number.
    """

    low: int
    high: int
    saturates: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        low, high = self.low, self.high
        for end in (low, high):
            require(type(end) is int, f"Int({shown(low)}, {shown(high)}): want two whole numbers, "
                                      "the least and the greatest value, as in Int(0, 5)")
        require(low < high, f"Int({low}, {high}): the least value comes first, and then a greater "
                            "one")
        require(high - low < WIDEST, f"Int({low}, {high}) has {high - low + 1:,} numbers: at most "
                                     f"{WIDEST:,} fit; give the range that the protocol needs")

    @property
    def values(self) -> tuple[Number, ...]:
        """The numbers in ascending order, as values of a function."""
        return tuple(_numbers(self.low, self.high))

    @property
    def numbers(self) -> range:
        """The numbers in ascending order."""
        return range(self.low, self.high + 1)

    def value(self, number: int) -> Number:
        """The number as a value."""
        return self.values[number - self.low]

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high

    def __repr__(self) -> str:
        return f"Int({self.low}, {self.high}{', saturates=True' if self.saturates else ''})"


@cache
def _numbers(low: int, high: int) -> Any:
    names = {f"{'minus_' if n < 0 else 'n'}{abs(n)}": n for n in range(low, high + 1)}
    return Number(f"Int_{low}_{high}".replace("-", "minus_"), names)  # type: ignore[call-arg]  # it makes an enum


class Numeric(Protocol):
    """A variable of a sort of numbers (numbered.py)."""

    @property
    def number(self) -> Any:
        """The number that it is, as a term."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A number, and what is counted: `constant + sum of factor * summand`."""

    constant: int
    counted: tuple[tuple[int, Summand], ...] = ()

    def plus(self, other: "Linear", factor: int = 1) -> "Linear":
        """This and `factor` times the other."""
        more = tuple((n * factor, one) for n, one in other.counted)
        return Linear(self.constant + factor * other.constant, self.counted + more)
