"""The condition under which a formula or a number is meant: no index is past the end.

Rule 1: The parts of a conjunction are read in their order, and a part only where those before it
hold; of a disjunction, only where they do not. So `~log(s).empty & (log(s).head == v)` and
`implies(log(s).length > 2, log(s).at(2) == v)` are meant in each state.
"""

from collections.abc import Iterable
from typing import Any

from .computed import Chosen, both
from .formula import (
    TRUE,
    And,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    all_of,
    any_of,
    forall,
    implies,
)
from .numbers import Either, Extreme, Total
from .sequences import Item, Needing, NumberItem
from .terms import Arithmetic, Comparison, Term
from .updates import Computed, Update


def defined(part: Any) -> Formula:
    """The formula that each index in a formula, or in a value that is assigned, has an element."""
    match part:
        case Needing():
            return both(part.needs, _in_order(part.parts))
        case Comparison(left=left, right=right):
            return both(defined(left), defined(right))
        case And(parts):
            return _in_order(parts)
        case Or(parts):
            return _in_order(parts, holds=False)
        case Not(inner):
            return defined(inner)
        case Forall(variable, body) | Exists(variable, body):
            inside = defined(body)
            return TRUE if inside == TRUE else forall(variable, inside)
        case Formula():
            return TRUE
        case NumberItem() | Item():
            return both(defined(part.index), part.needs)
        case Computed(term):
            return defined(term)
        case Term() | Chosen():
            return _of_value(part)
        case _:
            return TRUE


def _of_value(part: Term | Chosen) -> Formula:
    match part:
        case Either() | Chosen():
            return both(defined(part.where), both(
                _where(part.where, defined(part.yes)), _where(Not(part.where), defined(part.no))))
        case Total(variables=variables, each=each, where=where) | Extreme(
                variables=variables, each=each, where=where):
            inside = both(defined(where), _where(where, defined(each)))
            return TRUE if inside == TRUE else forall(variables, inside)
        case Arithmetic(left=left, right=right):
            return both(defined(left), defined(right))
    return TRUE


def defined_update(update: Update) -> Formula:
    """The same of an update: of its `where`, and where that holds of its value."""
    inside = both(defined(update.where), _where(update.where, defined(update.value)))
    return inside if inside == TRUE or not update.variables else forall(update.variables, inside)


def _in_order(parts: Iterable[Formula], *, holds: bool = True) -> Formula:
    found: list[Formula] = []
    before: list[Formula] = []
    for part in parts:
        inside = defined(part)
        if inside != TRUE:
            if not before:
                found.append(inside)
            elif holds:
                found.append(implies(all_of(*before), inside))
            else:
                found.append(any_of(*before, inside))
        before.append(part)
    return all_of(*found) if found else TRUE


def _where(condition: Formula, inside: Formula) -> Formula:
    return inside if TRUE in (condition, inside) else implies(condition, inside)
