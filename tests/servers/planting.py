"""Puts a defect into the classes and modules of this process; a place that has gone is an error.

A defect that finds no place to be put in would prove nothing: its test would be green, and seen red
only in an old record.
"""

from collections.abc import Callable
from typing import Any


def wrap(kind: Any, name: str, around: Callable[..., Any]) -> None:
    """around: takes the old method, self, and the arguments. Raises AttributeError."""
    old = getattr(kind, name)

    def changed(self: Any, *given: Any, **named: Any) -> Any:
        return around(old, self, *given, **named)

    setattr(kind, name, changed)


def replace(place: Any, name: str, by: Any) -> None:
    """Replace a name of a module or an object. Raises AttributeError if it has no such name."""
    getattr(place, name)
    setattr(place, name, by)
