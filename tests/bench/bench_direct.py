"""Pages over TCP straight into pages, beside pages through staging buffers: time, and processors.

    python -m tests.bench.bench_direct [ROUNDS]

Two processes, the data paths of a prefill node and of a decode node, and no messages between nodes.
Each hand-over is a chunk of 4 MiB: packed with its digests, written, and taken by the sink: in
landing mode copied into its pages while digests are computed; in direct mode digested where it
lies. So many at once as a decode node would have. Each round (default: 7) does both modes, so that
what else the machine does disturbs both; the ratios are of one round.

    speed     GiB/s of pages
    per cpu   GiB for each second of processor time, of the sink's process and of both
"""

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median
from threading import Event
from time import perf_counter, process_time
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.node.data_path import Verified, WriteOutcome
from pdproto.pages.direct import DirectPages
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.wire import Life

ROUNDS: Final = 7
CHUNK_BYTES: Final = 4 << 20
CHUNK_PAGES: Final = 16
AT_ONCE: Final = 8
CHUNKS: Final = 48  # a round
SOURCE: Final = "p0"
MODES: Final = {"landing": SinkPages, "direct": DirectPages}


@dataclass(frozen=True, slots=True)
class Case:
    """Pools of so many entries, and whether the pages of a request lie side by side."""

    page_bytes: int
    adjacent: bool

    def pools(self) -> list[NDArray[np.uint8]]:
        entries = CHUNK_BYTES // CHUNK_PAGES // self.page_bytes
        shape = (AT_ONCE * CHUNK_PAGES, 1, 1, self.page_bytes)
        return [np.ones(shape, np.uint8) for _ in range(entries)]

    def pages(self, place: int) -> list[int]:
        """What the hand-over at this place of those at once has."""
        if self.adjacent:
            return list(range(place * CHUNK_PAGES, (place + 1) * CHUNK_PAGES))
        return list(range(place, AT_ONCE * CHUNK_PAGES, AT_ONCE))

    def __str__(self) -> str:
        return f"pages of {self.page_bytes >> 10:3} KiB, {'runs' if self.adjacent else 'scattered'}"


CASES: Final = (Case(64 << 10, True), Case(64 << 10, False), Case(4 << 10, True),
                Case(4 << 10, False))


class Waiting:
    """Waits for what a data path has woken for."""

    def __init__(self, data_path: SinkPages | SourcePages) -> None:
        self._woken: Final = Event()
        data_path.attach(self._woken.set)

    def until(self, look: Callable[[], bool]) -> None:
        while not look():
            self._woken.wait()
            self._woken.clear()


def other_end(case: Case, mode: str, pipe: Connection) -> None:
    """The sink's process. Over the pipe come: a life to lease for, a life whose bytes are all here,
    or None to end; it answers with an address, and with the processor time that it has used.
    """
    data_path = MODES[mode]({SOURCE: case.pools()}, TcpSink())
    waiting = Waiting(data_path)
    leased: set[Life] = set()
    while (life := pipe.recv()) is not None:
        pages = case.pages(life.generation % AT_ONCE)
        if life not in leased:
            addresses = data_path.lease(life, {SOURCE: pages})
            assert addresses is not None
            leased.add(life)
            pipe.send(addresses[SOURCE])
            continue
        data_path.verify(life, SOURCE, [len(pages)], pages)
        waiting.until(lambda: any(isinstance(report, Verified) and report.clean
                                  for report in data_path.reports()))
        data_path.release(life)
        leased.remove(life)
        pipe.send(process_time())
    data_path.close()


class Writer:
    """The source's end of one mode. seconds, sink, source: of the last run, in seconds."""

    def __init__(self, case: Case, mode: str) -> None:
        self._case: Final = case
        self._pipe, there = multiprocessing.Pipe()
        self._process: Final = multiprocessing.get_context("spawn").Process(
            target=other_end, args=(case, mode, there))
        self._process.start()
        self._data_path: Final = SourcePages(case.pools(), TcpSource())
        self._waiting: Final = Waiting(self._data_path)
        self._generation = 0
        self._sink_time = 0.0
        self.seconds = self.sink = self.source = 0.0

    def run(self) -> None:
        began, used, of_sink = perf_counter(), process_time(), self._sink_time
        under_way: dict[int, Life] = {}
        posted = ended = 0
        while ended < CHUNKS:
            while posted < CHUNKS and len(under_way) < AT_ONCE:
                under_way[self._post()] = self._life()
                self._generation += 1
                posted += 1
            for number in self._landed():
                self._pipe.send(under_way.pop(number))
                self._sink_time = self._pipe.recv()
                ended += 1
        self.seconds = perf_counter() - began
        self.source, self.sink = process_time() - used, self._sink_time - of_sink

    def _life(self) -> Life:
        return Life(7, 1, self._generation)

    def _post(self) -> int:
        life = self._life()
        self._pipe.send(life)
        pages = self._case.pages(life.generation % AT_ONCE)
        self._data_path.post(life.generation, life, self._pipe.recv(), 0, pages, lambda: True)
        return life.generation

    def _landed(self) -> Sequence[int]:
        landed: list[int] = []

        def look() -> bool:
            for number, outcome, why in self._data_path.outcomes():
                assert outcome is WriteOutcome.LANDED, why
                landed.append(number)
            return bool(landed)

        self._waiting.until(look)
        return landed

    def close(self) -> None:
        self._data_path.close()
        self._pipe.send(None)
        self._process.join()


def measure(case: Case, rounds: int) -> None:
    """Print a line for each mode, and the ratios of direct over landing."""
    writers = {mode: Writer(case, mode) for mode in MODES}
    found: dict[str, list[tuple[float, float, float]]] = {mode: [] for mode in MODES}
    for round_number in range(-1, rounds):  # The first touches all memory, and does not count.
        for mode, writer in writers.items():
            writer.run()
            if round_number >= 0:
                amount = CHUNKS * CHUNK_BYTES / (1 << 30)
                found[mode].append((amount / writer.seconds, amount / writer.sink,
                                    amount / (writer.sink + writer.source)))
    for writer in writers.values():
        writer.close()
    for mode, rows in found.items():
        speed, sink, both = (median(column) for column in zip(*rows, strict=True))
        print(  # noqa: T201 - this is a command
            f"{case!s:27}  {mode:7}  {speed:5.2f} GiB/s"
            f"  per cpu: sink {sink:5.2f}, both {both:5.2f}")
    ratios = [[direct / landing for direct, landing in zip(*pair, strict=True)]
              for pair in zip(found["direct"], found["landing"], strict=True)]
    speed, sink, both = (
        f"{median(column):.2f} ({min(column):.2f} to {max(column):.2f})"
        for column in zip(*ratios, strict=True))
    print(  # noqa: T201 - this is a command
        f"{case!s:27}  direct over landing: {speed}  sink {sink}  both {both}")


def main() -> int:
    for case in CASES:
        measure(case, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
