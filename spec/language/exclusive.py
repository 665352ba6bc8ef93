"""Whether two conditions exclude each other, by all truth values of their parts.

A cell of a function has one of its values. A part with a quantifier or a count, and an order, may
be true or false whatever the other parts are. So an answer of yes is right, and one of no may be
too careful.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

from .formula import And, Atom, Formula, Not, Or, Same
from .sorts import Sort

Names: TypeAlias = Mapping[Sort, Sort]
Condition: TypeAlias = tuple[Formula, Names]  # and the names that its variables get

CHOICES_MAX: Final = 4_096  # of values for the parts


def exclude_each_other(conditions: Sequence[Condition]) -> bool:
    """Whether the conditions cannot hold together."""
    parts = dict(part for formula, names in conditions for part in _parts(formula, names))
    for number, values in enumerate(product(*parts.values())):
        chosen = dict(zip(parts, values, strict=True))
        if number == CHOICES_MAX or all(_holds(*one, chosen) for one in conditions):
            return False
    return True


def _parts(formula: Formula, names: Names) -> Iterator[tuple[Hashable, Sequence[Any]]]:
    """The parts that may be true or false, each with its values."""
    match formula:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _parts(part, names)
        case Not(part):
            yield from _parts(part, names)
        case Atom(symbol):
            yield _key(formula, names), (False, True) if symbol.is_boolean else symbol.values
        case _:
            yield _key(formula, names), (False, True)


def _holds(formula: Formula, names: Names, chosen: Mapping[Hashable, Any]) -> bool:
    match formula:
        case And(parts):
            return all(_holds(part, names, chosen) for part in parts)
        case Or(parts):
            return any(_holds(part, names, chosen) for part in parts)
        case Not(part):
            return not _holds(part, names, chosen)
        case Atom(_, _, value):
            return bool(chosen[_key(formula, names)] == value)
        case Same(left, right) if names.get(left, left) == names.get(right, right):
            return True
        case _:
            return bool(chosen[_key(formula, names)])


def _key(formula: Formula, names: Names) -> Hashable:
    """What two parts have in common that are true together."""
    match formula:
        case Atom(symbol, arguments):
            return symbol, tuple(names.get(one, one) for one in arguments)
        case Same(left, right):
            return frozenset((names.get(left, left), names.get(right, right)))
        case _:
            return formula, tuple(names.items())
