"""The data path of a prefill node: pages are packed, and written through an engine.

The pages of a chunk are packed with their digests, and written into the memory that the sink has
leased. With an engine that gathers, large pages are written from the pool without packing. Packing
runs on a thread of its own, or on the device of the pools, so that the node's loop never waits; few
bytes are packed at once (`CopyWorker.take`).

The digest is keyed by the life, so the bytes of another life do not match (pages/sink_pages.py).
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Final

from pdproto.engine.contract import Address, EngineBusy, EngineError, Result, SourceEngine
from pdproto.kernels.chunk import Order, register
from pdproto.node.data_path import Posted, WriteOutcome
from pdproto.node.metrics import Metrics
from pdproto.pages import arguments
from pdproto.pages.chunks import chunk_bytes, chunk_offset, key_of_chunk, key_of_life
from pdproto.pages.copies import AT_ONCE_BYTES, CopyWorker, Staged, end_of_pass
from pdproto.pages.copies_for import copies_for
from pdproto.pages.device import Device
from pdproto.pages.engine_counts import SOURCE_COUNTS, add_engine_counts
from pdproto.pages.layouts import common_part, layout_of
from pdproto.pages.page_sizes import PageParts
from pdproto.pages.reasons import reason_of
from pdproto.runtime import checked
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import Life, PageLayout

log = logging.getLogger("pdproto.pages")

STAGED_BYTES_MAX: Final = 256 << 20  # of writes that were posted in one node and have not ended
STAGED_WRITES_MAX: Final = 4_096  # chunks that were posted in one node and have not ended

OUTCOMES: Final = {
    Result.LANDED: WriteOutcome.LANDED, Result.REFUSED: WriteOutcome.REFUSED,
    Result.ERROR: WriteOutcome.ERROR,
}


@dataclass(frozen=True, slots=True)
class Job:
    """A chunk to write. offset: bytes from the start of the lease. length: bytes of the chunk."""

    number: int
    address: Address
    offset: int
    length: int
    is_wanted: Callable[[], bool]


class SourcePages:
    """A prefill node's data path.

    pools: one array for each layer, K and V, in host memory or on one device. order: of the axes of
    a page, see kernels. device: if not that of the pools. page_tokens: hand over parts of pages, of
    so many tokens (page_sizes.py). threads: that copy a large chunk in host memory. Raises
    DeviceError if the device cannot copy them, for instance because no kernel can be compiled, and
    ValueError where pages have no such parts.
    """

    def __init__(
        self, pools: Sequence[Any], engine: SourceEngine, *, order: Order = Order.NHD,
        device: Device | None = None, page_tokens: int | None = None,
        threads: int = 1,
    ) -> None:
        page_tokens, threads = arguments.check(engine, "post", device, page_tokens, threads)
        self.engine: Final = engine
        whole = register(pools, order=order)
        self._parts: Final = PageParts(whole, page_tokens)
        self.layout: Final = self._parts.layout
        self._pools: Final = whole
        self._layout_told: Final = layout_of(self.layout)
        self._lock: Final = Lock()
        self._packed: Final[deque[tuple[Job, Staged]]] = deque()
        self._posted: Final[dict[int, tuple[int, Staged]]] = {}
        self._ended: Final[deque[tuple[int, WriteOutcome, str]]] = deque()
        self._copies: Final = copies_for(self.layout, device, engine, threads)
        self._copies.warm(self.layout)
        self._worker: Final = CopyWorker("pdproto-pack", self._copies.begin_thread,
                                         0 if self._copies.shares else AT_ONCE_BYTES)
        chunk_offset(self.layout, 1)  # fills the cache of plans, for the loop of the node
        self._staged = self._writes = 0
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        """See SourceDataPath."""
        self._wake = wake
        self.engine.attach(wake)

    @property
    def broken(self) -> str | None:
        """See CanBreak."""
        return self._copies.broken

    def layout_for(self, _sink: str) -> PageLayout | None:
        """See HasLayout: all sinks read the same pools."""
        return self._layout_told

    def conversion(self, theirs: PageLayout) -> str:
        """See Converts."""
        tokens = common_part(self._pools, theirs)
        return "" if tokens is None else f"page_tokens={tokens}"

    def parts(self, pages: Sequence[int], tokens: range) -> list[int]:
        """The numbers to hand over for these tokens of a request; see Parts.numbers."""
        return self._parts.numbers(pages, tokens)

    def measure(self, metrics: Metrics) -> None:
        """See HasMetrics."""
        add_engine_counts(metrics, self.engine, SOURCE_COUNTS)
        metrics.gauge("num_staged_bytes", "Bytes of chunks that were posted and have not landed",
                      lambda: self._staged)

    @property
    def has_room(self) -> bool:
        """See SourceDataPath."""
        return self._staged < STAGED_BYTES_MAX and self._writes < STAGED_WRITES_MAX

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See MarksPages."""
        self._require(pages)
        return self._copies.mark(pages)

    def _require(self, pages: Sequence[int]) -> None:
        """Raise ValueError for a page that does not exist."""
        checked.within("pages", pages, self.layout.pages)

    def post(
        self, number: int, life: Life, address: bytes, offset: int, pages: Sequence[int],
        is_wanted: Callable[[], bool],
    ) -> Posted:
        """See SourceDataPath."""
        length = chunk_bytes(self.layout, len(pages))
        behind = offset + chunk_offset(self.layout, len(pages))
        try:
            job = Job(number, Address.decode(address), offset, length, is_wanted)
        except RemoteProtocolError as error:
            self._refuse(number, error)
        else:
            key = key_of_chunk(key_of_life(life), offset)
            self._begin(job, lambda: self._copies.pack(
                self.layout, pages, key, after=end_of_pass(pages)))
        return Posted(length, behind)

    def outcomes(self) -> Iterable[tuple[int, WriteOutcome, str]]:
        """See SourceDataPath."""
        self._worker.refill()
        for outcome in self.engine.completed():
            with self._lock:
                number, staged = self._posted.pop(outcome.write)
                self._staged -= staged.bytes
                self._writes -= 1
                # After an error a library may still read our buffer, though never the pages: so
                # that buffer is not used again.
                if outcome.result is not Result.ERROR:
                    staged.keep()
            self._ended.append((number, OUTCOMES[outcome.result], outcome.reason))
        self._post_packed()
        while self._ended:
            yield self._ended.popleft()

    def close(self) -> None:
        """Stop packing, and close the engine. A device that packs is waited for."""
        self._worker.close()
        self.engine.close()

    def _begin(self, job: Job, stage: Callable[[], Staged]) -> None:
        """Have these bytes staged and posted."""
        self._staged += job.length
        self._writes += 1
        self._worker.take(job.length, self._put, job, stage)

    def _put(self, job: Job, stage: Callable[[], Staged]) -> None:
        """Stage a chunk and post it; skip it if its hand-over has failed."""
        if not job.is_wanted():
            self._end(job, WriteOutcome.SKIPPED)
            return
        try:
            staged = stage()
        except Exception as error:  # nothing else looks at the worker's future
            self._end(job, WriteOutcome.REFUSED, error)
            return
        self._worker.in_order(partial(self._end_pack, job, staged))

    def _end_pack(self, job: Job, staged: Staged) -> bool:
        """In the worker: post a chunk, if it is packed. Returns whether it is."""
        try:
            if not staged.done():
                return False
        except Exception as error:  # the device has failed
            self._end(job, WriteOutcome.REFUSED, error)
            return True
        with self._lock:
            self._packed.append((job, staged))
        if not self._worker.is_closing:
            self._post_packed()
        return True

    def _post_packed(self) -> None:
        """Give the engine as many packed chunks as it has room for. Skip those of failed
        hand-overs.
        """
        with self._lock:
            while self._packed and self.engine.has_room:
                job, staged = self._packed[0]
                try:
                    if job.is_wanted():
                        write = self._post_staged(job, staged)
                        self._posted[write] = job.number, staged
                    else:
                        staged.keep()
                        self._end(job, WriteOutcome.SKIPPED)
                except EngineBusy:
                    return
                except (EngineError, ValueError) as error:
                    staged.keep()
                    self._end(job, WriteOutcome.REFUSED, error)
                self._packed.popleft()

    def _post_staged(self, job: Job, staged: Staged) -> int:
        if staged.carried is None:
            return self.engine.post(job.address, job.offset, staged.views)
        return self.engine.post(job.address, job.offset, (), staged.carried)

    def _end(self, job: Job, outcome: WriteOutcome, error: Exception | None = None) -> None:
        """End a write of which no byte was written, and none will be."""
        self._staged -= job.length
        self._writes -= 1
        if error is not None:
            self._refuse(job.number, error)
        else:
            self._ended.append((job.number, outcome, ""))
            self._wake()

    def _refuse(self, number: int, error: Exception) -> None:
        """End a write that cannot go to the address that the sink has published."""
        reason = reason_of(error)
        log.warning("write %d cannot be posted: %s", number, reason)
        self._ended.append((number, WriteOutcome.REFUSED, reason))
        self._wake()
