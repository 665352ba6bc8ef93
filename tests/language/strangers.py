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

TEXTS: Final = {"about", "why", "kind"}  # fields whose text names nothing


class Foreign(Sort, ordered=True):
    """A sort that the system lacks."""


class ForeignPhase(State):
    ELSEWHERE = auto()
    NOWHERE = auto()


FOREIGN: Final = Machine("foreign")


@dataclass(frozen=True)
class Stranger:
    """A value at a path, and the field of the class in which it is."""

    path: tuple[object, ...]
    value: object
    at: str  # "Ranking.leads_to"

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))} = {self.value!r}"


def strangers(value: object) -> Iterator[Stranger]:
    """Every way to put one stranger into these values."""
    yield from _within(value, (), "")


def _within(value: Any, path: tuple[object, ...], at: str) -> Iterator[Stranger]:
    match value:
        case Place() | bool() | None | int():
            return
        case _ if value is ANY:
            return
        case str():
            if at.split(".")[-1] not in TEXTS:
                yield Stranger(path, "no_such_name", at)
        case Enum():
            if not at.endswith(".under"):
                yield Stranger(path, ForeignPhase.ELSEWHERE, at)
        case Sort() | type() | Symbol() | Machine():
            yield from (Stranger(path, other, at) for other in _unlike(value))
        case Mapping():
            for number, (key, part) in enumerate(value.items()):
                yield from _within(key, (*path, number, "key"), f"{at} key")
                yield from _within(part, (*path, number, "value"), at)
        case tuple() | list():
            for number, part in enumerate(value):
                yield from _within(part, (*path, number), at)
        case _ if is_dataclass(value):
            for field in fields(value):
                if field.init and field.name != "place":
                    yield from _within(getattr(value, field.name), (*path, field.name),
                                       f"{type(value).__name__}.{field.name}")


def _unlike(value: Any) -> Iterator[object]:
    match value:
        case Sort():
            yield type(value)("stranger")
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


def with_stranger(value: Any, path: tuple[object, ...], stranger: object) -> Any:
    """A copy of the values with the stranger at the path. Raises SpecError where a system refuses
    it.
    """
    if not path:
        return stranger
    first, *rest = path
    inner = tuple(rest)
    match value:
        case Mapping():
            items = [*value.items()]
            key, part = items[first]  # type: ignore[call-overload]
            which, *deeper = inner
            items[first] = (  # type: ignore[call-overload]
                (with_stranger(key, tuple(deeper), stranger), part) if which == "key" else
                (key, with_stranger(part, tuple(deeper), stranger)))
            return dict(items)
        case tuple() | list():
            parts = [*value]
            parts[first] = with_stranger(parts[first], inner, stranger)  # type: ignore[call-overload]
            return type(value)(parts)
    changed = with_stranger(getattr(value, str(first)), inner, stranger)
    if isinstance(value, System):
        return replaced(value, **{str(first): changed})
    other = copy.copy(value)
    object.__setattr__(other, str(first), changed)
    if hasattr(other, "_guards"):
        object.__setattr__(other, "_guards", {})
    return other
