"""The functions that run on executors: the native engine's inner loops over batches of Arrow.

Spark runs a task again when its executor is lost, and may run one twice. So a task depends on its
partition alone, and counts are rows of a result: Spark takes one result of each partition.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import pdproto
from pdproto.check import native
from pdproto.check.levels import Ids, LevelCounts, Lists, States
from pdproto.ground.program import Program

BUCKET_BITS: Final = 33  # the bits of a place below the number of its bucket, as Spark counts
ROW_MASK: Final = (1 << BUCKET_BITS) - 1


def columns(program: Program) -> list[str]:
    """The names of the columns with the words of a state."""
    return [f"w{i}" for i in range(program.words)]


def words(batch: Any, program: Program) -> States:
    """The states of a batch. Spark has no unsigned numbers: a column has the same bits, signed."""
    found = np.stack([batch.column(name).to_numpy() for name in columns(program)], axis=1)
    return np.ascontiguousarray(found).view(np.uint64)


def batch(program: Program, states: States, **more: Ids) -> Any:
    """A batch with the columns `more`, and then the words of the states."""
    from pyarrow import RecordBatch, array  # noqa: PLC0415 - only a search with Spark needs it

    signed = np.ascontiguousarray(states.T).view(np.int64)
    arrays = [*map(array, more.values()), *map(array, signed)]
    return RecordBatch.from_arrays(arrays, names=[*more, *columns(program)])


@dataclass(frozen=True, slots=True)
class Reach:
    """Place and words of states -> place of a parent, and words of a target, of each step."""

    program: Program

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        lists = Lists(self.program)
        for one in batches:
            places = one.column("place").to_numpy()
            for targets, parents, _ in lists.steps(
                    words(one, self.program), places, counts=False):
                yield batch(self.program, targets, parent=parents)


@dataclass(frozen=True, slots=True)
class Count:
    """Place and words of states -> one text: their tally, and of each bucket the number of states
    and the row after the last one, which is the same number unless a part is lost or there twice.
    """

    program: Program

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        from pyarrow import RecordBatch, array  # noqa: PLC0415 - as above

        lists, sizes, ends = Lists(self.program), Counter[int](), dict[int, int]()
        tally = LevelCounts(np.zeros(len(self.program.rows), dtype=np.int64))
        for one in batches:
            places = one.column("place").to_numpy()
            buckets = places >> BUCKET_BITS
            for bucket in np.unique(buckets).tolist():
                rows = places[buckets == bucket] & ROW_MASK
                sizes[bucket] += len(rows)
                ends[bucket] = max(int(rows.max()) + 1, ends.get(bucket, 0))
            for _ in lists.steps(words(one, self.program), places, counts=True):
                pass
        tally.add(lists.taken())
        told = {"sizes": sizes, "ends": ends, "fired": tally.fired.tolist(), "hits": tally.hits,
                "stuck": tally.stuck}
        yield RecordBatch.from_arrays([array([json.dumps(told)])], names=["told"])


@dataclass(frozen=True, slots=True)
class Follow:
    """Level, place and words of states -> the same of their origins, row and words of each step."""

    program: Program

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        lists = Lists(self.program)
        for one in batches:
            levels, places = (one.column(name).to_numpy() for name in ("level", "place"))
            for targets, origins, rows in lists.steps(
                    words(one, self.program), np.arange(one.num_rows), counts=False):
                yield batch(self.program, targets, level=levels[origins].astype(np.int64),
                            place=places[origins], row=rows.astype(np.int64))


def version(_: object) -> tuple[str, bool]:
    """The version of pdproto on an executor, and whether it has the native engine."""
    return pdproto.__version__, native.available()
