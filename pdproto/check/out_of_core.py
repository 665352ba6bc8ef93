"""A search out of core on one machine: the states are rows of a DuckDB database, on disk.

DuckDB spills to disk what does not fit into the memory limit. levels.py has the search; here are
its statements in SQL, and each level is one transaction.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pdproto.check.engine import Positions, StoppedError
from pdproto.check.levels import (
    LIST_STATES,
    Ids,
    LevelCounts,
    LevelSearch,
    Lists,
    Row,
    States,
    name_of,
)
from pdproto.ground.program import Program

ENDING: Final = ".duckdb"


class DuckDbEngine(LevelSearch):
    """See engine.Engine. Within a level, ids are in the order of the parents' ids, and then of the
    states as numbers.
    """

    def __init__(
        self, program: Program, *, workers: int, bytes_max: int | None = None,
        folder: str | None = None,
    ) -> None:
        """Store the initial states, or take up an earlier search of the same program.

        workers: threads of DuckDB. bytes_max: its memory. folder: where the database is kept; None
        for one in memory. Raises ModuleNotFoundError without DuckDB, and OSError if the database
        cannot be opened or taken up.
        """
        super().__init__(program, DuckDbTable(program, workers, bytes_max, folder))


class DuckDbTable:
    """See levels.Table, which this class implements."""

    whole_levels: Final = False

    def __init__(
        self, program: Program, workers: int, bytes_max: int | None, folder: str | None
    ) -> None:
        self._columns: Final = [f"w{i}" for i in range(program.words)]
        self._words: Final = ", ".join(self._columns)
        self._duckdb: Final = importlib.import_module("duckdb")
        self._connection: Final = _connected(self._duckdb, program, workers, bytes_max, folder)
        self._lists: Final = Lists(program)
        self._typed: Final = ", ".join(f"{name} UBIGINT NOT NULL" for name in self._columns)
        self._do(f"CREATE TEMP TABLE reached (parent UBIGINT, {self._typed})")

    @property
    def bytes(self) -> int:
        return int(self._one("SELECT sum(memory_usage_bytes) FROM duckdb_memory()"))

    def progress(self) -> str | None:
        if not self._one("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'levels'"):
            return None
        text: str = self._one("SELECT progress FROM levels ORDER BY level DESC LIMIT 1")
        return text

    def begin(self, states: States) -> None:
        self._do(f"CREATE TABLE states (id UBIGINT NOT NULL, parent UBIGINT, {self._typed})")
        self._do("CREATE TABLE levels (level INTEGER, progress VARCHAR)")
        self._do(f"INSERT INTO reached SELECT NULL, {self._words} FROM batch",
                 batch=self._batch(states))

    def expand(self, first: int, end: int) -> LevelCounts:
        for targets, parents, _ in self._lists.steps(
                self.read(first, end), np.arange(first, end, dtype=np.int64), counts=True):
            if len(targets):
                self._do(f"INSERT INTO reached SELECT min(parent), {self._words} FROM batch "
                         f"GROUP BY {self._words}", batch=self._batch(targets, parent=parents))
        return self._lists.taken()

    def store(self, states: int, text: Callable[[int], str]) -> int:
        self._do("BEGIN")
        try:
            self._do(f"""
                INSERT INTO states
                SELECT {states} - 1 + row_number() OVER (ORDER BY parent, {self._words}),
                       parent, {self._words}
                FROM (SELECT min(parent) AS parent, {self._words} FROM reached
                      GROUP BY {self._words})
                ANTI JOIN states AS known USING ({self._words})""")
            states = int(self._one("SELECT count(*) FROM states"))
            self._do("INSERT INTO levels SELECT count(*), ? FROM levels", [text(states)])
            self._do("COMMIT")
        except BaseException:
            with suppress(self._duckdb.Error):  # a failed commit has ended the transaction
                self._do("ROLLBACK")
            raise
        self._do("TRUNCATE reached")
        return states

    def rows(self, ids: Ids) -> Mapping[int, Row]:
        found = self._do(f"SELECT id, parent, {self._words} FROM batch JOIN states USING (id)",
                         batch={"id": ids.astype(np.uint64)}).fetchall()
        return {identity: (parent, words) for identity, parent, *words in found}

    def read(self, first: int, end: int) -> States:
        found = self._do(f"SELECT {self._words} FROM states WHERE id >= ? AND id < ? ORDER BY id",
                         [first, end]).fetchnumpy()
        return self._stacked(found)

    def find(self, words: Sequence[int]) -> int | None:
        same = " AND ".join(f"{name} = ?" for name in self._columns)
        found = self._do(f"SELECT id FROM states WHERE {same}", list(words)).fetchone()
        return None if found is None else int(found[0])

    def edges(self, ids: Ids) -> tuple[Positions, NDArray[np.uint32], NDArray[np.uint32]]:
        self._do(f"CREATE OR REPLACE TEMP TABLE steps (place UBIGINT, row_number UINTEGER, "
                 f"{self._typed})")
        for first in range(0, len(ids), LIST_STATES):
            states = self._read_at(ids[first : first + LIST_STATES])
            places = np.arange(first, first + len(states), dtype=np.int64)
            for targets, origins, rows in self._lists.steps(states, places, counts=False):
                if len(targets):
                    batch = self._batch(targets, place=origins, row_number=rows)
                    self._do(f"INSERT INTO steps SELECT place, row_number, {self._words} "
                             f"FROM batch", batch=batch)
        found = self._do(
            f"SELECT place, row_number, id FROM steps JOIN states USING ({self._words}) "
            f"ORDER BY place, row_number").fetchnumpy()
        self._do("DROP TABLE steps")
        return (np.asarray(found["place"]).astype(np.int64),
                np.asarray(found["row_number"]).astype(np.uint32),
                np.asarray(found["id"]).astype(np.uint32))

    def close(self) -> None:
        self._lists.close()
        self._connection.close()

    def _read_at(self, ids: Ids) -> States:
        """The states with these ids, in their order."""
        if len(ids) and np.array_equal(ids, np.arange(ids[0], ids[0] + len(ids))):
            return self.read(int(ids[0]), int(ids[-1]) + 1)
        batch = {"id": ids.astype(np.uint64), "place": np.arange(len(ids))}
        return self._stacked(self._do(
            f"SELECT {self._words} FROM batch JOIN states USING (id) ORDER BY place",
            batch=batch).fetchnumpy())

    def _stacked(self, found: Mapping[str, NDArray[np.uint64]]) -> States:
        return np.ascontiguousarray(
            np.stack([np.asarray(found[name]) for name in self._columns], axis=1))

    def _batch(self, states: States, **more: NDArray[Any]) -> dict[str, NDArray[Any]]:
        return dict(zip(self._columns, np.ascontiguousarray(states.T), strict=True)) | more

    def _one(self, query: str) -> Any:
        return self._do(query).fetchone()[0]

    def _do(
        self, query: str, values: list[Any] | None = None, *,
        batch: dict[str, NDArray[Any]] | None = None,  # noqa: ARG002 - DuckDB finds it by its name
    ) -> Any:
        """Run a query. batch: the columns of a table of that name.

        Raises MemoryError, and StoppedError when the disk is full or fails.
        """
        try:
            return self._connection.execute(query, values)
        except self._duckdb.OutOfMemoryException as error:
            raise MemoryError(str(error)) from error
        except (self._duckdb.IOException, self._duckdb.TransactionException) as error:
            raise StoppedError(f"DuckDB: {str(error).splitlines()[0]}") from error


def _connected(
    duckdb: Any, program: Program, workers: int, bytes_max: int | None, folder: str | None
) -> Any:
    settings: dict[str, str | int] = {"threads": workers, "preserve_insertion_order": "false"}
    if bytes_max is not None:
        settings["memory_limit"] = f"{bytes_max >> 20}MiB"
    file = ":memory:"
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        file = str(Path(folder, f"{name_of(program)}{ENDING}"))
        settings["temp_directory"] = str(Path(folder, "spilled"))
    try:
        return duckdb.connect(file, config=settings)
    except duckdb.IOException as error:
        raise OSError(f"cannot open {file}: {error}") from error
