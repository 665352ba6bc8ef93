"""Puts strangers into a system and its proofs: in turn, each name becomes one that nothing has.

A path leads from the values of a module to a part: names of fields, keys and numbers. Parts are
copied without their constructors, as a factory or a mistaken import would make them; the system is
built again, so its own rules are asked.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from dataclasses import replace as replaced
from enum import Enum
from typing import Any, Final

from pdproto.spec.language import Machine, Sort, State, System, auto
from pdproto.spec.language.place import Place
from pdproto.spec.language.sorts import ANY
from pdproto.spec.language.symbols import Rigid, Symbol

TEXTS: Final = ("about", "why", "kind")  # the text of these fields names nothing
# Constructors refuse other sorts and values here (test_refuses.py).
ARGUMENTS: Final = ("arguments", "left", "right", "value")


class Foreign(Sort, ordered=True):
    """A sort that the system lacks."""


class ForeignPhase(State):
    ELSEWHERE = auto()
    NOWHERE = auto()


FOREIGN: Final = Machine("foreign")


@dataclass(frozen=True)
class Part:
    """A part with its path, and the field that has it: "Ranking.leads_to"."""

    value: Any
    path: tuple[Any, ...] = ()
    at: str = ""

    def within(self) -> Iterator["Part"]:
        """The parts of this one."""
        match self.value:
            case Mapping():
                for number, (key, part) in enumerate(self.value.items()):
                    yield Part(key, (*self.path, number, "key"), f"{self.at} key")
                    yield Part(part, (*self.path, number, "value"), self.at)
            case tuple() | list():
                for number, part in enumerate(self.value):
                    yield Part(part, (*self.path, number), self.at)
            case _ if is_dataclass(self.value) and not isinstance(self.value, Place):
                kind = type(self.value).__name__
                for field in fields(self.value):
                    if field.init and field.name != "place":
                        yield Part(getattr(self.value, field.name), (*self.path, field.name),
                                   f"{kind}.{field.name}")

    def every(self) -> Iterator["Part"]:
        """This part, its parts, and so on."""
        yield self
        for part in self.within():
            yield from part.every()

    def unlike(self) -> Iterator[object]:
        """Strangers to put in its place."""
        value, field = self.value, self.at.rpartition(".")[2]
        if value is ANY or field in TEXTS:
            return
        match value:
            case Enum() if field not in (*ARGUMENTS, "under"):
                yield ForeignPhase.ELSEWHERE
            case str() if not isinstance(value, Enum):
                yield "no_such_name"
            case Sort():
                yield type(value)("stranger")
                if field not in ARGUMENTS:
                    yield Foreign("x")
            case type():
                yield Foreign
            case Rigid():
                other = copy.copy(value)
                vars(other)["name"] = "stranger"
                yield other
            case Symbol():  # as if its module had been imported by two names
                yield copy.copy(value)
            case Machine():
                yield FOREIGN


def with_stranger(value: Any, path: tuple[Any, ...], stranger: object) -> Any:
    """A copy of the values with the stranger at the path. Raises SpecError where a system refuses
    it.
    """
    if not path:
        return stranger
    first, *inner = path
    if isinstance(value, Mapping):
        items = [*value.items()]
        pair = [*items[first]]
        number = ("key", "value").index(inner[0])
        pair[number] = with_stranger(pair[number], tuple(inner[1:]), stranger)
        items[first] = (pair[0], pair[1])
        return dict(items)
    if isinstance(value, tuple | list):
        parts = [*value]
        parts[first] = with_stranger(parts[first], tuple(inner), stranger)
        return type(value)(parts)
    changed = with_stranger(getattr(value, first), tuple(inner), stranger)
    if isinstance(value, System):
        return replaced(value, **{first: changed})
    other = copy.copy(value)
    object.__setattr__(other, first, changed)
    if hasattr(other, "_guards"):
        object.__setattr__(other, "_guards", {})
    return other
