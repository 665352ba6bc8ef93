"""The explored graph, and breadth-first walks over it in whole levels (numpy, no Python loop)."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.check.engine import Edges

Positions = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Graph:
    """States by position, edges by number. passable: the rows that a walk may use."""

    edges: Edges
    passable: Flags  # [rows]

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.edges.starts) - 1

    def none(self) -> Flags:
        """[states], all false."""
        return np.zeros(self.states, dtype=bool)

    def out(self, positions: Positions) -> tuple[Positions, Positions]:
        """The passable edges from these positions: numbers [edges] and sources [edges]."""
        starts = self.edges.starts
        counts = starts[positions + 1] - starts[positions]
        sources = np.repeat(positions, counts)
        offsets = np.repeat(starts[positions] - np.cumsum(counts) + counts, counts)
        numbers = offsets + np.arange(sources.size)
        kept = self.passable[self.edges.rows[numbers]]
        return numbers[kept], sources[kept]

    def target(self, numbers: Positions) -> Positions:
        """The positions to which these edges lead."""
        return self.edges.targets[numbers].astype(np.int64)

    def source(self, number: int) -> int:
        """The position from which an edge starts."""
        return int(np.searchsorted(self.edges.starts, number, side="right")) - 1

    def enabled(self, position: int) -> Flags:
        """[rows]: the rows that are enabled in the state and change it, passable or not."""
        flags = np.zeros(len(self.passable), dtype=bool)
        first, last = self.edges.starts[position], self.edges.starts[position + 1]
        flags[self.edges.rows[first:last]] = True
        return flags

    def reach(self, sources: Flags, allowed: Flags) -> Flags:
        """[states]: the allowed states that can be reached from sources through allowed ones."""
        walk = Walk(self, allowed)
        frontier = walk.begin(np.flatnonzero(sources & allowed))
        while frontier.size:
            frontier = walk.advance(frontier)
        return walk.seen


class Walk:
    """A breadth-first search among allowed states. came: the edge by which it reached a state."""

    def __init__(self, graph: Graph, allowed: Flags) -> None:
        self.graph: Final = graph
        self.allowed: Final = allowed
        self.seen: Final = graph.none()
        self.came: Final[Positions] = np.full(graph.states, NOWHERE, dtype=np.int64)

    def begin(self, positions: Positions) -> Positions:
        """Start (also) from these positions; returns those that are new."""
        fresh = positions[~self.seen[positions]]
        self.seen[fresh] = True
        return fresh

    def advance(self, frontier: Positions) -> Positions:
        """The next level. Among several edges to a state, the one with the lowest number counts."""
        numbers, _ = self.graph.out(frontier)
        targets = self.graph.target(numbers)
        new = self.allowed[targets] & ~self.seen[targets]
        order = np.argsort(numbers[new], kind="stable")
        fresh, first = np.unique(targets[new][order], return_index=True)
        self.came[fresh] = numbers[new][order][first]
        self.seen[fresh] = True
        return fresh

    def back(self, end: int) -> tuple[list[int], int]:
        """The edges that led to a state, and the state where the walk began."""
        edges: list[int] = []
        while self.came[end] != NOWHERE:
            edges.append(int(self.came[end]))
            end = self.graph.source(edges[-1])
        return edges[::-1], end


def components(
    states: int, members: Positions, sources: Positions, targets: Positions
) -> tuple[Positions, Positions]:
    """Strongly connected components of the members under the given edges.

    members and sources must ascend. Returns [states] the component of each state (NOWHERE if it is
    no member), and [components] the size of each component.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415 - exploring alone does not need scipy
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415 - as above

    number = np.full(states, NOWHERE, dtype=np.int32)
    number[members] = np.arange(members.size)
    starts = np.searchsorted(sources, members, side="left")
    ends = np.append(starts, sources.size).astype(np.int32)
    weights = np.ones(sources.size, dtype=np.int8)
    matrix = csr_array((weights, number[targets], ends), shape=(members.size, members.size))
    count, labels = connected_components(matrix, directed=True, connection="strong")
    component = np.full(states, NOWHERE, dtype=np.int64)
    component[members] = labels
    return component, np.bincount(labels, minlength=count).astype(np.int64)
