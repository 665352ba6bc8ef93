"""The interface of a search engine. native/ is the fast one; portable.py runs anywhere.

Both visit the same states and report the same counts (tests/check/test_engines.py).
"""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdproto.ground.program import Guard

Positions: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class StoppedError(Exception):
    """The engine cannot go on, and its answer is unknown. The message has the reason, in one line.

    What it has found so far stays valid, and what it has committed to a folder stays there.
    """


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges that leave some states, without self-loops.

    starts: int64 [these states + 1], where the edges of each begin. targets: uint32 [edges],
    positions. rows: uint32 [edges], the ground row that each edge fires; ascending within a state.
    """

    starts: Positions
    targets: NDArray[np.uint32]
    rows: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What up to 8 assumptions of fairness say of the ground rows.

    fair: uint8 [rows], bit k: the row is fair under the k-th. faults: [rows]. units: uint32 [rows],
    a row's number; rows with the same one count as one row, and at most one is enabled in a state.
    """

    count: int
    fair: NDArray[np.uint8]
    faults: Flags
    units: NDArray[np.uint32]

    @property
    def every(self) -> int:
        """The bits of all assumptions."""
        return (1 << self.count) - 1


@dataclass(frozen=True, slots=True)
class Traps:
    """The states in which a fair run can stay for ever (liveness.py).

    found: bit k: there is one under the k-th assumption. where: uint8 [states], the same of each
    state. components: uint32 [states], different for states of different strongly connected
    components of the region.
    """

    found: int
    where: NDArray[np.uint8]
    components: NDArray[np.uint32]


class Engine(Protocol):
    """A breadth-first search in progress, level by level.

    A state has an *id*, which never changes. When the search has ended, it also has a *position* in
    0 .. states - 1. Ids are in no particular order. All counts are exact.
    """

    @property
    def states(self) -> int:
        """Distinct states stored so far."""

    @property
    def levels(self) -> tuple[int, ...]:
        """States in each level whose expansion has begun; level 0 holds the initial states."""

    @property
    def frontier(self) -> int:
        """States stored but not yet expanded."""

    @property
    def fired(self) -> NDArray[np.int64]:
        """[rows]: the number of expanded states in which the row was enabled (self-loops count)."""

    @property
    def hits(self) -> dict[int, int]:
        """Pattern -> id of the first expanded state, in breadth-first order, where it holds."""

    @property
    def stuck(self) -> tuple[int, int | None]:
        """The stuck states (program.py) among the expanded ones: their number, and the id of the
        first; None if there are none.
        """

    @property
    def bytes(self) -> int:
        """Bytes of memory for states, parents and tables."""

    def step(self, states_max: int, *, strictly: bool = False) -> bool:
        """Expand up to about `states_max` states, never past the end of the current level.

        strictly: not many more than that, though it is slower; ids may then differ. An engine that
        expands whole levels does so even then. Returns whether unexpanded states remain. Raises
        MemoryError if memory runs out; the engine stays usable. Raises StoppedError if it cannot go
        on.
        """

    @property
    def at_level_end(self) -> bool:
        """Whether the last step has finished a level."""

    def state(self, identity: int) -> int:
        """The stored state with this id. Raises IndexError for an unknown id."""

    def parent(self, identity: int) -> int | None:
        """The id of the state from which this one was first reached; None for an initial state."""

    def find(self, state: int) -> int | None:
        """The id of a state given in its stored form, if it has been stored."""

    def edges(self, positions: Positions | None = None) -> Edges:
        """The edges of these states, or of all. A state that is not yet expanded has none.

        The graph is nowhere stored: each call finds its edges anew.
        """

    def traps(self, pending: Flags, allowed: Flags, assumed: Assumptions) -> Traps:
        """The traps in the region that is reached from pending states through allowed ones.

        pending, allowed: [states]. Call it when the search has ended.
        """

    def identity(self, position: int) -> int:
        """The id of the state at a position."""

    def position(self, identity: int) -> int:
        """The position of the state with this id."""

    def where(self, guard: Guard) -> Flags:
        """[states] by position: the states in which the guard holds."""

    def close(self) -> None:
        """Release the memory. The engine cannot be used afterwards."""
