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
    whole = {*free_variables(formula)}
    waiting = [formula]
    while waiting:
        one = waiting.pop()
        match one:
            case And(parts) | Or(parts):
                waiting += parts
            case Forall(_, body) | Exists(_, body):
                waiting.append(body)
            case AtLeast():
                pass
            case _:
                continue
        free = free_variables(one)
        if not whole.issubset(free):
            yield FormulaPart(one, free)
