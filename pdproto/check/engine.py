"""The interface of a search engine. native/ is the fast one; portable.py runs anywhere.

Both visit the same states and report the same counts (tests/check/test_engines.py).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pdproto.ground.program import Guard


@dataclass(frozen=True, slots=True)
class Edges:
    """The explored graph without self-loops, by position: 0 .. states - 1.

    starts: int64 [states + 1], where a position's edges begin. targets: uint32 [edges], positions.
    rows: uint32 [edges], the ground row that each edge fires; ascending within a position.
    """

    starts: NDArray[np.int64]
    targets: NDArray[np.uint32]
    rows: NDArray[np.uint32]


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

    def step(self, states_max: int) -> bool:
        """Expand up to about `states_max` states, never past the end of the current level.

        Returns whether unexpanded states remain. Raises MemoryError if memory runs out; the engine
        stays usable.
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

    def edges(self) -> Edges:
        """The whole graph. Call it when the search has ended; 8 bytes an edge, 8 a state."""

    def identity(self, position: int) -> int:
        """The id of the state at a position."""

    def position(self, identity: int) -> int:
        """The position of the state with this id."""

    def where(self, guard: Guard) -> NDArray[np.bool_]:
        """[states] by position: the states in which the guard holds."""

    def close(self) -> None:
        """Release the memory. The engine cannot be used afterwards."""
