"""Formulas about counts and sums as clauses."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any, Protocol, TypeAlias

from pdproto.ground.clauses import NEVER, TRIVIAL
from pdproto.ground.layout import Indices
from pdproto.ground.program import Clause
from pdproto.spec.language.formula import (
    And,
    AtLeast,
    Atom,
    Before,
    Formula,
    Not,
    Or,
    Same,
    normal,
)
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid

Environment: TypeAlias = Mapping[Sort, int]


class Counting(Protocol):
    """Formulas at given sizes, as clausal.py:ClausalForm has them."""

    @property
    def given(self) -> Mapping[Any, frozenset[Indices]]:
        """The tuples of the rigid relations."""

    def environments(self, variables: tuple[Sort, ...]) -> Iterator[Environment]:
        """Every choice of elements for the variables."""

    def clauses(self, formula: Formula, environment: Environment) -> list[Clause]:
        """The clauses of a formula."""

    def joint(self, parts: Iterator[list[Clause]]) -> list[Clause]:
        """The clauses of a conjunction."""

    def product_of(self, parts: Iterator[list[Clause]]) -> list[Clause]:
        """The clauses of a disjunction."""


def at_least(ground: Counting, formula: AtLeast, environment: Environment) -> list[Clause]:
    """The clauses of the formula that the numbers, one of each place, are at least the bound.

    A place is a choice of elements that is counted. The greater its number, the less must the
    others be. So the formula is, for each number of the first place: it is a greater one, or the
    others are at least the rest of the bound. Clauses are made of those cases alone that count.
    """
    places = [(_possible(cases, inner, ground), inner)
              for summand in formula.summands
              for cases in [tuple((normal(case), number) for case, number in summand.cases)]
              for chosen in ground.environments(summand.variables)
              for inner in [{**environment, **chosen}]]
    least = [min(cases) for cases, _ in places]
    most = [max(cases) for cases, _ in places]

    @cache
    def clauses(place: int, number: int) -> list[Clause]:
        cases, inner = places[place]
        return ground.product_of(ground.clauses(case, inner) for case in cases[number])

    def greater(place: int, number: int, others: list[Clause]) -> list[Clause]:
        return others and ground.product_of(chain(
            (clauses(place, one) for one in places[place][0] if one > number), (others,)))

    @cache
    def from_place(place: int, rest: int) -> list[Clause]:
        if rest <= sum(least[place:]):
            return TRIVIAL
        if rest > sum(most[place:]):
            return NEVER
        return ground.joint(greater(place, number, from_place(place + 1, rest - number))
                            for number in sorted(places[place][0]))

    return from_place(0, formula.bound)


def _possible(
    cases: Iterable[tuple[Formula, int]], environment: Environment, ground: Counting
) -> dict[int, list[Formula]]:
    """The cases by their number, without those that the rigid relations exclude."""
    found: dict[int, list[Formula]] = {}
    for case, number in cases:
        truth = _truth(case, environment, ground)
        if truth:
            return {number: [case]}
        if truth is None:
            found.setdefault(number, []).append(case)
    return found


def _truth(formula: Formula, environment: Environment, ground: Counting) -> bool | None:
    """Whether a formula in negation normal form holds in all states, or in none; else None."""
    match formula:
        case And(parts) | Or(parts):
            deciding = isinstance(formula, Or)
            known = {_truth(part, environment, ground) for part in parts}
            return deciding if deciding in known else None if None in known else not deciding
        case Not(part):
            truth = _truth(part, environment, ground)
            return None if truth is None else not truth
        case Atom(symbol, arguments) if isinstance(symbol, Rigid):
            return tuple([environment[v] for v in arguments]) in ground.given[symbol]
        case Same(left, right):
            return environment[left] == environment[right]
        case Before(left, right):
            return environment[left] < environment[right]
    return None
