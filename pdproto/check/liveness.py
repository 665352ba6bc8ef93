"""Liveness: check leads-to properties, in which no fair run may postpone the goal for ever.

A run is fair if every fair row that stays enabled from some point on, and would change the state,
fires again and again. Rows that are not fair (calls, faults) may fire or not. Faults happen only
finitely often: a run to a violation may have faults, but its loop has none.

A `leads_to` fails if a run can stay for ever among states without the goal, once the premise has
held. There are two ways to stay: in a state where no fair row would change anything (stuck), or in
a strongly connected component in which every fair row is disabled somewhere or fires, and every
strongly fair row fires or is enabled nowhere. Under weak fairness it is exact to examine the
maximal components: a row that is enabled throughout a component and never fires in it is also
enabled throughout each part of it, and never fires there. A strongly fair row that never fires in a
component where it is enabled leaves only the parts without the states where it is (Emerson and Lei,
"Modalities for model checking", Science of Computer Programming 8, 1987).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdproto.check.engine import Assumptions, Flags, Traps
from pdproto.check.explore import Exploration
from pdproto.check.graph import Graph, Step, Walk
from pdproto.check.questions import LeadsToInstance
from pdproto.ground.grounding import GroundRow
from pdproto.ground.program import Guard
from pdproto.spec.language.machine import Timer
from pdproto.spec.language.properties import Fairness

Unit: TypeAlias = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Lasso:
    """A fair run that never reaches the goal: rows from an initial state, and a loop.

    loop: the index of the first row of the loop; None if the run is stuck after the last row.
    """

    start: int
    rows: tuple[GroundRow, ...]
    loop: int | None


class Liveness:
    """The liveness questions of one finished exploration."""

    def __init__(self, found: Exploration) -> None:
        self.found: Final = found
        self.rows: Final = found.ground.rows
        self.units: Final = _units(self.rows)
        self.strong: Final = np.array([row.row.is_strong for row in self.rows], bool)
        self.faults: Final = np.array([bool(row.layer) for row in self.rows], bool)
        self.graph: Final = Graph(found.engine, np.ones(len(self.rows), bool))
        self.initial: Final = found.starts()

    def unfulfilled(
        self, obligation: LeadsToInstance, under: Sequence[Fairness]
    ) -> tuple[Lasso, Fairness] | None:
        """A fair run on which the premise holds once and the goal never after it.

        under: the assumptions to check. Returns the run with the first assumption that allows one;
        None if no assumption does.
        """
        goal = self._where(obligation.goal)
        pending = self._where(obligation.premise) & ~goal
        if self.strong.any() and len(under) > 1:  # each removes other states
            each = (self.unfulfilled(obligation, (one,)) for one in under)
            return next((found for found in each if found is not None), None)
        masks = np.array([[is_fair(row, f) for row in self.rows] for f in under], bool)
        fair = np.packbits(masks, axis=0, bitorder="little").reshape(-1)
        assumed = Assumptions(len(under), fair, self.faults, self.units)
        traps = self._without_strong(pending, ~goal, assumed, self.strong & masks[0]) if (
            self.strong.any()) else self.found.engine.traps(pending, ~goal, assumed)
        for bit, fairness in enumerate(under):
            if traps.found >> bit & 1:
                here = (traps.where >> bit & 1).astype(bool)
                return self._lasso(pending, ~goal, here, traps, masks[bit]), fairness
        return None

    def _lasso(
        self, pending: Flags, allowed: Flags, here: Flags, traps: Traps, fair: Flags
    ) -> Lasso:
        stem, entry = self._stem(pending, allowed, here)
        home = Component(self, (traps.components == traps.components[entry]) & (
            here | ~self.strong.any()))
        loop = home.loop(entry, fair, self.strong & fair)
        rows = tuple(self.rows[step.row] for step in (*stem, *loop))
        first = self.found.engine.identity(stem[0].source if stem else entry)
        start = self.found.program.start(self.found.engine.state(first))
        return Lasso(start, rows, len(stem) if loop else None)

    def _without_strong(
        self, pending: Flags, allowed: Flags, assumed: Assumptions, strong: Flags
    ) -> Traps:
        """The traps in which each strongly fair row fires, or is enabled nowhere. strong: [rows].
        """
        engine = self.found.engine
        faultless = Graph(engine, ~self.faults)
        while True:
            traps = engine.traps(pending, allowed, assumed)
            here = traps.where.astype(bool)
            ways = faultless.out(np.flatnonzero(here))
            ways = ways.only(strong[self.units[ways.rows]])
            home = traps.components[ways.sources].astype(np.int64)
            units = home * len(self.rows) + self.units[ways.rows]
            inside = here[ways.targets] & (home == traps.components[ways.targets])
            missed = ~np.isin(units, units[inside])
            bad = np.zeros(len(here), bool)
            bad[ways.sources[missed]] = True
            good = here & ~np.isin(traps.components, traps.components[bad])
            if good.any() or not bad.any():
                return Traps(int(good.any()), good.astype(np.uint8), traps.components)
            pending = allowed = here & ~bad

    def is_ever_pending(self, obligation: LeadsToInstance) -> bool:
        """Whether the premise holds in some state; otherwise the property is vacuous."""
        return bool(self._where(obligation.premise).any())

    def _where(self, guards: Iterable[Guard]) -> Flags:
        union = np.zeros(self.graph.states, dtype=bool)
        for guard in guards:
            union |= self.found.engine.where(guard)
        return union

    def _stem(self, pending: Flags, allowed: Flags, traps: Flags) -> tuple[list[Step], int]:
        """A shortest run on which the premise holds, and then not the goal, up to a trap.

        Returns its edges and its last position. Two searches advance together: one over all runs,
        and one over the runs that are pending. A run joins the second search at the level at which
        it becomes pending.
        """
        free = Walk(self.graph, np.ones(self.graph.states, dtype=bool))
        bound = Walk(self.graph, allowed)
        reached = free.begin(self.initial)
        owed = bound.begin(reached[pending[reached]])
        while not traps[owed].any():
            reached = free.advance(reached)
            owed = bound.advance(owed)
            owed = np.concatenate([owed, bound.begin(reached[pending[reached]])])
        end = int(owed[traps[owed]].min())
        within = bound.back(end)
        return free.back(within[0].source if within else end) + within, end


def _units(rows: Sequence[GroundRow]) -> NDArray[np.uint32]:
    """For each ground row, the number of the first one with the same row and parameters.

    Fairness counts these as one row. A delivery of a broadcast has two actions (delivery.py), and
    the enabled one may change for ever while the delivery stays enabled.
    """
    first: dict[Unit, int] = {}
    units = (first.setdefault(unit_of(row), number) for number, row in enumerate(rows))
    return np.fromiter(units, dtype=np.uint32, count=len(rows))


def unit_of(row: GroundRow) -> Unit:
    """The row and its parameters, which fairness counts as one, whatever its cases."""
    return id(row.row), tuple(row.environment.values())


def graph_for(fairness: Fairness) -> Fairness:
    """The assumption whose graph is used: without safety nets, the graph with all timers."""
    return Fairness.TIMERS if fairness is Fairness.DETECTORS else fairness


def is_fair(row: GroundRow, fairness: Fairness) -> bool:
    """Whether the ground row must fire in the end if it stays enabled."""
    if row.layer or not row.row.is_fair:
        return False
    net = isinstance(row.row.on, Timer) and not row.row.on.detector
    return not (net and fairness is Fairness.DETECTORS)


class Component:
    """A strongly connected component of the states in which the goal is pending."""

    def __init__(self, liveness: Liveness, inside: Flags) -> None:
        self.inside: Final = inside
        self.units: Final = liveness.units
        self.graph: Final = liveness.graph
        self.faultless: Final = Graph(liveness.found.engine, ~liveness.faults)

    def loop(self, entry: int, fair: Flags, strong: Flags) -> list[Step]:
        """Edges of a fair cycle through `entry`: each fair row fires or is disabled on it, and each
        strongly fair one that is enabled anywhere in the component fires.

        Empty if the run is stuck at `entry`.
        """
        if np.count_nonzero(self.inside) == 1:
            return []
        wanted = fair & self._enabled(entry)
        loop: list[Step] = []
        current = entry
        due = self._enabled_anywhere(strong) if strong.any() else np.zeros(0, self.units.dtype)
        while due.size or wanted.any():
            steps = self._towards(current, int(due[0]), firing=True) if due.size else (
                self._towards(current, int(np.flatnonzero(wanted)[0])))
            for step in steps:
                loop.append(step)
                current = step.target
                wanted[self.units[step.row]] = False
                wanted &= self._enabled(current)
                due = due[due != self.units[step.row]]
        if current == entry and loop:
            return loop
        return loop + self._between(current, entry)

    def _enabled(self, position: int) -> Flags:
        """[rows]: the units that are enabled in the state and change it, faults too."""
        flags = np.zeros(len(self.units), dtype=bool)
        flags[self.units[self.graph.out(np.array([position])).rows]] = True
        return flags

    def _enabled_anywhere(self, units: Flags) -> NDArray[np.uint32]:
        """Those of the units that are enabled in some state of the component."""
        ways = self.faultless.out(np.flatnonzero(self.inside))
        due = np.unique(self.units[ways.rows])
        return due[units[due]]

    def _towards(self, start: int, unit: int, *, firing: bool = False) -> list[Step]:
        """A shortest walk in the component that fires the unit, or ends where it is disabled.

        firing: only one that fires it.
        """
        walk = Walk(self.faultless, self.inside)
        frontier = walk.begin(np.array([start]))
        while True:
            ways = self.faultless.out(frontier)
            fires = self.units[ways.rows] == unit
            inside = ways.only(fires & self.inside[ways.targets])
            if inside.sources.size:
                return [*walk.back(int(inside.sources[0])), inside.first()]
            without = np.setdiff1d(frontier, ways.sources[fires])
            if without.size and not firing:
                return walk.back(int(without[0]))
            frontier = walk.advance(frontier)

    def _between(self, start: int, end: int) -> list[Step]:
        """A shortest walk in the component from start to end, with at least one edge."""
        walk = Walk(self.faultless, self.inside)
        # `start` is not marked as seen, so that a walk may come back to it.
        frontier = walk.advance(np.array([start]))
        while not walk.seen[end]:
            frontier = walk.advance(frontier)
        steps = [walk.step(end)]
        while steps[-1].source != start:
            steps.append(walk.step(steps[-1].source))
        return steps[::-1]
