"""A search out of core on a cluster: the states are Parquet files, in Spark.

levels.py has the search. The table of states is partitioned by level, and each level into buckets
by a hash of the state, sorted. So a level's anti-join shuffles the states that were reached, and
none of those that are stored.

A state has a *place* in its level: the number of its bucket, and its row in there. Ids number the
places of one level after the other.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pdproto.check.engine import Positions, StoppedError
from pdproto.check.levels import Ids, LevelCounts, LevelSearch, Row, States, name_of
from pdproto.check.opinions.opinion import FailedError
from pdproto.check.spark.files import Files
from pdproto.check.spark.session import Session, session
from pdproto.check.spark.tasks import BUCKET_BITS, ROW_MASK, Count, Follow, Reach, columns
from pdproto.ground.program import WORD_BITS, Program

Answer = TypeVar("Answer")

ENDING: Final = ".spark"
FEW: Final = 1 << 10  # states that a query names one by one
WORD_MASK: Final = (1 << WORD_BITS) - 1
ORPHAN: Final = -1  # the parent of an initial state
SHUFFLES: Final = "spark.sql.shuffle.partitions"
BUCKETS_LEAST: Final = 2


class SparkEngine(LevelSearch):
    """See engine.Engine. A step is a whole level. Liveness takes all states and edges into the
    memory of this process.
    """

    def __init__(
        self, program: Program, *, workers: int, folder: str | None = None,
        master: str | None = None,
    ) -> None:
        """Store the initial states, or take up an earlier search of the same program.

        workers: threads of a local master. folder: where the states are kept, a path or a URI that
        all executors reach. master: see `session`. Raises NotInstalledError and FailedError.
        """
        began = session(master, workers)
        if folder is None and not began.local:
            raise FailedError(f"the executors at {began.context.master} need a folder that all of "
                              "them reach: give --states FOLDER")
        try:
            super().__init__(program, SparkTable(program, began, folder))
        except StoppedError as error:
            raise FailedError(str(error)) from error


class Places:
    """The ids of places: of each level the first id, and the first id of each bucket."""

    def __init__(self) -> None:
        self.states = 0
        self._firsts: Final[list[int]] = []
        self._buckets: Final[list[Ids]] = []

    @property
    def levels(self) -> int:
        """The number of levels."""
        return len(self._firsts)

    def add(self, sizes: Ids) -> None:
        """Add a level with buckets of these sizes."""
        self._firsts.append(self.states)
        self._buckets.append(self.states + np.cumsum(sizes) - sizes)
        self.states += int(sizes.sum())

    def ids(self, level: int, places: Ids) -> Ids:
        """The ids of places of a level."""
        found: Ids = self._buckets[level][places >> BUCKET_BITS] + (places & ROW_MASK)
        return found

    def id(self, level: int, place: int) -> int:
        """The id of one place of a level."""
        return int(self.ids(level, np.array([place]))[0])

    def places(self, ids: Ids) -> list[tuple[int, Ids]]:
        """The levels of these ids, and the places in each."""
        levels = np.searchsorted(self._firsts, ids, side="right") - 1
        found = []
        for level in np.unique(levels).tolist():
            here, firsts = ids[levels == level], self._buckets[level]
            buckets = np.searchsorted(firsts, here, side="right") - 1
            found.append((level, buckets << BUCKET_BITS | here - firsts[buckets]))
        return found


class SparkTable:
    """See levels.Table, which this class implements."""

    whole_levels: Final = True

    def __init__(self, program: Program, began: Session, folder: str | None) -> None:
        self._program: Final = program
        self._session: Final = began
        self._spark: Final = began.spark
        self._functions: Final = import_module("pyspark.sql.functions")
        self._columns: Final = columns(program)
        self._typed: Final = ", ".join(f"{name} BIGINT" for name in self._columns)
        self._own: Final = None if folder else TemporaryDirectory(prefix="pdproto-")
        home = folder if self._own is None else self._own.name
        self._files: Final = Files(began, f"{home}/{name_of(program)}{ENDING}")
        self._name: Final = f"states_{name_of(program)}"
        self._places: Final = Places()
        self._written: Final[set[str]] = set()  # the files of all levels
        self._tally: LevelCounts | None = None  # of the last level, with places for ids
        self._everything: States | None = None
        self._initial: States | None = None
        self._buckets = _buckets(began)
        self._text = self._take_up(self._files.texts())
        self._declare()

    def _take_up(self, texts: Sequence[str]) -> str | None:
        """Take up the levels that are committed; the text of the last one, as `store` got it."""
        search = None
        for text in texts:
            try:
                known = json.loads(text)
                search, sizes = str(known["search"]), np.array(known["sizes"], dtype=np.int64)
                self._written.update(known["files"])
            except (ValueError, KeyError, TypeError):
                return text  # which LevelSearch refuses
            self._buckets = len(sizes)
            self._places.add(sizes)
        return search

    def _declare(self) -> None:
        """Tell Spark of the table, with the levels that are in the folder."""
        by = ", ".join(self._columns)
        where = f"{self._files.root}/states".replace("\\", "\\\\").replace("'", "\\'")
        self._run(lambda: self._spark.sql(f"DROP TABLE IF EXISTS {self._name}"))
        self._run(lambda: self._spark.sql(
            f"CREATE TABLE {self._name} (place BIGINT, parent BIGINT, {self._typed}, level INT) "
            f"USING parquet PARTITIONED BY (level) CLUSTERED BY ({by}) SORTED BY ({by}) "
            f"INTO {self._buckets} BUCKETS LOCATION '{where}'"))

    @property
    def bytes(self) -> int:
        return 0 if self._everything is None else self._everything.nbytes

    def progress(self) -> str | None:
        return self._text

    def begin(self, states: States) -> None:
        self._initial = states

    def expand(self, first: int, end: int) -> LevelCounts:  # noqa: ARG002 - they are the last level
        level = self._places.levels - 1
        if self._tally is None:
            _, self._tally = self._counted(level)
        count, place = self._tally.stuck
        return LevelCounts(
            self._tally.fired,
            {hit: self._places.id(level, where) for hit, where in self._tally.hits.items()},
            (count, None if place is None else self._places.id(level, place)))

    def store(self, states: int, text: Callable[[int], str]) -> int:
        """See Table. A level is committed by its text: what a crash leaves without one is removed.

        Raises StoppedError if a part of an earlier level is not there any more.
        """
        level = self._places.levels
        present = self._present()
        if not self._written <= present:
            raise StoppedError(f"a part of the states is lost: {self._files.root}/states has no "
                               f"{min(self._written - present)}")
        self._files.remove(f"states/level={level}")
        self._run(lambda: self._write(level))
        sizes, tally = self._counted(level)
        files = sorted(name for name in self._present() if name.startswith(f"level={level}/"))
        self._files.commit(level, json.dumps({
            "search": text(states + int(sizes.sum())), "sizes": sizes.tolist(), "files": files}))
        self._places.add(sizes)
        self._written.update(files)
        self._tally = tally
        return self._places.states

    def _write(self, level: int) -> None:
        """Run the join of a level, and write the states that are new."""
        new = self._reached(level).sortWithinPartitions(*self._columns).select(
            self._functions.monotonically_increasing_id().alias("place"), "parent", *self._columns)
        new.createOrReplaceTempView(f"new_{self._name}")
        self._spark.sql(f"INSERT INTO {self._name} PARTITION (level = {level}) "
                        f"SELECT * FROM new_{self._name}")

    def _reached(self, level: int) -> Any:
        """The states that are reached from the level before this one, and are new."""
        schema = f"parent BIGINT, {self._typed}"
        if self._initial is not None and not level:
            rows = [(ORPHAN, *words) for words in self._initial.view(np.int64).tolist()]
            return self._spark.createDataFrame(rows, schema).repartition(
                self._buckets, *self._columns)
        reached = self._level(level - 1).select("place", *self._columns).mapInArrow(
            Reach(self._program), schema)
        parent = self._functions.min("parent").alias("parent")
        return reached.groupBy(*self._columns).agg(parent).join(
            self._stored(), self._columns, "left_anti")

    def _counted(self, level: int) -> tuple[Ids, LevelCounts]:
        """The sizes of a level's buckets, and the tally of its states. Raises StoppedError if a
        part of it is lost, or there twice because two runs go on with the same search.
        """
        told = self._run(lambda: self._level(level).select("place", *self._columns).mapInArrow(
            Count(self._program), "told STRING").collect())
        sizes, ends = np.zeros((2, self._buckets), dtype=np.int64)
        tally = LevelCounts(np.zeros(len(self._program.rows), dtype=np.int64))
        for each in (json.loads(row.told) for row in told):
            for bucket, size in each["sizes"].items():
                sizes[int(bucket)] += size
            for bucket, end in each["ends"].items():
                ends[int(bucket)] = max(end, ends[int(bucket)])
            hits = {int(pattern): place for pattern, place in each["hits"].items()}
            fired = np.array(each["fired"], dtype=np.int64)
            tally.add(LevelCounts(fired, hits, tuple(each["stuck"])))
        if not np.array_equal(sizes, ends):
            raise StoppedError(f"a part of level {level} in {self._files.root} is lost, or there "
                               "twice because two runs go on with the same search")
        return sizes, tally

    def rows(self, ids: Ids) -> Mapping[int, Row]:
        found = self._run(lambda: self._at(ids).collect())
        rows: dict[int, Row] = {}
        for one in found:
            parent = None
            if one.parent != ORPHAN:
                parent = self._places.id(one.level - 1, one.parent)
            words = [one[name] & WORD_MASK for name in self._columns]
            rows[self._places.id(one.level, one.place)] = parent, words
        if len(rows) != len(ids):
            raise StoppedError(f"a part of the states is lost: {len(ids) - len(rows):,} of "
                               f"{len(ids):,} that were looked for are not in {self._files.root}")
        return rows

    def read(self, first: int, end: int) -> States:
        if self._everything is None or len(self._everything) != self._places.states:
            found = self._arrays(lambda: self._stored().select("level", "place", *self._columns))
            ids = self._ids(found["level"], found["place"])
            if len(ids) != self._places.states:
                raise StoppedError(f"a part of the states is lost: {len(ids):,} of "
                                   f"{self._places.states:,} are in {self._files.root}")
            self._everything = np.empty((len(ids), self._program.words), dtype=np.uint64)
            self._everything[ids] = np.stack(
                [found[name] for name in self._columns], axis=1).view(np.uint64)
        return self._everything[first:end]

    def find(self, words: Sequence[int]) -> int | None:
        same = self._stored()
        signed = np.array(words, np.uint64).view(np.int64).tolist()
        for name, word in zip(self._columns, signed, strict=True):
            same = same.where(self._functions.col(name) == word)
        found = self._run(lambda: same.select("level", "place").collect())
        return self._places.id(found[0].level, found[0].place) if found else None

    def edges(self, ids: Ids) -> tuple[Positions, NDArray[np.uint32], NDArray[np.uint32]]:
        every = np.array_equal(ids, np.arange(len(ids))) and len(ids) > FEW
        last = self._places.places(ids[-1:])[0][0] if every else 0

        def joined() -> Any:
            origins = self._stored(last + 1) if every else self._at(ids)
            schema = f"level BIGINT, place BIGINT, row BIGINT, {self._typed}"
            steps = origins.select("level", "place", *self._columns).mapInArrow(
                Follow(self._program), schema)
            targets = self._stored().select(
                self._functions.col("level").alias("to_level"),
                self._functions.col("place").alias("to_place"), *self._columns)
            return steps.join(targets, self._columns).select(
                "level", "place", "row", "to_level", "to_place")

        if not len(ids):
            return ids, ids.astype(np.uint32), ids.astype(np.uint32)
        found = self._arrays(joined)
        origins = self._ids(found["level"], found["place"])
        order = np.argsort(ids)
        places = order[np.searchsorted(ids[order], origins)]
        by = np.lexsort((found["row"], places))
        targets = self._ids(found["to_level"], found["to_place"])
        return (places[by], found["row"][by].astype(np.uint32), targets[by].astype(np.uint32))

    def close(self) -> None:
        with suppress(StoppedError):  # the answer is there already
            self._run(lambda: self._spark.sql(f"DROP TABLE IF EXISTS {self._name}"))
        if self._own is not None:
            self._own.cleanup()

    def _level(self, level: int) -> Any:
        """The states of one level, as a table of Spark."""
        return self._spark.table(self._name).where(self._functions.col("level") == level)

    def _stored(self, levels: int | None = None) -> Any:
        """The states of all levels that are committed, or of so many."""
        count = self._places.levels if levels is None else levels
        return self._spark.table(self._name).where(self._functions.col("level") < count)

    def _at(self, ids: Ids) -> Any:
        """The states with these ids, in any order."""
        chosen = self._functions.lit(False)
        for level, places in self._places.places(ids):
            here = self._functions.col("level") == level
            chosen = chosen | here & self._functions.col("place").isin(places.tolist())
        return self._spark.table(self._name).where(chosen)

    def _ids(self, levels: Ids, places: Ids) -> Ids:
        ids = np.empty(len(places), dtype=np.int64)
        for level in np.unique(levels).tolist():
            ids[levels == level] = self._places.ids(level, places[levels == level])
        return ids

    def _arrays(self, job: Callable[[], Any]) -> dict[str, Ids]:
        """The columns of a table, in the memory of this process."""
        table = self._run(lambda: job().toArrow())
        return {name: table.column(name).to_numpy() for name in table.column_names}

    def _present(self) -> set[str]:
        """The files of states that are in the folder: `level=3/part-...`."""
        self._run(lambda: self._spark.catalog.refreshTable(self._name))  # it keeps the last list
        paths = self._run(lambda: self._spark.table(self._name).inputFiles())
        return {"/".join(path.rsplit("/", 2)[1:]) for path in paths}

    def _run(self, job: Callable[[], Answer]) -> Answer:
        # Other searches of this process may have another number of buckets.
        self._spark.conf.set(SHUFFLES, str(self._buckets))
        return self._session.run(job)


def _buckets(began: Session) -> int:
    """The number of Spark's own setting, if it is set; else one for each core of the cluster."""
    if began.context.getConf().contains(SHUFFLES):
        return int(began.spark.conf.get(SHUFFLES))
    return max(int(began.context.defaultParallelism), BUCKETS_LEAST)
