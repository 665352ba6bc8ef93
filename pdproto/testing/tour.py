"""Tours: walks through the explored graph that take every transition, replayed on live ends.

Random walks take only a fraction of the transitions even of a small system. A tour is planned. From
its present state it takes an edge that was not taken before, or the shortest path to such an edge,
or begins again. The plan is a list of rows. Each row fires at its end, and the cells of all ends
are compared with the planned state after each step (cluster.py).

A row that does not change the state (a repeat, a late message) is not an edge. It fires once in
each group of states that look the same to its end.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from pdproto.check.explore import Exploration, explore
from pdproto.ground.grounding import GroundRow
from pdproto.testing.cluster import Cluster, DivergenceError
from pdproto.testing.property_checker import PropertyChecker, ViolationError

DETOUR_MAX: Final = 400  # states searched for the next edge, before the walk begins again


@dataclass(frozen=True, slots=True)
class Tour:
    """The result of a tour that has taken all edges.

    states, edges: of the graph. walks: from the initial state. steps: edges taken, each edge of a
    path counted again. idle: rows fired that did not change the state.
    """

    states: int
    edges: int
    walks: int
    steps: int
    idle: int


class Plan:
    """The explored graph, with the edges left to take. States are positions of the engine."""

    def __init__(self, found: Exploration) -> None:
        edges, engine = found.engine.edges(), found.engine
        self.starts: list[int] = edges.starts.tolist()
        self.targets: list[int] = edges.targets.tolist()
        self.rows: list[int] = edges.rows.tolist()
        first = engine.find(found.program.initial[0])
        if first is None:
            raise AssertionError("the initial state is not stored")
        self.first: Final = engine.position(first)
        self.next: list[int] = self.starts[:-1]  # by state, the first edge that was not taken
        self._came: Final = self._tree()

    def _tree(self) -> Mapping[int, tuple[int, int]]:
        """By state, the edge and the state before it in a breadth-first search, in its order."""
        came = {self.first: (-1, -1)}
        queue = deque([self.first])
        while queue:
            state = queue.popleft()
            for edge in range(self.starts[state], self.starts[state + 1]):
                if self.targets[edge] not in came:
                    came[self.targets[edge]] = edge, state
                    queue.append(self.targets[edge])
        return came

    def walks(self) -> Iterator[list[int]]:
        """Walks from the initial state, as edges. Together they take every edge."""
        for state in self._came:
            while not self._is_done(state):
                walk = self._way_back(self._came, state, self.first)[::-1]
                at = state
                while way := self._way_on(at):
                    walk += way
                    at = self.targets[way[-1]]
                yield walk

    def _is_done(self, state: int) -> bool:
        return self.next[state] == self.starts[state + 1]

    def _take(self, state: int) -> int:
        edge = self.next[state]
        self.next[state] += 1
        return edge

    @staticmethod
    def _way_back(came: Mapping[int, tuple[int, int]], end: int, begin: int) -> list[int]:
        way = []
        while end != begin:
            edge, end = came[end]
            way.append(edge)
        return way

    def _way_on(self, state: int) -> list[int]:
        """The path to an edge that was not taken, and this edge; empty if none is near."""
        if not self._is_done(state):
            return [self._take(state)]
        came = {state: (-1, -1)}
        queue = deque([state])
        while queue and len(came) < DETOUR_MAX:
            at = queue.popleft()
            for edge in range(self.starts[at], self.starts[at + 1]):
                target = self.targets[edge]
                if target in came:
                    continue
                came[target] = edge, at
                if not self._is_done(target):
                    return [*self._way_back(came, target, state)[::-1], self._take(target)]
                queue.append(target)
        return []


def tour(cluster: Cluster) -> Tour:
    """Take every transition of the cluster's ground system at its ends.

    The cluster must have been made with `heard_at_once`. Raises ViolationError, with the walk as
    its trace, if an end differs from the tables.
    """
    ground = cluster.ground
    found = explore(ground)
    plan = Plan(found)
    states = [found.engine.state(found.engine.identity(i)) for i in range(found.engine.states)]
    idle = _idle(found, cluster, states)
    found.engine.close()
    replay = _Replay(cluster, plan, states, idle)
    walks = 0
    for walk in plan.walks():
        replay.walk(walk)
        walks += 1
    if replay.taken.count(1) != len(plan.rows) or replay.idle:
        raise AssertionError("the plan of a tour misses an edge or an idle row")
    return Tour(len(states), len(plan.rows), walks, replay.steps, replay.idle_steps)


class _Replay:
    """Replays walks on the live ends.

    taken: for each edge, 1 once it was taken. idle: by state, the idle rows left to fire there.
    """

    def __init__(
        self, cluster: Cluster, plan: Plan, states: list[int], idle: dict[int, list[GroundRow]]
    ) -> None:
        self.cluster: Final = cluster
        self.plan: Final = plan
        self.states: Final = states
        self.idle: Final = idle
        self.taken: Final = bytearray(len(plan.rows))
        self.steps = 0
        self.idle_steps = 0

    def walk(self, walk: list[int]) -> None:
        """One walk from the initial state."""
        cluster, plan, rows = self.cluster, self.plan, self.cluster.ground.rows
        cluster.begin()
        try:
            self._rest(plan.first)
            for edge in walk:
                cluster.fire(rows[plan.rows[edge]])
                self.taken[edge] = 1
                position = plan.targets[edge]
                if cluster.state != self.states[position]:
                    raise DivergenceError("the walk has left its plan")
                if position in self.idle:
                    self._rest(position)
        except DivergenceError as error:
            finding = PropertyChecker(cluster.ground).diverged(cluster.moves, str(error))
            raise ViolationError(finding) from error
        self.steps += len(walk)

    def _rest(self, position: int) -> None:
        """Fire the idle rows of this state."""
        for row in self.idle.pop(position, ()):
            self.cluster.fire(row)
            self.idle_steps += 1


def _idle(
    found: Exploration, cluster: Cluster, states: list[int]
) -> dict[int, list[GroundRow]]:
    """By state, the rows that do not change it. Among states that look the same to the row's end,
    only the first one counts.
    """
    edges = found.engine.edges()
    sources = np.repeat(np.arange(len(states)), np.diff(edges.starts))
    idle: dict[int, list[GroundRow]] = {}
    for number, row in enumerate(found.ground.rows):
        end = cluster.end_of(row)
        if end is None:
            continue
        holds = found.engine.where(row.action.guard)
        holds[sources[edges.rows == number]] = False
        told_apart = cluster.view_of(end) | row.action.guard.mask
        seen: set[int] = set()
        for position in np.flatnonzero(holds).tolist():
            known = states[position] & told_apart
            if known not in seen:
                seen.add(known)
                idle.setdefault(position, []).append(row)
    return idle
