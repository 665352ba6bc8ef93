"""A breadth-first search out of core: the states are rows of a DuckDB database, on disk.

A level is a few statements of SQL around the inner loops of the native engine: expand the level in
lists, keep the distinct targets, and add those that the table lacks (an anti-join). DuckDB spills
to disk what does not fit into the memory limit. After each level the search is committed, so it
goes on from there after a crash, or in a later run. (S. Blom, B. Lisser, J. van de Pol, M. Weber: A
Database Approach to Distributed State Space Generation, 2007.)

The edges that liveness asks for are in memory.
"""

import importlib
import json
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pdproto.check.engine import Assumptions, Edges, Flags, Positions, Traps
from pdproto.check.native import Expander
from pdproto.check.traps import find_traps
from pdproto.ground.program import WORD_BITS, Guard, Program

States = NDArray[np.uint64]

LIST_STATES: Final = 1 << 17  # that are read, expanded and posted at a time
ENDING: Final = ".duckdb"


class DuckDbEngine:
    """See engine.Engine, which this class implements. Ids and positions are the same numbers.

    A state of a level has a greater id than those of earlier levels; within a level the order is
    that of the parents, and then of the states as numbers. So results are always the same.
    """

    def __init__(
        self, program: Program, *, workers: int, bytes_max: int | None = None,
        folder: Path | None = None,
    ) -> None:
        """Store the initial states, or take up an earlier search of the same program.

        workers: threads of DuckDB. bytes_max: its memory. folder: where the database is kept; None
        for one in memory. Raises ModuleNotFoundError without DuckDB, and OSError if the database
        cannot be opened.
        """
        self._program: Final = program
        self._expander: Final = Expander(program)
        self._columns: Final = [f"w{i}" for i in range(program.words)]
        self._words: Final = ", ".join(self._columns)
        self._edges: Edges | None = None
        self._duckdb: Final = importlib.import_module("duckdb")
        self._connection: Final = _connected(self._duckdb, program, workers, bytes_max, folder)
        self._fired: NDArray[np.int64] = np.zeros(len(program.rows), dtype=np.int64)
        self._hits: dict[int, int] = {}
        self._stuck: tuple[int, int | None] = 0, None
        self._levels: list[int] = []
        self._states = self._expanded = self._level_end = 0
        columns = ", ".join(f"{name} UBIGINT NOT NULL" for name in self._columns)
        self._do(f"CREATE TEMP TABLE reached (parent UBIGINT, {columns})")
        if self._one("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'levels'"):
            self._take_up()
        else:
            self._begin(columns)

    def _begin(self, columns: str) -> None:
        self._do(f"CREATE TABLE states (id UBIGINT NOT NULL, parent UBIGINT, {columns})")
        self._do("CREATE TABLE levels (level INTEGER, progress VARCHAR)")
        initial = dict.fromkeys(map(self._program.normal, self._program.initial))
        words = np.array([self._split(state) for state in initial], dtype=np.uint64)
        self._post(words.reshape(-1, self._program.words), None)
        self._store_reached()

    def _take_up(self) -> None:
        known = json.loads(self._one("SELECT progress FROM levels ORDER BY level DESC LIMIT 1"))
        self._fired = np.array(known["fired"], dtype=np.int64)
        self._hits = {int(pattern): place for pattern, place in known["hits"].items()}
        self._stuck = tuple(known["stuck"])
        self._levels = known["levels"]
        self._states, self._expanded = known["states"], known["expanded"]
        self._level_end = self._expanded

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
        return self._fired + self._expander.fired

    @property
    def hits(self) -> dict[int, int]:
        return dict(sorted(self._hits.items()))

    @property
    def stuck(self) -> tuple[int, int | None]:
        return self._stuck

    @property
    def bytes(self) -> int:
        return int(self._one("SELECT sum(memory_usage_bytes) FROM duckdb_memory()"))

    def step(self, states_max: int) -> bool:
        if self.at_level_end and self.frontier:
            self._levels.append(self.frontier)
            self._level_end = self._states
        began = self._expanded
        last = min(self._level_end, began + max(states_max, 1))
        while self._expanded < last:
            end = min(last, self._expanded + LIST_STATES)
            self._expand(self._expanded, end)
            self._expanded = end
        if self.at_level_end and last > began:
            self._store_reached()
        return self.frontier > 0

    @property
    def at_level_end(self) -> bool:
        return self._expanded == self._level_end

    def _expand(self, first: int, end: int) -> None:
        """Expand the states from `first` to before `end`, and post where they lead."""
        states = self._read(first, end)
        while first < end:
            stuck_before, _ = self._expander.stuck
            expanded, steps = self._expander.expand(states, counts=True)
            for pattern, place in self._expander.hits.items():
                self._hits.setdefault(pattern, first + place)
            stuck, first_stuck = self._expander.stuck
            if stuck > stuck_before:
                total, earliest = self._stuck
                if earliest is None and first_stuck is not None:
                    earliest = first + first_stuck
                self._stuck = total + stuck - stuck_before, earliest
            self._post(steps.targets, steps.origins.astype(np.uint64) + np.uint64(first))
            states, first = np.ascontiguousarray(states[expanded:]), first + expanded

    def _post(self, targets: States, parents: NDArray[np.uint64] | None) -> None:
        if not len(targets):
            return
        batch = dict(zip(self._columns, np.ascontiguousarray(targets.T), strict=True))
        if parents is None:
            self._do(f"INSERT INTO reached SELECT NULL, {self._words} FROM batch", batch=batch)
            return
        batch["parent"] = parents
        self._do(f"INSERT INTO reached SELECT min(parent), {self._words} FROM batch "
                 f"GROUP BY {self._words}", batch=batch)

    def _store_reached(self) -> None:
        """Give ids to the states that are new, and commit the level."""
        self._do("BEGIN")
        try:
            self._do(f"""
                INSERT INTO states
                SELECT {self._states} - 1 + row_number() OVER (ORDER BY parent, {self._words}),
                       parent, {self._words}
                FROM (SELECT min(parent) AS parent, {self._words} FROM reached
                      GROUP BY {self._words})
                ANTI JOIN states AS known USING ({self._words})""")
            self._states = int(self._one("SELECT count(*) FROM states"))
            self._do("INSERT INTO levels VALUES (?, ?)", [len(self._levels), self._progress()])
            self._do("COMMIT")
        except BaseException:
            self._do("ROLLBACK")
            raise
        self._do("TRUNCATE reached")

    def _progress(self) -> str:
        return json.dumps({
            "fired": self.fired.tolist(), "hits": self._hits, "stuck": self._stuck,
            "levels": self._levels, "states": self._states, "expanded": self._expanded,
        })

    def state(self, identity: int) -> int:
        words = self._row(identity)[1:]
        return sum(word << i * WORD_BITS for i, word in enumerate(words))

    def parent(self, identity: int) -> int | None:
        parent: int | None = self._row(identity)[0]
        return parent

    def find(self, state: int) -> int | None:
        if not 0 <= state < 1 << self._program.words * WORD_BITS:
            return None
        same = " AND ".join(f"{name} = ?" for name in self._columns)
        words = self._split(state)
        found = self._do(f"SELECT id FROM states WHERE {same}", words).fetchone()
        return None if found is None else int(found[0])

    def edges(self, positions: Positions | None = None) -> Edges:
        if positions is None:
            if self._edges is None or len(self._edges.starts) != self._states + 1:
                self._edges = self._found_edges(np.arange(self._states, dtype=np.int64))
            return self._edges
        for position in positions.tolist():
            self._check(position)
        return self._found_edges(positions)

    def _found_edges(self, positions: Positions) -> Edges:
        columns = ", ".join(f"{name} UBIGINT NOT NULL" for name in self._columns)
        self._do(f"CREATE OR REPLACE TEMP TABLE steps (place UBIGINT, row_number UINTEGER, "
                 f"{columns})")
        for first in range(0, len(positions), LIST_STATES):
            part = positions[first : first + LIST_STATES]
            self._post_edges(first, part)
        found = self._do(
            f"SELECT place, row_number, id FROM steps JOIN states USING ({self._words}) "
            f"ORDER BY place, row_number").fetchnumpy()
        self._do("DROP TABLE steps")
        counts = np.bincount(found["place"].astype(np.int64), minlength=len(positions))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Edges(starts, np.asarray(found["id"]).astype(np.uint32),
                     np.asarray(found["row_number"]).astype(np.uint32))

    def _post_edges(self, first: int, positions: Positions) -> None:
        """Post the steps of the states at these positions, of which the first has this place."""
        done = positions < self._expanded
        places = np.flatnonzero(done).astype(np.uint64) + np.uint64(first)
        states = self._read_at(positions[done])
        while len(states):
            expanded, steps = self._expander.expand(states, counts=False)
            batch = dict(zip(self._columns, np.ascontiguousarray(steps.targets.T), strict=True))
            batch["place"], batch["row_number"] = places[steps.origins], steps.rows
            if len(steps.rows):
                self._do(f"INSERT INTO steps SELECT place, row_number, {self._words} FROM batch",
                         batch=batch)
            states, places = np.ascontiguousarray(states[expanded:]), places[expanded:]

    def traps(self, pending: Flags, allowed: Flags, assumed: Assumptions) -> Traps:
        return find_traps(self.edges(), pending, allowed, assumed)

    def identity(self, position: int) -> int:
        return self._check(position)

    def position(self, identity: int) -> int:
        return self._check(identity)

    def where(self, guard: Guard) -> Flags:
        parts = [self._expander.where(guard, self._read(first, first + LIST_STATES))
                 for first in range(0, self._states, LIST_STATES)]
        return np.concatenate(parts)

    def close(self) -> None:
        self._expander.close()
        self._connection.close()

    def _check(self, index: int) -> int:
        if not 0 <= index < self._states:
            raise IndexError(f"no state {index}: {self._states} are stored")
        return index

    def _row(self, identity: int) -> tuple[Any, ...]:
        found = self._do(f"SELECT parent, {self._words} FROM states WHERE id = ?",
                         [self._check(identity)]).fetchone()
        assert found is not None  # noqa: S101 - its id was checked
        row: tuple[Any, ...] = found
        return row

    def _read(self, first: int, end: int) -> States:
        """The states with these ids, in order, [states, words]."""
        found = self._do(f"SELECT {self._words} FROM states WHERE id >= ? AND id < ? ORDER BY id",
                         [first, end]).fetchnumpy()
        return _stacked(found, self._columns)

    def _read_at(self, positions: Positions) -> States:
        """The states at these positions, in their order."""
        if len(positions) and np.array_equal(
                positions, np.arange(positions[0], positions[0] + len(positions))):
            return self._read(int(positions[0]), int(positions[-1]) + 1)
        batch = {"id": positions.astype(np.uint64), "place": np.arange(len(positions))}
        found = self._do(f"SELECT {self._words} FROM batch JOIN states USING (id) ORDER BY place",
                         batch=batch).fetchnumpy()
        return _stacked(found, self._columns)

    def _split(self, state: int) -> list[int]:
        return [state >> i * WORD_BITS & (1 << WORD_BITS) - 1 for i in range(self._program.words)]

    def _one(self, query: str) -> Any:
        return self._do(query).fetchone()[0]

    def _do(
        self, query: str, values: list[Any] | None = None, *,
        batch: dict[str, NDArray[Any]] | None = None,  # noqa: ARG002 - DuckDB finds it by its name
    ) -> Any:
        """Run a query. batch: the columns of a table of that name. Raises MemoryError."""
        try:
            return self._connection.execute(query, values)
        except self._duckdb.OutOfMemoryException as error:
            raise MemoryError(str(error)) from error


def _stacked(found: dict[str, NDArray[np.uint64]], columns: list[str]) -> States:
    return np.ascontiguousarray(np.stack([np.asarray(found[name]) for name in columns], axis=1))


def _connected(
    duckdb: Any, program: Program, workers: int, bytes_max: int | None, folder: Path | None
) -> Any:
    settings: dict[str, str | int] = {"threads": workers, "preserve_insertion_order": "false"}
    if bytes_max is not None:
        settings["memory_limit"] = f"{bytes_max >> 20}MiB"
    file = ":memory:"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        file = str(folder / f"{name_of(program)}{ENDING}")
        settings["temp_directory"] = str(folder / "spilled")
    try:
        return duckdb.connect(file, config=settings)
    except duckdb.IOException as error:
        raise OSError(f"cannot open {file}: {error}") from error


def name_of(program: Program) -> str:
    """A digest of the program, by which an earlier search is found again."""
    return blake2b(repr(program).encode(), digest_size=16).hexdigest()
