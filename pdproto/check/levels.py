"""A breadth-first search whose states are in a table out of core: the part that its engines share.

To explore a level is to expand its states, to keep the distinct targets, and to store those that
the table lacks (an anti-join). The search is committed after each level, and goes on from there
after a crash, or in a later run. (S. Blom, B. Lisser, J. van de Pol, M. Weber: A Database Approach
to Distributed State Space Generation, 2007.) The engines differ in where the table is, and in how
it runs the join: in a DuckDB database (out_of_core.py), or in Spark (spark/table.py).

The edges that liveness asks for are in memory.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

import pdproto
from pdproto.check.engine import Assumptions, Edges, Flags, Positions, Traps
from pdproto.check.native import Expander
from pdproto.check.traps import find_traps
from pdproto.ground.program import WORD_BITS, Guard, Program

States: TypeAlias = NDArray[np.uint64]  # [states, words]
Ids: TypeAlias = NDArray[np.int64]
Row: TypeAlias = tuple[int | None, Sequence[int]]  # a state's parent, and its words

LIST_STATES: Final = 1 << 17  # that are read and expanded at a time
FORMAT: Final = 1  # of the kept states; another one is refused


@dataclass(slots=True)
class LevelCounts:
    """Counts made where states are expanded.

    fired: [rows], int64. hits: pattern -> id of the first state where it holds. stuck: the number
    of stuck states, and the id of the first.
    """

    fired: Ids
    hits: dict[int, int] = field(default_factory=dict)
    stuck: tuple[int, int | None] = (0, None)

    def add(self, other: "LevelCounts") -> None:
        """Add the counts of states that are expanded elsewhere, or later."""
        self.fired = self.fired + other.fired
        for pattern, identity in other.hits.items():
            self.hits[pattern] = min(identity, self.hits.get(pattern, identity))
        first = [one for one in (self.stuck[1], other.stuck[1]) if one is not None]
        self.stuck = self.stuck[0] + other.stuck[0], min(first, default=None)


class Lists:
    """The inner loops of the native engine over lists of states, with what they count."""

    def __init__(self, program: Program) -> None:
        self._expander: Final = Expander(program)
        self._seen: Final[set[int]] = set()
        self._before = self._expander.fired, 0
        self._hits: dict[int, int] = {}
        self._first_stuck: int | None = None

    def taken(self) -> LevelCounts:
        """The counts of `steps` since the last call. A pattern's first state is told once."""
        fired, (stuck, _) = self._expander.fired, self._expander.stuck
        tally = LevelCounts(fired - self._before[0], self._hits,
                      (stuck - self._before[1], self._first_stuck))
        self._before, self._hits, self._first_stuck = (fired, stuck), {}, None
        return tally

    def steps(
        self, states: States, ids: Ids, *, counts: bool
    ) -> Iterator[tuple[States, Ids, NDArray[np.uint32]]]:
        """The steps of these states, in parts: targets, the ids of their origins, and rows.

        A part is overwritten by the next one. counts: also count the states (`taken`).
        """
        while len(states):
            never_stuck = not self._expander.stuck[0]
            expanded, steps = self._expander.expand(states, counts=counts)
            if counts:
                self._note(ids, never_stuck)
            yield steps.targets, ids[steps.origins], steps.rows
            states, ids = np.ascontiguousarray(states[expanded:]), ids[expanded:]

    def _note(self, ids: Ids, never_stuck: bool) -> None:
        for pattern, place in self._expander.hits.items():
            if pattern not in self._seen:
                self._seen.add(pattern)
                self._hits[pattern] = int(ids[place])
        first = self._expander.stuck[1]
        if never_stuck and first is not None:
            self._first_stuck = int(ids[first])

    def where(self, guard: Guard, states: States) -> Flags:
        """[states]: whether the guard holds in each."""
        return self._expander.where(guard, states)

    def close(self) -> None:
        """Release the memory."""
        self._expander.close()


