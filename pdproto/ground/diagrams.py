"""Formulas as decision diagrams over cells: for those that need too many clauses.

A diagram is a number: NO, YES, or a node that asks for the value of one cell and goes on with one
diagram for each value. Cells are asked in one order, and equal nodes are one, so equal formulas are
one number (Bryant, "Graph-based algorithms for Boolean function manipulation", 1986). The paths to
YES are cubes that exclude each other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, TypeAlias

from pdproto.ground.program import Literal

Diagram: TypeAlias = int
Cases: TypeAlias = Mapping[int, Diagram]

NO: Final[Diagram] = 0
YES: Final[Diagram] = 1
NODES_MAX: Final = 20_000
CELLS_MAX: Final = 250  # a path is as long, and one call deep for each


class TooManyNodesError(Exception):
    """The diagrams of a formula have over NODES_MAX nodes, or ask for over CELLS_MAX cells."""


class Diagrams:
    """The nodes of the diagrams of one formula.

    A cell is its mask and the literals of its values; cells are asked in the order of their bits.
    """

    def __init__(self) -> None:
        self._nodes: list[tuple[int, tuple[Diagram, ...]]] = [(-1, ()), (-1, ())]
        self._known: dict[tuple[int, tuple[Diagram, ...]], Diagram] = {}
        self._literals: dict[int, tuple[Literal, ...]] = {}
        self._joined: dict[tuple[bool, Diagram, Diagram], Diagram] = {}

    def _node(self, mask: int, children: tuple[Diagram, ...]) -> Diagram:
        if children.count(children[0]) == len(children):
            return children[0]
        key = mask, children
        if key not in self._known:
            if len(self._nodes) >= NODES_MAX:
                raise TooManyNodesError
            self._known[key] = len(self._nodes)
            self._nodes.append(key)
        return self._known[key]

    def among(self, literals: Sequence[Literal], wanted: Iterable[Literal]) -> Diagram:
        """The formula that one of the wanted literals holds, of all those of one cell."""
        mask = literals[0].mask
        self._literals[mask] = tuple(literals)
        if len(self._literals) > CELLS_MAX:
            raise TooManyNodesError
        kept = set(wanted)
        return self._node(mask, tuple(YES if one in kept else NO for one in literals))

    def all_of(self, parts: Iterable[Diagram]) -> Diagram:
        """All of them hold."""
        return reduce(lambda one, two: self._join(one, two, both=True), parts, YES)

    def any_of(self, parts: Iterable[Diagram]) -> Diagram:
        """One of them holds."""
        return reduce(lambda one, two: self._join(one, two, both=False), parts, NO)

    def at_least(self, weighed: Sequence[Cases], bound: int) -> Diagram:
        """The numbers of the cases that hold, one of each mapping, are at least `bound` together.
        """
        known: dict[tuple[int, int], Diagram] = {}

        def from_place(place: int, rest: int) -> Diagram:
            if place == len(weighed):
                return YES if rest <= 0 else NO
            if (place, rest) not in known:
                known[place, rest] = self.any_of(
                    self._join(case, from_place(place + 1, rest - number), both=True)
                    for number, case in weighed[place].items())
            return known[place, rest]

        return from_place(0, bound)

    def _join(self, one: Diagram, two: Diagram, *, both: bool) -> Diagram:
        end, neutral = (NO, YES) if both else (YES, NO)
        if end in (one, two):
            return end
        if two in (one, neutral):
            return one
        if one == neutral:
            return two
        key = both, min(one, two), max(one, two)
        if key not in self._joined:
            if len(self._joined) >= NODES_MAX * 10:
                raise TooManyNodesError
            (first, left), (second, right) = self._nodes[one], self._nodes[two]
            mask = min(first, second)
            count = len(left if first == mask else right)
            here = left if first == mask else (one,) * count
            there = right if second == mask else (two,) * count
            self._joined[key] = self._node(mask, tuple(
                self._join(a, b, both=both) for a, b in zip(here, there, strict=True)))
        return self._joined[key]

    def paths(self, diagram: Diagram, most: int) -> list[tuple[Literal, ...]] | None:
        """The cubes of the diagram, which exclude each other; None if there are over `most`."""
        found: list[tuple[Literal, ...]] = []
        for path in self._paths(diagram, ()):
            found.append(path)
            if len(found) > most:
                return None
        return found

    def _paths(self, diagram: Diagram, before: tuple[Literal, ...]) -> Iterator[
            tuple[Literal, ...]]:
        if diagram == YES:
            yield before
        elif diagram != NO:
            mask, children = self._nodes[diagram]
            for literal, below in zip(self._literals[mask], children, strict=True):
                yield from self._paths(below, (*before, literal))
