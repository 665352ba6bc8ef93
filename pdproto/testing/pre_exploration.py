"""An exploration before fuzzing: it finds the rare rows, and a path to each of them.

Random walks seldom get deep. In the transfer at its default size, only one state in two thousand
lets a sink take part in a completed hand-over, after a dozen steps without a failure. So some runs
begin with the path to a rare row, and continue at random from there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from pdproto.check.explore import Exploration, SearchLimits, explore
from pdproto.check.runs import replay
from pdproto.ground.grounding import Ground, GroundRow

STATES_MAX: Final = 50_000  # of each of the two explorations: with faults and without


class Goal(NamedTuple):
    """A row that can fire in some of the states of an exploration."""

    states: int
    search: int
    row: str


class PreExploration:
    """The first states of a ground system, with its faults and without.

    rarity: by ground row (as text), the number of states with faults in which it can fire.
    """

    def __init__(self, ground: Ground) -> None:
        calm = Ground(ground.system, ground.sizes, (), ground.given, consume=ground.consume,
                      timers=ground.timers)
        limits = SearchLimits(states_max=STATES_MAX)
        self._rows: Final = {(str(row), row.action): row for row in ground.rows}
        self._searches: Final = [explore(which, limits=limits) for which in (ground, calm)]
        fired = [_fired(found) for found in self._searches]
        self.rarity: Final = fired[0]
        self._goals: Final = sorted(
            Goal(count, search, row)
            for search, counts in enumerate(fired) for row, count in counts.items() if count)
        self._positions: Final[dict[Goal, np.ndarray[tuple[int], np.dtype[np.intp]]]] = {}
        self._ways: Final[dict[tuple[int, int], Sequence[GroundRow]]] = {}

    def way(self, goal: float, state: float) -> Sequence[GroundRow]:
        """The rows on a shortest path from the initial state to a state in which some row can fire.

        goal: chooses the row, from 0 for the rarest to less than 1. state: chooses one of its
        states, from 0 for the first to less than 1.
        """
        if not self._goals:
            return ()
        chosen = self._goals[int(goal * len(self._goals))]
        positions = self._where(chosen)
        key = chosen.search, int(positions[int(state * len(positions))])
        if key not in self._ways:
            found = self._searches[chosen.search]
            moves = replay(found.ground, found.program, found.path(found.engine.identity(key[1])))
            self._ways[key] = tuple(self._rows[str(move.row), move.row.action] for move in moves)
        return self._ways[key]

    def _where(self, goal: Goal) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        if goal not in self._positions:
            found = self._searches[goal.search]
            guards = [row.action.guard for row in found.ground.rows if str(row) == goal.row]
            able = np.logical_or.reduce([found.engine.where(guard) for guard in guards])
            self._positions[goal] = np.flatnonzero(able)
        return self._positions[goal]


def _fired(found: Exploration) -> Mapping[str, int]:
    """By ground row, the number of expanded states in which it can fire."""
    counts = found.engine.fired
    fired = Counter[str]()
    for row, n in zip(found.ground.rows, counts, strict=True):
        fired[str(row)] += int(n)
    return fired
