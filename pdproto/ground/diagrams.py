"""Formulas as decision diagrams over cells: for those that need too many clauses.

A diagram is a number: NO, YES, or a node that asks for the value of one cell and goes on with one
diagram for each value. Cells are asked in one order, and equal nodes are one, so equal formulas are
one number (Bryant, "Graph-based algorithms for Boolean function manipulation", 1986). The order is
that in which the formula names the cells first: cells that are compared are near each other
(Malik et al., "Logic verification using binary decision diagrams in a logic synthesis environment",
1988). The paths to YES are cubes that exclude each other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pdproto.ground.decisions import ENDS, NO, YES, Asked, DecisionDiagram, low_bit
from pdproto.ground.program import Literal

Diagram: TypeAlias = int
Cases: TypeAlias = Mapping[int, Diagram]

NODES_MAX: Final = 20_000
CELLS_MAX: Final = 250  # a path is as long, and one call deep for each


class TooManyNodesError(Exception):
    """The diagrams of a formula have over NODES_MAX nodes, or ask for over CELLS_MAX cells."""


class Diagrams:
    """The nodes of the diagrams of one formula. A cell is known by its mask; its values have the
    codes from 0 on.
    """

    def __init__(self) -> None:
        self._nodes: list[tuple[int, tuple[Diagram, ...]]] = [(-1, ()), (-1, ())]
        self._known: dict[tuple[int, tuple[Diagram, ...]], Diagram] = {}
        # By mask, the place of a cell in the order. The ends have the last one.
        self._rank: dict[int, int] = {-1: CELLS_MAX + 1}
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

    def cell(self, mask: int, values: int, code: int, *, positive: bool = True) -> Diagram:
        """The formula that the cell has the value with this code, or any other one. values: of the
        cell.
        """
        if mask not in self._rank:
            if len(self._rank) > CELLS_MAX:
                raise TooManyNodesError
            self._rank[mask] = len(self._rank)
        ends = (NO, YES) if positive else (YES, NO)
        return self._node(mask, tuple([ends[one == code] for one in range(values)]))

    def all_of(self, parts: Iterable[Diagram]) -> Diagram:
        """All of them hold. Parts after one that never holds are not made."""
        return self._together(parts, both=True)

    def any_of(self, parts: Iterable[Diagram]) -> Diagram:
        """One of them holds. Parts after one that always holds are not made."""
        return self._together(parts, both=False)

    def _together(self, parts: Iterable[Diagram], *, both: bool) -> Diagram:
        found, end = (YES, NO) if both else (NO, YES)
        for part in parts:
            found = self._join(found, part, both=both)
            if found == end:
                break
        return found

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
            mask = min(first, second, key=self._rank.__getitem__)
            count = len(left if first == mask else right)
            here = left if first == mask else (one,) * count
            there = right if second == mask else (two,) * count
            self._joined[key] = self._node(mask, tuple(
                self._join(a, b, both=both) for a, b in zip(here, there, strict=True)))
        return self._joined[key]

    def decision(self, diagram: Diagram) -> DecisionDiagram | bool:
        """The diagram as engines walk it."""
        if diagram in (NO, YES):
            return diagram == YES
        numbers = {NO: NO, YES: YES}
        nodes: list[Asked] = []
        for node in sorted(self._reached(diagram)):
            mask, children = self._nodes[node]
            numbers[node] = len(nodes) + ENDS
            below = [numbers[child] for child in children]
            unused = (mask >> low_bit(mask)) + 1 - len(below)  # codes that are those of no value
            nodes.append(Asked(mask, (*below, *[below[-1]] * unused)))
        return DecisionDiagram(tuple(nodes))

    def _reached(self, diagram: Diagram) -> set[Diagram]:
        """The nodes of a diagram. What a node leads to has a lower number."""
        met, due = {diagram}, [diagram]
        while due:
            more = {*self._nodes[due.pop()][1]} - met - {NO, YES}
            met |= more
            due += more
        return met

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
            for code, below in enumerate(children):
                yield from self._paths(below, (*before, Literal(mask, code << low_bit(mask))))
