"""Obligations that were proved in earlier runs: a set of digests, in a SQLite database.

Processes share it, and a crash leaves it as it was before or after a change. It is bounded: the
digests that were not used for the longest time are removed. If it cannot be read or written,
nothing is known, and obligations are proved again.
"""

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

FILE: Final = "proved.sqlite3"
DIGESTS_MAX: Final = 200_000  # about 20 MB
WAIT_S: Final = 20.0  # for another process
TABLE: Final = """
    CREATE TABLE IF NOT EXISTS proved (digest TEXT PRIMARY KEY, used INTEGER NOT NULL) WITHOUT ROWID
"""
TODAY: Final = "CAST(julianday() AS INTEGER)"


@dataclass(frozen=True, slots=True)
class KeptProofs:
    """The digests of proved obligations in a folder. folder: None keeps nothing."""

    folder: Path | None
    digests_max: int = DIGESTS_MAX

    def among(self, digests: Collection[str]) -> frozenset[str]:
        """Those of the digests that are proved."""
        if self.folder is None or not (self.folder / FILE).exists():
            return frozenset()
        with suppress(sqlite3.Error, OSError), self._database("DEFERRED") as database:
            _ask(database, digests)
            found = database.execute("SELECT digest FROM asked JOIN proved USING (digest)")
            known = frozenset(digest for (digest,) in found)
            with suppress(sqlite3.OperationalError):  # another process writes
                database.execute(f"UPDATE proved SET used = {TODAY} WHERE used < {TODAY} "  # noqa: S608
                                 "AND digest IN (SELECT digest FROM asked)")
            return known
        return frozenset()

    def add(self, digests: Collection[str]) -> None:
        """Keep these digests. An error of the disk is ignored."""
        if self.folder is None or not digests:
            return
        with suppress(sqlite3.Error, OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._database("IMMEDIATE") as database:
                _ask(database, digests)
                database.execute("INSERT OR REPLACE INTO proved "  # noqa: S608
                                 f"SELECT digest, {TODAY} FROM asked")
                database.execute("DELETE FROM proved WHERE digest IN (SELECT digest FROM proved "
                                 "ORDER BY used DESC, digest LIMIT -1 OFFSET ?)",
                                 [self.digests_max])

    @contextmanager
    def _database(self, level: Literal["DEFERRED", "IMMEDIATE"]) -> Iterator[sqlite3.Connection]:
        """The database, in a transaction. One that is damaged is removed.

        level: IMMEDIATE waits for other writers before it reads.
        """
        assert self.folder is not None  # noqa: S101 - both callers return before
        file = self.folder / FILE
        try:
            with closing(sqlite3.connect(
                    file, timeout=WAIT_S, isolation_level=level)) as database, database:
                database.execute(TABLE)
                yield database
        except sqlite3.OperationalError:
            raise  # it is busy, or the disk is full
        except sqlite3.DatabaseError:
            file.unlink(missing_ok=True)
            raise


def _ask(database: sqlite3.Connection, digests: Collection[str]) -> None:
    database.execute("CREATE TEMP TABLE asked (digest TEXT)")
    database.executemany("INSERT INTO asked VALUES (?)", [(digest,) for digest in digests])
