"""Formulas at given sizes as clauses (clauses.py)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

from pdproto.ground.clauses import joint, product_of, static
from pdproto.ground.counted import at_least
from pdproto.ground.layout import Indices, Layout
from pdproto.ground.parts import FormulaPart, parts_of
from pdproto.ground.program import Clause
from pdproto.spec.language.formula import (
    And,
    AtLeast,
    Atom,
    Before,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
)
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid

Environment: TypeAlias = Mapping[Sort, int]


class Sized(Protocol):
    """A ground system, as grounding.py:Grounder has it."""

    @property
    def layout(self) -> Layout:
        """The layout of a state."""

    @property
    def given(self) -> Mapping[Any, frozenset[Indices]]:
        """The tuples of the rigid relations."""

    def environments(self, variables: tuple[Sort, ...]) -> Iterator[Environment]:
        """Every choice of elements for the variables."""


class ClausalForm:
    """Formulas in negation normal form as clauses. most: a longer list is not made. patient: as of
    `joint`; without it, a formula of too many clauses is told early.
    """

    def __init__(self, ground: Sized, most: int, *, patient: bool = True) -> None:
        self.given: Final = ground.given
        self.environments: Final = ground.environments
        self.most: Final = most
        self.patient: Final = patient
        self._layout: Final = ground.layout
        self._parts: Final[dict[int, FormulaPart]] = {}  # by the id of the formula

    def remember(self, formula: Formula) -> None:
        """Keep the clauses of the parts of a formula, which is asked for many environments."""
        self._parts.update((id(part.formula), part) for part in parts_of(formula))

    def clauses(self, formula: Formula, environment: Environment) -> list[Clause]:
        """The clauses of a formula, or TOO_MANY."""
        part = self._parts.get(id(formula))
        if part is None:
            return self._made(formula, environment)
        made = part.known(environment)
        return part.keep(environment, self._made(formula, environment)) if made is None else made

    def joint(self, parts: Iterator[list[Clause]]) -> list[Clause]:
        """The clauses of a conjunction, or TOO_MANY."""
        return joint(parts, self.most, patient=self.patient)

    def product_of(self, parts: Iterator[list[Clause]]) -> list[Clause]:
        """The clauses of a disjunction, or TOO_MANY."""
        return product_of(parts, self.most, patient=self.patient)

    def _made(self, formula: Formula, environment: Environment) -> list[Clause]:
        match formula:
            case And(parts):
                return self.joint(self.clauses(part, environment) for part in parts)
            case Or(parts):
                return self.product_of(self.clauses(part, environment) for part in parts)
            case Forall(variable, body):
                return self.joint(self._each(variable, body, environment))
            case Exists(variable, body):
                return self.product_of(self._each(variable, body, environment))
            case Atom():
                return self._atom(formula, environment, positive=True)
            case Not(Atom() as atom):
                return self._atom(atom, environment, positive=False)
            case Same(left, right):
                return static(environment[left] == environment[right])
            case Not(Same(left, right)):
                return static(environment[left] != environment[right])
            case Before(left, right):
                return static(environment[left] < environment[right])
            case Not(Before(left, right)):
                return static(environment[left] >= environment[right])
            case AtLeast():
                return at_least(self, formula, environment)
            case _:
                raise AssertionError(f"not in negation normal form: {formula!r}")

    def _each(
        self, variable: Sort, body: Formula, environment: Environment
    ) -> Iterator[list[Clause]]:
        for chosen in self.environments((variable,)):
            yield self.clauses(body, {**environment, **chosen})

    def _atom(self, atom: Atom, environment: Environment, *, positive: bool) -> list[Clause]:
        indices = tuple([environment[v] for v in atom.arguments])
        if isinstance(atom.symbol, Rigid):
            return static((indices in self.given[atom.symbol]) == positive)
        values = atom.symbol.values
        wanted = (atom.value,) if positive else tuple(v for v in values if v != atom.value)
        return [tuple(self._layout.literal(atom.symbol, indices, value) for value in wanted)]