class Table(Protocol):
    """Where the states of a search are. Ids number them from 0, level by level."""

    @property
    def whole_levels(self) -> bool:
        """Whether a level cannot be expanded in parts."""

    @property
    def bytes(self) -> int:
        """Bytes of memory that the table takes in this process."""

    def progress(self) -> str | None:
        """The text of the last level that was committed; None for a new table."""

    def begin(self, states: States) -> None:
        """Reach these initial states, which `store` stores."""

    def expand(self, first: int, end: int) -> LevelCounts:
        """Expand the states with ids from `first` to before `end`: reach their targets."""

    def store(self, states: int, text: Callable[[int], str]) -> int:
        """Store what has been reached and is new, with ids from `states` on, and commit it.

        A state's parent is the one with the lowest id. text: gives the text that is committed too,
        for the number of all states, which is returned.
        """

    def rows(self, ids: Ids) -> Mapping[int, Row]:
        """The stored rows with these ids."""

    def read(self, first: int, end: int) -> States:
        """The states with ids from `first` to before `end`, in order."""

    def find(self, words: Sequence[int]) -> int | None:
        """The id of this state, if it is stored."""

    def edges(self, ids: Ids) -> tuple[Positions, NDArray[np.uint32], NDArray[np.uint32]]:
        """The edges of these states: the place of each in `ids`, its row, and its target's id.

        They are in the order of places and rows.
        """

    def close(self) -> None:
        """Release the memory. What has been committed stays if a folder was named for it."""


class KeptStatesError(OSError):
    """States that an earlier run has kept cannot be taken up by this one. They stay as they are."""


class LevelSearch:
    """See engine.Engine, which this class implements. Ids and positions are the same numbers.

    A state of a level has a greater id than those of earlier levels, and results are always the
    same. With a table of `whole_levels` a step is a whole level, however many states it has.
    """

    def __init__(self, program: Program, table: Table) -> None:
        """Store the initial states, or take up an earlier search of the same program.

        Raises KeptStatesError for states of another version or program.
        """
        self._program: Final = program
        self._table: Final = table
        self._lists: Final = Lists(program)
        self._tally = LevelCounts(np.zeros(len(program.rows), dtype=np.int64))
        self._levels: list[int] = []
        self._states = self._expanded = self._level_end = 0
        self._committed = True
        self._rows: Final[dict[int, Row]] = {}
        self._edges: Edges | None = None
        known = table.progress()
        if known is None:
            initial = dict.fromkeys(map(program.normal, program.initial))
            words = np.array([split(program, state) for state in initial], dtype=np.uint64)
            table.begin(words.reshape(-1, program.words))
            self._commit()
        else:
            self._take_up(known)

    def _take_up(self, text: str) -> None:
        known = parsed(text, self._program)
        hits = {int(pattern): identity for pattern, identity in known["hits"].items()}
        fired = np.array(known["fired"], dtype=np.int64)
        self._tally = LevelCounts(fired, hits, tuple(known["stuck"]))
        self._levels = known["levels"]
        self._states, self._expanded = known["states"], known["expanded"]
        self._level_end = self._expanded

    def _progress(self, states: int) -> str:
        return json.dumps({
            "format": FORMAT, "version": pdproto.__version__, "program": name_of(self._program),
            "fired": self._tally.fired.tolist(), "hits": self._tally.hits,
            "stuck": self._tally.stuck, "levels": self._levels, "states": states,
            "expanded": self._expanded,
        })

    def _commit(self) -> None:
        self._states = self._table.store(self._states, self._progress)
        self._committed = True

    @property
    def states(self) -> int:
        return self._states

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(self._levels)

    @property
    def frontier(self) -> int:
        return self._states - self._expanded

    @property
    def fired(self) -> NDArray[np.int64]:
        return self._tally.fired

    @property
    def hits(self) -> dict[int, int]:
        return dict(sorted(self._tally.hits.items()))

    @property
    def stuck(self) -> tuple[int, int | None]:
        return self._tally.stuck

    @property
    def bytes(self) -> int:
        return self._table.bytes

    def step(self, states_max: int, *, strictly: bool = False) -> bool:  # noqa: ARG002 - if it can
        if self.at_level_end and self.frontier:
            self._levels.append(self.frontier)
            self._level_end = self._states
            self._committed = False
        last = self._level_end
        if not self._table.whole_levels:
            last = min(last, self._expanded + max(states_max, 1))
        while self._expanded < last:
            end = last
            if not self._table.whole_levels:
                end = min(last, self._expanded + LIST_STATES)
            self._tally.add(self._table.expand(self._expanded, end))
            self._expanded = end
        if self._expanded == self._level_end and not self._committed:
            self._commit()
        return self.frontier > 0

    @property
    def at_level_end(self) -> bool:
        return self._committed

    def state(self, identity: int) -> int:
        words = self._row(identity)[1]
        return sum(word << i * WORD_BITS for i, word in enumerate(words))

    def parent(self, identity: int) -> int | None:
        return self._row(identity)[0]

    def _row(self, identity: int) -> Row:
        """The row with this id.

        One walk to the initial states, a query a level, finds it and all ancestors of the states
        whose traces a report shows.
        """
        if self._check(identity) not in self._rows:
            first_stuck = self._tally.stuck[1]
            shown = {*self._tally.hits.values(), identity}
            wanted = shown if first_stuck is None else shown | {first_stuck}
            while wanted := wanted - self._rows.keys():
                found = self._table.rows(np.array(sorted(wanted), dtype=np.int64))
                self._rows.update(found)
                wanted = {parent for parent, _ in found.values() if parent is not None}
        return self._rows[identity]

    def find(self, state: int) -> int | None:
        if not 0 <= state < 1 << self._program.words * WORD_BITS:
            return None
        return self._table.find(split(self._program, state))

    def edges(self, positions: Positions | None = None) -> Edges:
        if self._edges is not None and len(self._edges.starts) == self._states + 1:
            return self._edges if positions is None else _part(self._edges, positions)
        if positions is not None:
            for position in positions.tolist():
                self._check(position)
            return self._found_edges(positions)
        self._edges = self._found_edges(np.arange(self._states, dtype=np.int64))
        return self._edges

    def _found_edges(self, positions: Positions) -> Edges:
        done = np.flatnonzero(positions < self._expanded)
        places, rows, targets = self._table.edges(positions[done])
        counts = np.bincount(done[places], minlength=len(positions))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Edges(starts, targets, rows)

    def traps(self, pending: Flags, allowed: Flags, assumed: Assumptions) -> Traps:
        return find_traps(self.edges(), pending, allowed, assumed)

    def identity(self, position: int) -> int:
        return self._check(position)

    def position(self, identity: int) -> int:
        return self._check(identity)

    def where(self, guard: Guard) -> Flags:
        parts = [self._lists.where(guard, self._table.read(first, first + LIST_STATES))
                 for first in range(0, self._states, LIST_STATES)]
        return np.concatenate(parts)

    def close(self) -> None:
        self._lists.close()
        self._table.close()

    def _check(self, index: int) -> int:
        if not 0 <= index < self._states:
            raise IndexError(f"no state {index}: {self._states} are stored")
        return index


