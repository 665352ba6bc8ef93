"""The engine that runs anywhere: simple Python, with one dictionary.

`pdproto check` uses it if no compiler was available, and tests compare the native engine with it.
Its ids ascend in the order of storing, and the position of a state is its id.
"""

import sys

import numpy as np
from numpy.typing import NDArray

from pdproto.check.engine import Assumptions, Edges, Flags, Positions, Traps
from pdproto.check.traps import find_traps
from pdproto.ground.program import Guard, Program


class PortableEngine:
    """See engine.Engine, which this class implements."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._ids: dict[int, int] = {}
        self._states: list[int] = []
        self._parents: list[int | None] = []
        self._levels: list[int] = []
        self._expanded = 0
        self._level_end = 0
        self._fired = [0] * len(program.rows)
        self._hits: dict[int, int] = {}
        self._stuck = 0
        self._stuck_first: int | None = None
        for state in program.initial:
            self._store(program.normal(state), parent=None)

    @property
    def states(self) -> int:
        return len(self._states)

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(self._levels)

    @property
    def frontier(self) -> int:
        return len(self._states) - self._expanded

    @property
    def fired(self) -> NDArray[np.int64]:
        return np.array(self._fired, dtype=np.int64)

    @property
    def hits(self) -> dict[int, int]:
        return dict(sorted(self._hits.items()))

    @property
    def stuck(self) -> tuple[int, int | None]:
        return self._stuck, self._stuck_first

    @property
    def bytes(self) -> int:
        """An estimate: the containers, and one integer object of full width for every state."""
        integer = sys.getsizeof(1 << self._program.bits)
        containers = self._ids, self._states, self._parents
        return sum(map(sys.getsizeof, containers)) + len(self._states) * integer

    def step(self, states_max: int, *, strictly: bool = False) -> bool:  # noqa: ARG002 - always so
        if self.at_level_end and self.frontier:
            self._levels.append(self.frontier)
            self._level_end = len(self._states)
        for _ in range(min(max(states_max, 1), self._level_end - self._expanded)):
            self._expand(self._expanded)
        return self.frontier > 0

    @property
    def at_level_end(self) -> bool:
        return self._expanded == self._level_end

    def state(self, identity: int) -> int:
        return self._states[_checked(identity, self.states)]

    def parent(self, identity: int) -> int | None:
        return self._parents[_checked(identity, self.states)]

    def find(self, state: int) -> int | None:
        return self._ids.get(state)

    def edges(self, positions: Positions | None = None) -> Edges:
        starts, targets, rows = [0], [], []
        for position in range(self.states) if positions is None else positions.tolist():
            state = self._states[_checked(position, self.states)]
            if position < self._expanded:
                for row, successor in self._program.steps(state):
                    if successor != state:
                        targets.append(self._ids[successor])
                        rows.append(row)
            starts.append(len(targets))
        return Edges(
            starts=np.array(starts, dtype=np.int64),
            targets=np.array(targets, dtype=np.uint32),
            rows=np.array(rows, dtype=np.uint32),
        )

    def traps(self, pending: Flags, allowed: Flags, assumed: Assumptions) -> Traps:
        return find_traps(self.edges(), pending, allowed, assumed)

    def identity(self, position: int) -> int:
        return _checked(position, self.states)

    def position(self, identity: int) -> int:
        return _checked(identity, self.states)

    def where(self, guard: Guard) -> Flags:
        return np.fromiter(map(guard.holds, self._states), dtype=np.bool_, count=self.states)

    def close(self) -> None:
        for container in (self._ids, self._states, self._parents):
            container.clear()

    def _store(self, state: int, *, parent: int | None) -> None:
        """Store the state unless it is known. If memory runs out, nothing of it is stored."""
        if state in self._ids:
            return
        identity = len(self._states)
        try:
            self._states.append(state)
            self._parents.append(parent)
            self._ids[state] = identity
        except MemoryError:
            del self._states[identity:], self._parents[identity:]
            raise

    def _expand(self, identity: int) -> None:
        """Store the successors, then count: after a MemoryError the call can be repeated."""
        state = self._states[identity]
        steps = list(self._program.steps(state))
        for _, successor in steps:
            self._store(successor, parent=identity)
        for row, _ in steps:
            self._fired[row] += 1
        for pattern, guard in enumerate(self._program.patterns):
            if pattern not in self._hits and guard.holds(state):
                self._hits[pattern] = identity
        ended = any(guard.holds(state) for guard in self._program.final)
        if not ended and not self._program.moves(state):
            self._stuck += 1
            if self._stuck_first is None:
                self._stuck_first = identity
        self._expanded += 1


def _checked(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise IndexError(f"no state {index}: {count} are stored")
    return index
