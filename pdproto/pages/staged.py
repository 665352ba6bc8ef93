"""The data plane of a node: pages, packed by the kernels, through an engine, into other pages.

A prefill node packs the pages of a chunk with their digests and writes them where the sink has
leased memory (with an engine that gathers, large pages are written from where they lie); a decode
node copies them from there into its own pages while it computes the digests of what it stores. The
copies run on a thread of their own, so that the node's loop never waits.

Rule 1: what of one life is copied or given back runs in the order in which it was asked for: one
        thread does it, and memory is never given back under a copy.
Rule 2: the digest is keyed by the life, so that the bytes of another life are no match.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.chunks import (
    chunk_bytes,
    chunk_offset,
    key_of,
    key_of_chunk,
    pack_pages,
    unpack_verified,
)
from pdproto.engine.contract import (
    Address,
    Buffer,
    EngineBusy,
    EngineError,
    Lease,
    Result,
    SinkEngine,
    SourceEngine,
    Ticket,
)
from pdproto.engine.page_target import PagePlaces
from pdproto.engine.page_views import chunk_views, places_in
from pdproto.engine.source import Source
from pdproto.kernels.chunk import KVLayout, register
from pdproto.node.data_path import Fenced, Idle, Outcome, Posted, Verified
from pdproto.node.metrics import Metrics
from pdproto.pages.engine_counts import SINK_COUNTS, SOURCE_COUNTS, measured
from pdproto.pages.layouts import layout_of
from pdproto.runtime.errors import ProtocolError, RemoteProtocolError
from pdproto.runtime.wire import Layout, Life

log = logging.getLogger("pdproto.pages")

Bytes: TypeAlias = NDArray[np.uint8]

STAGED_BYTES_MAX: Final = 256 << 20  # posted and not ended, in one node,
STAGED_WRITES_MAX: Final = 4_096  # and so many chunks
BUFFERS_KEPT: Final = 64  # of one size
OWN_ERRORS: Final = ProtocolError, EngineError, ValueError

OUTCOMES: Final = {
    Result.LANDED: Outcome.LANDED, Result.REFUSED: Outcome.REFUSED, Result.ERROR: Outcome.ERROR,
}


def _told(error: Exception) -> str:
    """Our own errors say everything themselves; of any other its class is said as well."""
    return str(error) if isinstance(error, OWN_ERRORS) else repr(error)


def key_of_life(life: Life) -> int:
    """The key of a life's digests: both ends derive it."""
    return key_of(life.room, life.incarnation, life.generation)


@dataclass(frozen=True, slots=True)
class Job:
    """A chunk to write. offset: in bytes, of the lease at the address. length: in bytes."""

    number: int
    address: Address
    offset: int
    length: int
    is_wanted: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Staged:
    """What is written in one go. buffer: of this plane, where the views are of one."""

    views: Sequence[Buffer]
    bytes: int
    buffer: Bytes | None = None


