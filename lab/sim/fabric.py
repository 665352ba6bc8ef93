"""The engines of a simulated cluster, and a model of all memory that they read and write.

A write lands at its address, also when the memory has another owner by then. Only a complete fence
prevents that. So an error of the protocol becomes visible as the violation of a property.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from lab.sim.event_queue import EventQueue
from lab.sim.host import Host
from lab.sim.plan import Fault, Kind, Shape
from pdproto.node.data_path import (
    Fenced,
    Idle,
    Posted,
    SinkDataPath,
    Verified,
    WriteOutcome,
)
from pdproto.runtime.wire import Life
from pdproto.testing.chance import Stream

HANGS_S: Final = (5.0, 600.0)  # often longer than all waits
ERROR_S: Final = (0.0, 10.0)  # between the report of an error and the bytes
COPY_S: Final = 0.0001  # a page

WRITE: Final = "S1_writes_stay_in_own_memory"
SOURCE_PAGES: Final = "S8_source_pages_are_held"
ONE_LIFE_A_PAGE: Final = "S1_one_life_a_page"
COMPLETE: Final = "S2_complete_when_committed"

# Reports a violation: the property, the details and the room.
Blame = Callable[[str, str, int], None]
Part = tuple[Life, str, int]  # the content of a part: its life, its source and its number of pages


class SinkSide(SinkDataPath, Protocol):
    """The data path of a simulated decode rank."""

    @property
    def leased(self) -> int:
        """The number of staging buffers that are not free."""

    def die(self) -> None:
        """End the writes of all sources, because the process has ended."""

    def complete(self, life: Life, sources: Iterable[str], pages: Sequence[int]) -> bool:
        """Whether these pages hold every source's bytes of this life."""


class Pages:
    """A server's pool of pages. The page that was freed last is used first."""

    def __init__(self, count: int) -> None:
        self._free: Final = list(range(count - 1, -1, -1))
        self.owner: Final[dict[int, int]] = {}  # the room, by page

    def take(self, count: int, room: int) -> tuple[int, ...] | None:
        """Take `count` pages for the room. Returns None while there are not as many."""
        left = len(self._free) - count
        if left < 0:
            return None
        pages = (*reversed(self._free[left:]),)
        del self._free[left:]
        self.owner.update(dict.fromkeys(pages, room))
        return pages

    def give(self, pages: Iterable[int]) -> None:
        """Take pages back."""
        for page in pages:
            del self.owner[page]
            self._free.append(page)


@dataclass(slots=True, eq=False)
class Write:
    """A write under way."""

    number: int
    life: Life
    source: str
    address: bytes
    chunk: int
    pages: Sequence[int]
    in_doubt: bool = False  # its pages are not read any more, but it may still land
    ended: bool = False


@dataclass(slots=True, eq=False)
class Buffer:
    """A staging buffer: the writer that may write to it, and its content."""

    sink: "SimulatedSink"
    writer: tuple[Life, str] | None = None
    parts: dict[int, Part] = field(default_factory=dict)


class Fabric:
    """All staging memory by address, and the fences on it."""

    def __init__(self, event_queue: EventQueue, shape: Shape, blame: Blame) -> None:
        self.event_queue: Final = event_queue
        self.shape: Final = shape
        self.blame: Final = blame
        self.active: Final[list[Fault]] = []
        self.buffers: Final[dict[bytes, Buffer]] = {}  # those that were leased
        # Never removed: a write of an ended process may land long after its buffer was reused.
        self.fenced: Final[set[tuple[Life, str]]] = set()
        self.landed = 0

    def land(self, write: Write) -> WriteOutcome:
        """Let the bytes of a write arrive. Returns the outcome for the writer."""
        buffer = self.buffers.get(write.address)
        writer = write.life, write.source
        if buffer is None or buffer.sink.host.dead or writer in self.fenced:
            return WriteOutcome.REFUSED
        self.landed += 1
        if buffer.writer != writer:
            owner = "no life" if buffer.writer is None else f"{buffer.writer[0]}"
            self.blame(WRITE, f"a write of {write.source} for {write.life} lands in memory of "
                       f"{owner}", write.life.room)
        buffer.parts[write.chunk] = write.life, write.source, len(write.pages)
        return WriteOutcome.LANDED


