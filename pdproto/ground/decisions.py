"""Decision diagrams as engines walk them: for conditions that would need too many clauses.

A walk asks for the value of one cell after another, and ends at NO or YES. So its time is at most
the number of cells, whatever the number of clauses would be. diagrams.py makes them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final, NamedTuple, TypeAlias

NodeNumber: TypeAlias = int  # NO, YES, or the number of a node

NO: Final[NodeNumber] = 0
YES: Final[NodeNumber] = 1
ENDS: Final = 2


class Asked(NamedTuple):
    """A node: it asks for the cell under a mask. below: where to go on, by the code of the cell."""

    mask: int
    below: tuple[NodeNumber, ...]

    @property
    def shift(self) -> int:
        """How far down the lowest bit of the cell is shifted to get its code."""
        return low_bit(self.mask)


def low_bit(mask: int) -> int:
    """The place of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1


@dataclass(frozen=True, slots=True)
class DecisionDiagram:
    """Nodes of a diagram. The node at index i has the number i + ENDS, and leads to lower numbers
    only. The last one is the first that is asked.
    """

    nodes: tuple[Asked, ...]

    def holds(self, state: int) -> bool:
        """Whether the walk from the last node ends at YES."""
        place = self.first
        while place >= ENDS:
            mask, below = self.nodes[place - ENDS]
            place = below[(state & mask) >> low_bit(mask)]
        return place == YES

    @property
    def first(self) -> NodeNumber:
        """Where a walk begins."""
        return len(self.nodes) - 1 + ENDS

    @property
    def reads(self) -> int:
        """The mask of all cells that may be asked."""
        return reduce(or_, (node.mask for node in self.nodes), 0)

    def may_hold(self, state: int, unknown: int) -> bool:
        """Whether a walk may end at YES, if the cells with unknown bits have any value."""
        may = [False, True]
        for mask, below in self.nodes:
            known = mask & ~unknown
            may.append(any(may[place] for code, place in enumerate(below)
                           if not (state ^ code << low_bit(mask)) & known))
        return may[-1]

    def beside(self, mask: int, value: int) -> "DecisionDiagram | bool":
        """What is left to be asked where the bits under the mask have this value."""
        if not mask & self.reads:
            return self
        kept: list[Asked] = []
        places: list[NodeNumber] = [NO, YES]
        known: dict[Asked, NodeNumber] = {}
        for node in self.nodes:
            at, here = low_bit(node.mask), node.mask & mask
            if here == node.mask:
                places.append(places[node.below[(value & here) >> at]])
                continue
            places.append(_put(Asked(node.mask, tuple(
                places[place] for place in node.below)), kept, known))
        first = places[-1]
        return first == YES if first < ENDS else DecisionDiagram(_reached(kept, first))

    def boxes(self) -> Iterator[dict[int, int]]:
        """The walks to YES, which exclude each other: by the mask of each cell that is asked, the
        codes that lead there, as a bit set.
        """
        return self._boxes(self.first)

    def _boxes(self, place: NodeNumber) -> Iterator[dict[int, int]]:
        if place < ENDS:
            if place == YES:
                yield {}
            return
        mask, below = self.nodes[place - ENDS]
        codes: dict[NodeNumber, int] = {}
        for code, after in enumerate(below):
            codes[after] = codes.get(after, 0) | 1 << code
        for after, leading in codes.items():
            for box in self._boxes(after):
                yield {mask: leading, **box}

    def mapped(self, bits: Callable[[int], int]) -> "DecisionDiagram":
        """The same about other cells: `bits` gives the mask of each."""
        return DecisionDiagram(tuple(Asked(bits(mask), below) for mask, below in self.nodes))

    @property
    def negated(self) -> "DecisionDiagram":
        """Holds where this one does not."""
        swapped = YES, NO
        return DecisionDiagram(tuple(Asked(mask, tuple(
            swapped[place] if place < ENDS else place for place in below))
            for mask, below in self.nodes))


def _put(node: Asked, nodes: list[Asked], known: dict[Asked, NodeNumber]) -> NodeNumber:
    """The place of a node: that of an equal one, or of what follows whatever the cell has."""
    if node.below.count(node.below[0]) == len(node.below):
        return node.below[0]
    if node not in known:
        known[node] = len(nodes) + ENDS
        nodes.append(node)
    return known[node]


def _reached(nodes: list[Asked], first: NodeNumber) -> tuple[Asked, ...]:
    """The nodes that a walk from the first one may ask, in their order."""
    met = {first}
    for place in range(first, ENDS - 1, -1):
        if place in met:
            met.update(nodes[place - ENDS].below)
    order = sorted(place for place in met if place >= ENDS)
    number = {NO: NO, YES: YES} | {place: i + ENDS for i, place in enumerate(order)}
    return tuple(Asked(nodes[place - ENDS].mask, tuple(
        number[below] for below in nodes[place - ENDS].below)) for place in order)