def _part(edges: Edges, positions: Positions) -> Edges:
    """The edges of some states."""
    counts = np.diff(edges.starts)[positions]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    chosen = np.arange(starts[-1]) + np.repeat(edges.starts[positions] - starts[:-1], counts)
    return Edges(starts, edges.targets[chosen], edges.rows[chosen])


def split(program: Program, state: int) -> list[int]:
    """The words of a state, the lowest first."""
    return [state >> i * WORD_BITS & (1 << WORD_BITS) - 1 for i in range(program.words)]


def name_of(program: Program) -> str:
    """A digest of the program, by which an earlier search is found again."""
    return blake2b(repr(program).encode(), digest_size=16).hexdigest()


def parsed(text: str, program: Program) -> dict[str, Any]:
    """A progress that an earlier run has committed. Raises KeptStatesError."""
    try:
        known: dict[str, Any] = json.loads(text)
        head = known.get("format"), known.get("version"), known.get("program")
    except (ValueError, AttributeError):
        raise KeptStatesError("the kept states are unreadable: name another folder") from None
    if head != (FORMAT, pdproto.__version__, name_of(program)):
        made = f"pdproto {head[1]}, format {head[0]}" if head[1] else "an older pdproto"
        of = "" if head[2] == name_of(program) else ", of another system or other tables"
        raise KeptStatesError(f"the kept states are of {made}{of}: name another folder")
    return known