class SourcePages:
    """A prefill node's plane. pools: one array [page, ...] for each layer, K and V; see kernels."""

    def __init__(self, pools: Sequence[Any], engine: SourceEngine) -> None:
        self.engine: Final = engine
        self.layout: Final = register(pools)
        self._told: Final = layout_of(self.layout)
        self._worker: Final = ThreadPoolExecutor(1, "pdproto-pack")
        self._lock: Final = Lock()
        self._packed: Final[deque[tuple[Job, Staged]]] = deque()
        self._posted: Final[dict[int, tuple[int, Staged]]] = {}
        self._ended: Final[deque[tuple[int, Outcome, str]]] = deque()
        self._buffers: Final[dict[int, list[Bytes]]] = {}
        self._places: Final = self._places_in(self.layout)
        chunk_offset(self.layout, 1)  # found now, and kept: the loop of the node asks for it
        self._staged = self._writes = 0
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.engine.attach(wake)

    def layout_for(self, _sink: str) -> Layout | None:
        """See node/data_path.py."""
        return self._told

    def measure(self, metrics: Metrics) -> None:
        """See node/node.py."""
        measured(metrics, self.engine, SOURCE_COUNTS)
        metrics.gauge("num_staged_bytes", "Bytes that are packed, or are to be, and not landed",
                      lambda: self._staged)

    @property
    def has_room(self) -> bool:
        return self._staged < STAGED_BYTES_MAX and self._writes < STAGED_WRITES_MAX

    def post(
        self, number: int, life: Life, address: bytes, offset: int, pages: Sequence[int],
        is_wanted: Callable[[], bool],
    ) -> Posted:
        length = chunk_bytes(self.layout, len(pages))
        behind = offset + chunk_offset(self.layout, len(pages))
        try:
            job = Job(number, Address.decode(address), offset, length, is_wanted)
        except RemoteProtocolError as error:
            self._refuse(number, error)
        else:
            self._begin(job, lambda: self._stage(
                self.layout, self._places, pages, key_of_chunk(key_of_life(life), offset)))
        return Posted(length, behind)

    def outcomes(self) -> Iterable[tuple[int, Outcome, str]]:
        for outcome in self.engine.completed():
            with self._lock:
                number, staged = self._posted.pop(outcome.write)
                self._staged -= staged.bytes
                self._writes -= 1
                # What it has given up on a library may still read: of ours, never of the pages, and
                # such a buffer is not used again.
                if outcome.result is not Result.ERROR:
                    self._keep(staged)
            self._ended.append((number, OUTCOMES[outcome.result], outcome.reason))
        self._post_packed()
        while self._ended:
            yield self._ended.popleft()

    def close(self) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)
        self.engine.close()

    def _begin(self, job: Job, stage: Callable[[], Staged]) -> None:
        """Have the worker stage these bytes, and off they go."""
        self._staged += job.length
        self._writes += 1
        self._worker.submit(self._put, job, stage)

    def _stage(
        self, layout: KVLayout, places: PagePlaces | None, pages: Sequence[int], key: int,
        head: bytes = b"",
    ) -> Staged:
        """A head and a chunk of pages, as they are written: packed, or from where pages lie."""
        length = len(head) + chunk_bytes(layout, len(pages))
        if places is not None and pages:
            return Staged([head, *chunk_views(places, pages, key)], length)
        buffer = self._buffer(length)
        buffer[:len(head)] = np.frombuffer(head, np.uint8)
        if pages:
            pack_pages(layout, pages, key, buffer[len(head):])
        return Staged([buffer], length, buffer)

    def _places_in(self, layout: KVLayout) -> PagePlaces | None:
        """Where pages lie, if they are to be written from there."""
        gathers = isinstance(self.engine, Source) and self.engine.gathers
        return places_in(layout) if gathers else None

    def _put(self, job: Job, stage: Callable[[], Staged]) -> None:
        """In the worker: stage a chunk, and off it goes; unless nobody wants it any more."""
        if not job.is_wanted():
            self._end(job, Outcome.SKIPPED)
            return
        try:
            staged = stage()
        except Exception as error:  # nothing else looks at the worker's future
            self._end(job, Outcome.REFUSED, error)
            return
        with self._lock:
            self._packed.append((job, staged))
        self._post_packed()

    def _post_packed(self) -> None:
        """Hand over to the engine what it has room for, and what is still wanted."""
        with self._lock:
            while self._packed and self.engine.has_room:
                job, staged = self._packed[0]
                try:
                    if job.is_wanted():
                        write = self.engine.post(job.address, job.offset, staged.views)
                        self._posted[write] = job.number, staged
                    else:
                        self._keep(staged)
                        self._end(job, Outcome.SKIPPED)
                except EngineBusy:
                    return
                except (EngineError, ValueError) as error:
                    self._keep(staged)
                    self._end(job, Outcome.REFUSED, error)
                self._packed.popleft()

    def _end(self, job: Job, outcome: Outcome, error: Exception | None = None) -> None:
        """Nothing of it has been written, and nothing will be."""
        self._staged -= job.length
        self._writes -= 1
        if error is not None:
            self._refuse(job.number, error)
        else:
            self._ended.append((job.number, outcome, ""))
            self._wake()

    def _refuse(self, number: int, error: Exception) -> None:
        """What a sink has published cannot be written to."""
        reason = _told(error)
        log.warning("write %d cannot be posted: %s", number, reason)
        self._ended.append((number, Outcome.REFUSED, reason))
        self._wake()

    def _buffer(self, length: int) -> Bytes:
        with self._lock:
            free = self._buffers.get(length)
            return free.pop() if free else np.empty(length, np.uint8)

    def _keep(self, staged: Staged) -> None:
        """Its buffer, if it has one, for the next chunk of its size."""
        if staged.buffer is None:
            return
        free = self._buffers.setdefault(staged.bytes, [])
        if len(free) < BUFFERS_KEPT:
            free.append(staged.buffer)


