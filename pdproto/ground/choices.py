"""The choices of a row's parameters for which its rigid and static conditions hold.

A condition is static if it reads no state: rigid relations, identity and order of elements. Each is
looked at as soon as its variables have elements, and of a rigid relation only the elements are
tried that it has. The choices come in the order of the product of all elements.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from pdproto.ground.layout import Indices, TooLargeError
from pdproto.ground.program import Clause, simplified
from pdproto.spec.language.formula import (
    And,
    Atom,
    Formula,
    atoms,
    counts,
    free_variables,
)
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid, Sizes

TRIED_MAX: Final = 10_000_000  # elements tried for the parameters of one row: they take 10 s


def conjuncts(formula: Formula) -> Iterator[Formula]:
    """The parts that must all hold, of a formula in negation normal form."""
    if isinstance(formula, And):
        for part in formula.parts:
            yield from conjuncts(part)
    else:
        yield formula


def is_static(formula: Formula) -> bool:
    """Whether the formula reads no state."""
    return all(isinstance(atom.symbol, Rigid) for atom, _ in atoms(formula)) and not any(
        True for _ in counts(formula))


class Grounded(Protocol):
    """A ground system, as far as it reads no state."""

    @property
    def sizes(self) -> Sizes:
        """Of each sort."""

    @property
    def given(self) -> Mapping[Any, frozenset[Indices]]:
        """The tuples of the rigid relations."""

    def clauses(self, formula: Formula, environment: Mapping[Sort, int]) -> list[Clause]:
        """The clauses of a formula; one is empty where a static formula does not hold."""


class Choices:
    """The choices of elements for some variables that satisfy the static parts of a guard."""

    def __init__(self, variables: Sequence[Sort], guard: Formula, ground: "Grounded") -> None:
        self.variables: Final = tuple(variables)
        self.ground: Final = ground
        self._tests: Final[list[list[Formula]]] = [[] for _ in self.variables]
        self._known: Final[list[list[tuple[tuple[Sort, ...], dict[Indices, set[int]]]]]] = [
            [] for _ in self.variables]
        self._never = False
        self._tried = 0
        for part in conjuncts(guard):
            free = free_variables(part)
            if not is_static(part) or not {*free} <= {*self.variables}:
                continue
            if not free:
                self._never |= not self._holds(part, {})
                continue
            last = max(map(self.variables.index, free))
            if isinstance(part, Atom):
                self._known[last].append(self._indexed(part, self.variables[last]))
            else:
                self._tests[last].append(part)

    def _holds(self, formula: Formula, chosen: dict[Sort, int]) -> bool:
        return simplified(self.ground.clauses(formula, chosen)) is not None

    def _indexed(
        self, atom: Atom, last: Sort
    ) -> tuple[tuple[Sort, ...], dict[Indices, set[int]]]:
        """The elements of the last variable, by those of the others."""
        others = tuple(v for v in atom.arguments if v != last)
        found: dict[Indices, set[int]] = {}
        for at in self.ground.given[atom.symbol]:
            own = {i for v, i in zip(atom.arguments, at, strict=True) if v == last}
            if len(own) == 1:
                key = tuple(i for v, i in zip(atom.arguments, at, strict=True) if v != last)
                found.setdefault(key, set()).update(own)
        return others, found

    def __iter__(self) -> Iterator[dict[Sort, int]]:
        return iter(()) if self._never else self._from(0, {})

    def _from(self, place: int, chosen: dict[Sort, int]) -> Iterator[dict[Sort, int]]:
        if place == len(self.variables):
            yield dict(chosen)
            return
        variable = self.variables[place]
        elements: Any = range(self.ground.sizes[type(variable)])
        for others, found in self._known[place]:
            own = found.get(tuple(chosen[v] for v in others), ())
            elements = [i for i in elements if i in own]
        for i in elements:
            self._tried += 1
            if self._tried > TRIED_MAX:
                raise TooLargeError(f"over {TRIED_MAX:,} choices of elements for one row")
            inner = {**chosen, variable: i}
            if all(self._holds(part, inner) for part in self._tests[place]):
                yield from self._from(place + 1, inner)
