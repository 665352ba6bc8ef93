"""Liveness: check leads-to properties, in which no fair run may postpone the goal for ever.

A run is fair if every fair row that stays enabled from some point on, and would change the state,
fires again and again. Rows that are not fair (calls, faults) may fire or not. Faults happen only
finitely often: a run to a violation may have faults, but its loop has none.

A `leads_to` fails if a run can stay for ever among states without the goal, once the premise has
held. There are two ways to stay: in a state where no fair row would change anything (stuck), or in
a strongly connected component in which every fair row is disabled somewhere or fires. Under weak
fairness it is exact to examine the maximal components: a row that is enabled throughout a component
and never fires in it is also enabled throughout each part of it, and never fires there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.check.explore import Exploration
from pdproto.check.graph import Flags, Graph, Positions, Walk, components
from pdproto.check.questions import LeadsToInstance
from pdproto.ground.grounding import GroundRow
from pdproto.ground.program import Guard
from pdproto.spec.language.machine import Timer
from pdproto.spec.language.properties import Fairness


@dataclass(frozen=True, slots=True)
class Lasso:
    """A fair run that never reaches the goal: rows from the initial state, and a loop.

    loop: the index of the first row of the loop; None if the run is stuck after the last row.
    """

    rows: tuple[GroundRow, ...]
    loop: int | None


class Liveness:
    """The liveness questions of one finished exploration."""

    def __init__(self, found: Exploration) -> None:
        self.found: Final = found
        self.rows: Final = found.ground.rows
        edges = found.engine.edges()
        self.fired: Final = edges.rows
        edges = replace(edges, rows=_units(self.rows)[edges.rows])
        every = np.ones(len(self.rows), dtype=bool)
        self.graph: Final = Graph(edges, every)
        self.faultless: Final = Graph(edges, np.array([not row.layer for row in self.rows], bool))
        first = found.engine.find(found.program.normal(found.program.initial[0]))
        if first is None:
            raise AssertionError("the initial state is not stored")
        self.initial: Final = found.engine.position(first)

    def unfulfilled(
        self, obligation: LeadsToInstance, under: Sequence[Fairness]
    ) -> tuple[Lasso, Fairness] | None:
        """A fair run on which the premise holds once and the goal never after it.

        under: the assumptions to check. Returns the run with the first assumption that allows one;
        None if no assumption does.
        """
        goal = self._where(obligation.goal)
        pending = self._where(obligation.premise) & ~goal
        region = Region(self.graph, self.faultless, self.graph.reach(pending, ~goal))
        by_rows = {tuple(is_fair(row, fairness) for row in self.rows): fairness
                   for fairness in reversed(under)}
        for rows, fairness in reversed(by_rows.items()):
            fair = np.array(rows, dtype=bool)
            traps = region.traps(fair)
            if traps.any():
                return self._lasso(region, pending, ~goal, traps, fair), fairness
        return None

    def _lasso(
        self, region: "Region", pending: Flags, allowed: Flags, traps: Flags, fair: Flags
    ) -> Lasso:
        stem, entry = self._stem(pending, allowed, traps)
        loop = region.loop(entry, fair)
        rows = tuple(self.rows[int(self.fired[number])] for number in (*stem, *loop))
        return Lasso(rows, len(stem) if loop else None)

    def is_ever_pending(self, obligation: LeadsToInstance) -> bool:
        """Whether the premise holds in some state; otherwise the property is vacuous."""
        return bool(self._where(obligation.premise).any())

    def _where(self, guards: Iterable[Guard]) -> Flags:
        union = self.graph.none()
        for guard in guards:
            union |= self.found.engine.where(guard)
        return union

    def _stem(self, pending: Flags, allowed: Flags, traps: Flags) -> tuple[list[int], int]:
        """A shortest run on which the premise holds, and then not the goal, up to a trap.

        Returns its edges and its last position. Two searches advance together: one over all runs,
        and one over the runs that are pending. A run joins the second search at the level at which
        it becomes pending.
        """
        free = Walk(self.graph, np.ones(self.graph.states, dtype=bool))
        bound = Walk(self.graph, allowed)
        reached = free.begin(np.array([self.initial]))
        owed = bound.begin(reached[pending[reached]])
        while not traps[owed].any():
            reached = free.advance(reached)
            owed = bound.advance(owed)
            owed = np.concatenate([owed, bound.begin(reached[pending[reached]])])
        end = int(owed[traps[owed]].min())
        within, joined = bound.back(end)
        before, _ = free.back(joined)
        return before + within, end


def _units(rows: Sequence[GroundRow]) -> NDArray[np.uint32]:
    """For each ground row, the number of the first one with the same row and parameters.

    Fairness counts these as one row. A delivery of a broadcast has two actions (delivery.py), and
    the enabled one may change for ever while the delivery stays enabled.
    """
    first: dict[tuple[int, tuple[int, ...]], int] = {}
    units = (first.setdefault((id(row.row), tuple(row.environment.values())), number)
             for number, row in enumerate(rows))
    return np.fromiter(units, dtype=np.uint32, count=len(rows))


def is_fair(row: GroundRow, fairness: Fairness) -> bool:
    """Whether the ground row must fire in the end if it stays enabled."""
    if row.layer or not row.row.is_fair:
        return False
    net = isinstance(row.row.on, Timer) and not row.row.on.detector
    return not (net and fairness is Fairness.DETECTORS)


class Region:
    """The states in which the goal is pending, with the faultless edges between them."""

    def __init__(self, graph: Graph, faultless: Graph, inside: Flags) -> None:
        self.graph: Final = graph
        self.faultless: Final = faultless
        self.members: Final[Positions] = np.flatnonzero(inside)
        numbers, self.sources = faultless.out(self.members)
        self.targets: Final = faultless.target(numbers)
        self.fired: Final = graph.edges.rows[numbers].astype(np.int64)
        self.staying: Final = inside[self.targets]
        self.component, self.sizes = components(
            graph.states, self.members, self.sources[self.staying], self.targets[self.staying]
        )

    def traps(self, fair: Flags) -> Flags:
        """[states]: the states in which a fair run can stay for ever."""
        rows = len(fair)
        home = self.component[self.sources]
        alone = self.sizes[home] == 1
        trapped = self.graph.none()
        trapped[self.members] = True
        # A run can stay in a single state unless a fair row leads out.
        trapped[self.sources[alone & fair[self.fired]]] = False
        # A run can stay in several states unless a fair row is enabled in all and fires in none.
        pressing = ~alone & fair[self.fired]
        keys, enabled = np.unique(home[pressing] * rows + self.fired[pressing], return_counts=True)
        everywhere = keys[enabled == self.sizes[keys // rows]]
        within = pressing & self.staying & (home == self.component[self.targets])
        taken = np.unique(home[within] * rows + self.fired[within])
        driven = np.setdiff1d(everywhere, taken) // rows
        trapped[self.members[np.isin(self.component[self.members], driven)]] = False
        return trapped

    def loop(self, entry: int, fair: Flags) -> list[int]:
        """Edges of a fair cycle through `entry`: each fair row fires or is disabled on it.

        Empty if the run is stuck at `entry`.
        """
        if self.sizes[self.component[entry]] == 1:
            return []
        home = self.component == self.component[entry]
        wanted = fair & self.graph.enabled(entry)
        loop: list[int] = []
        current = entry
        while wanted.any():
            for number in self._towards(home, current, int(np.flatnonzero(wanted)[0])):
                loop.append(number)
                current = int(self.graph.edges.targets[number])
                wanted[self.graph.edges.rows[number]] = False
                wanted &= self.graph.enabled(current)
        if current == entry and loop:
            return loop
        return loop + self._between(home, current, entry)

    def _towards(self, home: Flags, start: int, row: int) -> list[int]:
        """A shortest walk within `home` that fires the row, or ends where the row is disabled."""
        walk = Walk(self.faultless, home)
        frontier = walk.begin(np.array([start]))
        while True:
            numbers, sources = self.faultless.out(frontier)
            firing = self.graph.edges.rows[numbers] == row
            at_home = firing & home[self.faultless.target(numbers)]
            if at_home.any():
                number = int(numbers[at_home].min())
                return [*walk.back(self.graph.source(number))[0], number]
            without = np.setdiff1d(frontier, sources[firing])
            if without.size:
                return walk.back(int(without[0]))[0]
            frontier = walk.advance(frontier)

    def _between(self, home: Flags, start: int, end: int) -> list[int]:
        """A shortest walk within `home` from start to end, with at least one edge."""
        walk = Walk(self.faultless, home)
        # `start` is not marked as seen, so that a walk may come back to it.
        frontier = walk.advance(np.array([start]))
        while not walk.seen[end]:
            frontier = walk.advance(frontier)
        edges = [int(walk.came[end])]
        while self.graph.source(edges[-1]) != start:
            edges.append(int(walk.came[self.graph.source(edges[-1])]))
        return edges[::-1]
