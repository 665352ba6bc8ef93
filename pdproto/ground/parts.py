"""Parts of formulas that are about fewer variables than the whole: their clauses are made once.

A row with six parameters, whose guard compares three of them, would make the clauses of that
comparison again for each choice of the others.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from pdproto.ground.program import Clause
from pdproto.spec.language.formula import (
    And,
    AtLeast,
    Exists,
    Forall,
    Formula,
    Or,
    free_variables,
)
from pdproto.spec.language.sorts import Sort

Environment: TypeAlias = Mapping[Sort, int]


class FormulaPart:
    """A part of a formula, and its clauses by the elements of its free variables."""

    __slots__ = ("_made", "formula", "free")

    def __init__(self, formula: Formula, free: tuple[Sort, ...]) -> None:
        self.formula = formula  # kept, so that no other formula gets its id
        self.free = free
        self._made: dict[tuple[int, ...], list[Clause]] = {}

    def known(self, environment: Environment) -> list[Clause] | None:
        """The clauses, if they have been made."""
        return self._made.get(self._key(environment))

    def keep(self, environment: Environment, clauses: list[Clause]) -> list[Clause]:
        """The clauses, which are kept: nobody changes them."""
        self._made[self._key(environment)] = clauses
        return clauses

    def _key(self, environment: Environment) -> tuple[int, ...]:
        return tuple([environment[v] for v in self.free])


def parts_of(formula: Formula) -> Iterator[FormulaPart]:
    """The parts of a formula that lack one of its free variables, or more."""
    found: list[tuple[Formula, frozenset[Sort]]] = []
    whole = _collect(formula, found)
    for part, free in found:
        if free < whole:
            yield FormulaPart(part, tuple(free))


def _collect(formula: Formula, found: list[tuple[Formula, frozenset[Sort]]]) -> frozenset[Sort]:
    """The free variables; each part that is worth keeping is put behind `found`, with its own."""
    match formula:
        case And(parts) | Or(parts):
            mentioned = formula.mentions if isinstance(formula, And) else ()
            free = frozenset(mentioned).union(*(_collect(part, found) for part in parts))
        case Forall(variable, body) | Exists(variable, body):
            free = _collect(body, found) - {variable}
        case AtLeast():
            free = frozenset(free_variables(formula))
        case _:
            return frozenset(free_variables(formula))
    found.append((formula, free))
    return free