class SimulatedSource:
    """A prefill rank's engine. pages: the server's pool, from which it reads."""

    def __init__(self, host: Host, fabric: Fabric, pages: Pages, stream: Stream) -> None:
        self.host: Final = host
        self.fabric: Final = fabric
        self.pages: Final = pages
        self._stream: Final = stream
        self._under_way: Final[dict[int, Write]] = {}
        self._ended: Final[deque[tuple[int, WriteOutcome, str]]] = deque()
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        """See SourceDataPath."""
        self._wake = wake

    @property
    def has_room(self) -> bool:
        """See SourceDataPath."""
        return len(self._under_way) < self.fabric.shape.writes

    def post(
        self, number: int, life: Life, address: bytes, offset: int, pages: Sequence[int],
        _is_wanted: Callable[[], bool],
    ) -> Posted:
        """See SourceDataPath. The write begins at once. Offsets count chunks."""
        write = Write(number, life, self.host.name, address, offset, pages)
        self._under_way[number] = write
        seconds = self._stream.delay(self.fabric.shape.write_s)
        # There is no connection to a process that has ended, so the write cannot hang.
        there = not self.fabric.buffers[address].sink.host.dead
        for fault in self.fabric.active if there else ():
            if fault.kind is Kind.HANG and self._stream.happens(fault.amount):
                seconds += self._stream.between(*HANGS_S)
            elif fault.kind is Kind.ERROR and self._stream.happens(fault.amount):
                self.host.event_queue.after(seconds, self._give_up, write)
                seconds += self._stream.between(*ERROR_S)
        self.host.event_queue.after(seconds, self._end, write)
        return Posted(0, offset + 1)

    def fence(self, life: Life) -> None:
        """End the writes of this life, because the sink has fenced them."""
        for write in list(self._under_way.values()):
            if write.life == life:
                self._end(write)

    def disconnect(self, sink: "SimulatedSink") -> None:
        """End the writes to a sink whose process has ended."""
        for write in list(self._under_way.values()):
            if self.fabric.buffers[write.address].sink is sink:
                self._end(write)

    def _end(self, write: Write) -> None:
        if write.ended:
            return
        write.ended = True
        if not (self.host.dead or write.in_doubt):
            self._check_source(write)
        outcome = self.fabric.land(write)
        if not self.host.dead:
            del self._under_way[write.number]
            self._report(write, outcome)

    def _check_source(self, write: Write) -> None:
        buffer = self.fabric.buffers[write.address]
        if buffer.sink.host.dead or (write.life, write.source) in self.fabric.fenced:
            return
        for page in write.pages:
            if self.pages.owner.get(page) != write.life.room:
                self.fabric.blame(SOURCE_PAGES, f"{write.source} sends page {page} for "
                                  f"{write.life} when it belongs to room "
                                  f"{self.pages.owner.get(page)}", write.life.room)

    def _give_up(self, write: Write) -> None:
        if not write.ended and not self.host.dead:
            self._check_source(write)
            write.in_doubt = True
            self._report(write, WriteOutcome.ERROR)

    def _report(self, write: Write, outcome: WriteOutcome) -> None:
        self._ended.append((write.number, outcome, ""))
        self._wake()

    def outcomes(self) -> Iterable[tuple[int, WriteOutcome, str]]:
        """See SourceDataPath."""
        while self._ended:
            yield self._ended.popleft()

    def close(self) -> None:
        """See SourceDataPath. There is nothing to free."""

    @property
    def idle(self) -> bool:
        """Whether no write is under way."""
        return not self._under_way


