"""The values of functions: members of enums."""

import enum
from typing import Any


class State(enum.Enum):
    """Base of the enums in which functions take values. The first member is the initial value.

    Members written with `auto()` read as their names in lower case.
    """

    @staticmethod
    def _generate_next_value_(
        name: str, start: int, count: int, last_values: list[Any]  # noqa: ARG004 - enum's protocol
    ) -> str:
        return name.lower()

    # A name has only one member, so its identity is enough, and costs no call.
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return str(self.value)


class Number(State):
    """A whole number as a value of a function (numbers.py); each range is an enum of them."""
