"""Breadth-first walks over the explored graph in whole levels (numpy, no Python loop)."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pdproto.check.engine import Engine, Flags, Positions

NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Step:
    """An edge: the position where it starts, its ground row, and the position where it ends."""

    source: int
    row: int
    target: int


@dataclass(frozen=True, slots=True)
class Ways:
    """Edges in the order of their sources and rows; all arrays are [edges]."""

    sources: Positions
    targets: Positions
    rows: Positions

    def only(self, chosen: Flags) -> "Ways":
        """Those that are chosen, [edges]."""
        return Ways(self.sources[chosen], self.targets[chosen], self.rows[chosen])

    def first(self) -> Step:
        """The first of them."""
        return Step(int(self.sources[0]), int(self.rows[0]), int(self.targets[0]))


class Graph:
    """The explored graph with the rows that a walk may use. passable: [rows]."""

    def __init__(self, engine: Engine, passable: Flags) -> None:
        self._engine: Final = engine
        self._passable: Final = passable
        self.states: Final = engine.states

    def out(self, positions: Positions) -> Ways:
        """The passable edges from these positions, which ascend in the answer."""
        positions = np.sort(positions)
        edges = self._engine.edges(positions)
        sources = np.repeat(positions, np.diff(edges.starts))
        ways = Ways(sources, edges.targets.astype(np.int64), edges.rows.astype(np.int64))
        return ways.only(self._passable[ways.rows])


class Walk:
    """A breadth-first search among allowed states.

    before, row: [states] the edge by which the search reached a state; NOWHERE where it began.
    """

    def __init__(self, graph: Graph, allowed: Flags) -> None:
        self.graph: Final = graph
        self.allowed: Final = allowed
        self.seen: Final[Flags] = np.zeros(graph.states, dtype=bool)
        self.before: Final[Positions] = np.full(graph.states, NOWHERE, dtype=np.int64)
        self.row: Final[Positions] = np.full(graph.states, NOWHERE, dtype=np.int64)

    def begin(self, positions: Positions) -> Positions:
        """Start (also) from these positions; returns those that are new."""
        fresh = positions[~self.seen[positions]]
        self.seen[fresh] = True
        return fresh

    def advance(self, frontier: Positions) -> Positions:
        """The next level. Among several edges to a state, the first one counts."""
        ways = self.graph.out(frontier)
        ways = ways.only(self.allowed[ways.targets] & ~self.seen[ways.targets])
        fresh, first = np.unique(ways.targets, return_index=True)
        self.before[fresh] = ways.sources[first]
        self.row[fresh] = ways.rows[first]
        self.seen[fresh] = True
        return fresh

    def step(self, end: int) -> Step:
        """The edge by which the search reached the state, which is not where it began."""
        return Step(int(self.before[end]), int(self.row[end]), end)

    def back(self, end: int) -> list[Step]:
        """The edges that led to a state, from where the walk began."""
        steps: list[Step] = []
        while self.before[end] != NOWHERE:
            steps.append(self.step(end))
            end = steps[-1].source
        return steps[::-1]
