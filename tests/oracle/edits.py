"""Random edits of random systems, of any field of any object of the language.

Half of them are the same draw, in which one decision fell otherwise: so an edit reaches whatever is
drawn, declarations too, and often much of what is drawn later. The others give one field of one
object the value that it has in another object of the same class.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any, TypeVar

from pdproto.spec.language import Configuration, SpecError, System, Table
from pdproto.spec.language.place import Place
from tests.oracle.systems import RefusedError, made

Number = TypeVar("Number", int, float)
Told = TypeVar("Told")
ATTEMPTS = 20  # of a seed, to draw a system
TURNS = 1_000  # of edits of one system
LEFT_ALONE = {"place", "name", "machine", "like", "symbol"}


class Swerving(Random):
    """Draws as its seed says, but otherwise at the call of one number."""

    calls = 0
    at = -1

    def getrandbits(self, count: int, /) -> int:
        return super().getrandbits(count) ^ self._swerve(1)

    def random(self) -> float:
        return (super().random() + self._swerve(0.5)) % 1.0

    def _swerve(self, change: Number) -> Number:
        self.calls += 1
        return change if self.calls - 1 == self.at else type(change)(0)


def drawn(seed: int, number: int, at: int = -1) -> tuple[System, Configuration, int] | None:
    """The system of one of the attempts of a seed, and the number of decisions; None if refused."""
    rng = Swerving(f"{seed} {number}")
    rng.at = at
    with suppress(SpecError, RefusedError, IndexError):
        return (*made(rng, seed), rng.calls)
    return None


def edits(seed: int, number: int) -> Iterator[tuple[System, Configuration]]:
    """The system of an attempt of a seed, and many edits of it; none if it is refused."""
    first = drawn(seed, number)
    if first is None:
        return
    system, configuration, decisions = first
    yield system, configuration
    rng = Random(seed)  # noqa: S311 - no secret
    for turn in range(TURNS):
        other = drawn(seed, number, rng.randrange(decisions)) if turn % 2 else None
        with suppress(Exception):  # an exchange may write what no spec module could
            yield other[:2] if other else (exchanged(system, rng), configuration)


def told_apart(
    seed: int, count: int, ask: Callable[[System, Configuration], Told],
    is_answer: Callable[[Told], object],
) -> list[tuple[System, Configuration, Told]]:
    """A system of the seed and at least so many edits of it, with what is told of each: the first
    is answered, and so are half of the edits, of which one has another answer. Raises
    AssertionError if there are no such edits.
    """
    for number in range(ATTEMPTS):
        found: list[tuple[System, Configuration, Told]] = []
        for one in edits(seed, number):
            found.append((*one, ask(*one)))
            answers = [repr(told) for *_, told in found if is_answer(told)]
            if not answers or len(found) > 5 * count:
                break
            if len(found) > count and 2 * len(answers) > count and len({*answers}) > 1:
                return found
    raise AssertionError(f"seed {seed}: no edits are told apart, of {ATTEMPTS} systems")


def exchanged(system: System, rng: Random) -> System:
    """The system with one field of one object as in another object of the same class."""
    every = [one for one in inside(system) if one is not system]
    one = rng.choice(every)
    name = rng.choice(written(one))
    value = getattr(one, name)
    others = [getattr(other, name) for other in every if type(other) is type(one)]
    value = not value if isinstance(value, bool) else rng.choice(
        [other for other in others if repr(other) != repr(value)])
    edited: System = instead(system, one, name, value)
    return edited


def written(one: Any) -> list[str]:
    """The fields that an author writes, and an edit may change."""
    return [field.name for field in fields(one) if field.init and field.name not in LEFT_ALONE]


def inside(value: Any) -> Iterator[Any]:
    """Every object with fields in this one."""
    if is_dataclass(value) and not isinstance(value, type | Place):
        yield value
        for field in written(value):
            yield from inside(getattr(value, field, None))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from inside(part)
    elif isinstance(value, Mapping):
        yield from inside(tuple(value.values()))


def instead(whole: Any, one: object, name: str, value: object) -> Any:
    """The same, where this field of the object has the value."""
    if isinstance(whole, tuple | list):
        return type(whole)(instead(part, one, name, value) for part in whole)
    if isinstance(whole, Mapping):
        return {key: instead(part, one, name, value) for key, part in whole.items()}
    if not is_dataclass(whole) or isinstance(whole, type | Place):
        return whole
    new: dict[str, Any] = {
        field: value if whole is one and field == name else instead(
            getattr(whole, field), one, name, value)
        for field in written(whole) if hasattr(whole, field)}
    if isinstance(whole, System | Table):
        return replace(whole, **new)
    changed = copy(whole)
    for field, part in new.items():
        object.__setattr__(changed, field, part)
    return changed