class SinkPages:
    """A decode node's plane. pools: by source, those that it fills, in that source's order; or
    those that whichever source fills.
    """

    def __init__(
        self, pools: Mapping[str, Sequence[Any]] | Sequence[Any], engine: SinkEngine
    ) -> None:
        self.engine: Final = engine
        by_source = pools if isinstance(pools, Mapping) else {}
        self._layouts: Final = {source: register(of) for source, of in by_source.items()}
        self._layout: Final = None if isinstance(pools, Mapping) else register(pools)
        self._told: Final[dict[str | None, Layout]] = {
            source: layout_of(of) for source, of in self._layouts.items()}
        if self._layout is not None:
            self._told[None] = layout_of(self._layout)  # of any source
        self._worker: Final = ThreadPoolExecutor(1, "pdproto-unpack")
        self._leases: Final[dict[Life, dict[str, Lease]]] = {}
        self._fences: Final[dict[tuple[Life, str], Ticket]] = {}
        self._settled: Final[set[Life]] = set()
        self._reports: Final[deque[Verified | Fenced | Idle]] = deque()
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.engine.attach(wake)

    def measure(self, metrics: Metrics) -> None:
        """See node/node.py."""
        measured(metrics, self.engine, SINK_COUNTS)

    def layout_for(self, source: str) -> Layout | None:
        """See node/data_path.py."""
        return self._told.get(source, self._told.get(None))

    def out_of_reach(self, host: str) -> str | None:
        """See node/data_path.py."""
        return self.engine.out_of_reach(host)

    @property
    def layouts(self) -> tuple[KVLayout, ...]:
        """Of the pools of every source, or of those that all of them fill."""
        return tuple(self._layouts.values()) if self._layout is None else (self._layout,)

    def _of(self, source: str) -> KVLayout:
        return self._layout or self._layouts[source]

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        """See node/data_path.py."""
        leases: dict[str, Lease] = {}
        try:
            for source, of in pages.items():
                lease = self._lease(life, source, of)
                if lease is None:
                    return None
                leases[source] = lease
        finally:
            if len(leases) < len(pages):
                for taken in leases.values():
                    self.engine.release(taken)
        self._leases[life] = leases
        return {source: lease.address.encode() for source, lease in leases.items()}

    def _lease(self, life: Life, source: str, pages: Sequence[int]) -> Lease | None:
        return self.engine.lease(life, source, chunk_offset(self._of(source), len(pages)))

    def verify(self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]) -> None:
        self._worker.submit(self._verify, life, source, chunks, pages)

    def bytes_of(self, source: str, chunks: Sequence[int], _pages: Sequence[int]) -> int:
        """What `verify` compares of these: all chunks with their digests."""
        return sum(chunk_bytes(self._of(source), count) for count in filter(None, chunks))

    def settle(self, life: Life) -> None:
        self._settled.add(life)
        self._worker.submit(self._settle, life)

    def fence(self, life: Life, source: str) -> None:
        """See node/data_path.py. A source may be lost before any memory was leased for it."""
        lease = self._leases.get(life, {}).get(source)
        if lease is None:
            self._report(Fenced(life, source))
            return
        self._fences[life, source] = self.engine.fence(lease)
        self._wake()

    def release(self, life: Life) -> None:
        leases = self._leases.pop(life)
        self._worker.submit(self._release, leases)

    def reports(self) -> Iterable[Verified | Fenced | Idle]:
        for (life, source), ticket in list(self._fences.items()):
            if self.engine.fenced(ticket):
                del self._fences[life, source]
                yield Fenced(life, source)
        while self._reports:
            yield self._reports.popleft()

    def close(self) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)
        self.engine.close()

    def _report(self, report: Verified | Fenced | Idle) -> None:
        self._reports.append(report)
        self._wake()

    def _verify(
        self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]
    ) -> None:
        clean, reason = False, ""
        try:
            if life not in self._settled:
                clean = self._unpack(life, source, chunks, pages)
        except Exception as error:  # nothing else looks at the worker's future
            reason = f"what {source} wrote cannot be taken: {_told(error)}"
            log.warning("%s: %s", life, reason)
        self._report(Verified(life, source, clean, reason))

    def _unpack(
        self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]
    ) -> bool:
        """In the worker: every chunk into its pages. Returns whether all digests agree."""
        layout, lease = self._of(source), self._leases[life][source]
        landed = np.frombuffer(self.engine.view(lease), np.uint8)
        first, clean = 0, True
        for count in filter(None, chunks):
            offset = chunk_offset(layout, first)
            outcome = unpack_verified(layout, landed[offset:],
                                      pages[first:first + count],
                                      key_of_chunk(key_of_life(life), offset))
            clean = clean and outcome.clean
            first += count
        return clean

    def _settle(self, life: Life) -> None:
        self._settled.discard(life)
        self._report(Idle(life))

    def _release(self, leases: Mapping[str, Lease]) -> None:
        for lease in leases.values():
            self.engine.release(lease)
        self._wake()
