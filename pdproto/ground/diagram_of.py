"""Formulas as decision diagrams (diagrams.py)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from pdproto.ground.clauses import NEVER
from pdproto.ground.decisions import NO, YES
from pdproto.ground.diagrams import Diagram, Diagrams
from pdproto.ground.layout import Indices, Layout
from pdproto.ground.program import Clause
from pdproto.spec.language.formula import (
    And,
    AtLeast,
    Atom,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    normal,
)
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid


class Grounds(Protocol):
    """Formulas at given sizes, as grounding.py:Grounder has them."""

    @property
    def layout(self) -> Layout:
        """The layout of a state."""

    def environments(self, variables: tuple[Sort, ...]) -> Iterator[Mapping[Sort, int]]:
        """Every choice of elements for the variables."""

    def cell(self, arguments: tuple[Sort, ...], environment: Mapping[Sort, int]) -> Indices:
        """The indices of a cell with these arguments."""

    def clauses(self, formula: Formula, environment: Mapping[Sort, int]) -> list[Clause]:
        """The clauses of a formula."""


def diagram_of(
    grounder: Grounds, diagrams: Diagrams, formula: Formula, environment: Mapping[Sort, int],
) -> Diagram:
    """A formula in negation normal form as a diagram. Raises TooManyNodesError."""

    def inner(part: Formula, within: Mapping[Sort, int] = environment) -> Diagram:
        return diagram_of(grounder, diagrams, part, within)

    match formula:
        case And(parts):
            return diagrams.all_of(map(inner, parts))
        case Or(parts):
            return diagrams.any_of(map(inner, parts))
        case Forall(variable, body):
            return diagrams.all_of(inner(body, {**environment, **one})
                                   for one in grounder.environments((variable,)))
        case Exists(variable, body):
            return diagrams.any_of(inner(body, {**environment, **one})
                                   for one in grounder.environments((variable,)))
        case AtLeast(summands, bound):
            return diagrams.at_least([
                {number: diagrams.any_of(inner(case, {**environment, **chosen}) for case in cases)
                 for number, cases in by_number.items()}
                for one in summands for by_number in [_by_number(one.cases)]
                for chosen in grounder.environments(one.variables)], bound)
        case Atom(symbol, arguments, value) | Not(Atom(symbol, arguments, value)) if not isinstance(
                symbol, Rigid):
            field = grounder.layout.field(symbol, grounder.cell(arguments, environment))
            return diagrams.cell(field.mask, len(symbol.values), symbol.values.index(value),
                                 positive=isinstance(formula, Atom))
    return NO if grounder.clauses(formula, environment) is NEVER else YES


def _by_number(cases: Iterable[tuple[Formula, int]]) -> dict[int, list[Formula]]:
    """The cases in negation normal form, by their number."""
    found: dict[int, list[Formula]] = {}
    for case, number in cases:
        found.setdefault(number, []).append(normal(case))
    return found