class SimulatedSink:
    """A decode rank's engine, with one worker that copies in the order of the calls.

    pages: the server's pool. sources: the engines that write here, by name; they are told of
    fences.
    """

    def __init__(
        self, host: Host, fabric: Fabric, pages: Pages, stream: Stream,
        sources: Mapping[str, SimulatedSource],
    ) -> None:
        self.host: Final = host
        self.fabric: Final = fabric
        self.pages: Final = pages
        self.sources: Final = sources
        self._stream: Final = stream
        count = fabric.shape.buffers
        self._free: Final = [
            f"{host.name}/{host.incarnation}/{i}".encode() for i in range(count - 1, -1, -1)]
        self._leases: Final[dict[Life, dict[str, bytes]]] = {}
        self._copied: Final[dict[tuple[str, int], Life]] = {}  # by source and page
        self._settled: Final[set[Life]] = set()
        self._free_at = 0.0
        self._reports: Final[deque[Verified | Fenced | Idle]] = deque()
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        """See SinkDataPath."""
        self._wake = wake

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        """See SinkDataPath."""
        if len(pages) > len(self._free):
            return None
        addresses = {source: self._free.pop() for source in pages}
        for source, address in addresses.items():
            buffer = self.fabric.buffers.get(address)
            if buffer is None:
                buffer = self.fabric.buffers[address] = Buffer(self)
            if buffer.writer is not None:
                raise AssertionError(f"{address!r} is free, and belongs to {buffer.writer}")
            buffer.writer = life, source
            buffer.parts.clear()
        self._leases[life] = addresses
        return addresses

    def verify(self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]) -> None:
        """See SinkDataPath."""
        self._work(COPY_S * len(pages), self._verify, life, source, chunks, pages)

    def settle(self, life: Life) -> None:
        """See SinkDataPath."""
        self._settled.add(life)
        self._work(0.0, self._settle, life)

    def release(self, life: Life) -> None:
        """See SinkDataPath."""
        self._work(0.0, self._release, self._leases.pop(life))

    def fence(self, life: Life, source: str) -> None:
        """See SinkDataPath."""
        seconds = self._stream.delay(self.fabric.shape.fence_s)
        self.host.event_queue.after(seconds, self._fence, life, source)

    def reports(self) -> Iterable[Verified | Fenced | Idle]:
        """See SinkDataPath."""
        while self._reports:
            yield self._reports.popleft()

    def close(self) -> None:
        """See SinkDataPath. There is nothing to free."""

    def die(self) -> None:
        """See SinkSide."""
        for source in self.sources.values():
            source.disconnect(self)

    @property
    def leased(self) -> int:
        """See SinkSide."""
        return self.fabric.shape.buffers - len(self._free)

    def complete(self, life: Life, sources: Iterable[str], pages: Sequence[int]) -> bool:
        """See SinkSide."""
        return all(self._copied.get((source, page)) == life for source in sources for page in pages)

    def _work(self, seconds: float, do: Callable[..., None], *arguments: object) -> None:
        """Add work for the worker, after all earlier work."""
        self._free_at = max(self._free_at, self.host.event_queue.now) + seconds
        self.host.event_queue.at(self._free_at, do, *arguments)

    def _verify(self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]) -> None:
        clean = life not in self._settled and life in self._leases
        if clean:
            buffer = self.fabric.buffers[self._leases[life][source]]
            clean = all(buffer.parts.get(i) == (life, source, count)
                        for i, count in enumerate(chunks))
        if clean:
            for page in pages:
                if self.pages.owner.get(page) != life.room and not self.host.dead:
                    self.fabric.blame(ONE_LIFE_A_PAGE, f"{life} is copied into page {page} of room "
                                      f"{self.pages.owner.get(page)}", life.room)
                self._copied[source, page] = life
        self._report(Verified(life, source, clean))

    def _settle(self, life: Life) -> None:
        self._settled.discard(life)
        self._report(Idle(life))

    def _release(self, addresses: Mapping[str, bytes]) -> None:
        for address in addresses.values():
            buffer = self.fabric.buffers[address]
            buffer.writer = None
            self._free.append(address)
        self._wake()

    def _fence(self, life: Life, source: str) -> None:
        if self.host.dead:
            return
        self.fabric.fenced.add((life, source))
        if source in self.sources:
            self.sources[source].fence(life)
        self._report(Fenced(life, source))

    def _report(self, report: Verified | Fenced | Idle) -> None:
        if not self.host.dead:
            self._reports.append(report)
            self._wake()
