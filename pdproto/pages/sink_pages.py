"""The data path of a decode node: an engine lands chunks in leased memory, and they are unpacked.

A landed chunk is copied into the node's own pages, and the digests of the stored bytes are compared
meanwhile. The copies run on a thread of their own, or on the device of the pools, so that the
node's loop never waits; few bytes are copied at once (`CopyWorker.take`).

Rule 1: copies begin, and memory is given back, in the order in which the node asked, and each waits
        for the end of the copies before it. So neither memory nor pages are given back while a copy
        uses them.
Rule 2: the digest is keyed by the life, so the bytes of another life do not match.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from pdproto.engine.contract import Lease, PinsMemory, SinkEngine, Ticket
from pdproto.kernels.chunk import KVLayout, Order, register
from pdproto.node.data_path import Fenced, Idle, Verified
from pdproto.node.metrics import Metrics
from pdproto.pages import arguments
from pdproto.pages.chunks import chunk_bytes, chunk_offset, key_of_chunk, key_of_life
from pdproto.pages.copies import AT_ONCE_BYTES, CopyWorker, Unpacked, end_of_pass
from pdproto.pages.copies_for import copies_for
from pdproto.pages.device import Device
from pdproto.pages.engine_counts import SINK_COUNTS, add_engine_counts
from pdproto.pages.layouts import layout_of
from pdproto.pages.page_sizes import PageParts
from pdproto.pages.reasons import reason_of
from pdproto.runtime import checked
from pdproto.runtime.wire import Life, PageLayout

log = logging.getLogger("pdproto.pages")


@dataclass(slots=True)
class Copy:
    """The chunks of one source that are being copied.

    parts: their copies that have not ended. is_clean: the digests of all others agree. reason: why
    one of them could not be copied.
    """

    life: Life
    source: str
    parts: list[Unpacked] = field(default_factory=list)
    is_clean: bool = True
    reason: str = ""

    def blame(self, error: Exception) -> None:
        """Note an error that ends the copy of a chunk."""
        self.is_clean = False
        self.reason = f"the bytes of {self.source} cannot be unpacked: {reason_of(error)}"
        log.warning("%s: %s", self.life, self.reason)

    def has_ended(self) -> bool:
        """Whether no copy runs any more. An error of one chunk ends no copy of another."""
        self.parts = [part for part in self.parts if not self._has_ended(part)]
        return not self.parts

    def _has_ended(self, part: Unpacked) -> bool:
        try:
            if not part.ready():
                return False
            self.is_clean &= part.clean()
        except Exception as error:  # the device has failed
            self.blame(error)
        return True


class SinkPages:
    """A decode node's data path.

    pools: one array for each layer, K and V, which every source fills; or such pools by source, in
    the order of that source's pools. order, device, page_tokens, threads: as in SourcePages.
    """

    at_once_bytes: ClassVar[int] = AT_ONCE_BYTES  # see CopyWorker

    def __init__(
        self, pools: Mapping[str, Sequence[Any]] | Sequence[Any], engine: SinkEngine, *,
        order: Order = Order.NHD, device: Device | None = None, page_tokens: int | None = None,
        threads: int = 1,
    ) -> None:
        page_tokens, threads = arguments.check(engine, "lease", device, page_tokens, threads)
        self._suit(engine, device, page_tokens)
        self.engine: Final = engine
        of_sources = pools if isinstance(pools, Mapping) else {None: pools}
        self._parts: Final = {source: PageParts(register(of, order=order), page_tokens)
                              for source, of in of_sources.items()}
        self._layouts: Final = {source: parts.layout for source, parts in self._parts.items()
                                if source is not None}
        whole = self._parts.get(None)  # of pools that every source fills
        self._layout: Final = None if whole is None else whole.layout
        self._layouts_told: Final[dict[str | None, PageLayout]] = {
            source: layout_of(of) for source, of in self._layouts.items()}
        if self._layout is not None:
            self._layouts_told[None] = layout_of(self._layout)  # for every source
        self._copies: Final = copies_for(self.layouts[0], device, engine, threads)
        for layout in self.layouts:
            self._copies.warm(layout)
        self._worker: Final = CopyWorker("pdproto-unpack", self._copies.begin_thread,
                                         0 if self._copies.shares else self.at_once_bytes)
        self._leases: Final[dict[Life, dict[str, Lease]]] = {}
        self._fences: Final[dict[tuple[Life, str], Ticket]] = {}
        self._settled: Final[set[Life]] = set()
        self._reports: Final[deque[Verified | Fenced | Idle]] = deque()
        self._wake: Callable[[], None] = lambda: None

    def _suit(self, engine: SinkEngine, device: Device | None, page_tokens: int | None) -> None:
        """Raise EngineError if this kind of data path cannot be made of these. Any suit here."""

    def attach(self, wake: Callable[[], None]) -> None:
        """See SinkDataPath."""
        self._wake = wake
        self.engine.attach(wake)

    def measure(self, metrics: Metrics) -> None:
        """See HasMetrics."""
        add_engine_counts(metrics, self.engine, SINK_COUNTS)

    @property
    def broken(self) -> str | None:
        """See CanBreak."""
        return self._copies.broken

    def layout_for(self, source: str) -> PageLayout | None:
        """See HasLayout."""
        return self._layouts_told.get(source, self._layouts_told.get(None))

    def parts(self, pages: Sequence[int], tokens: range, source: str | None = None) -> list[int]:
        """The numbers to hand over for these tokens of a request; see Parts.numbers. source: whose
        pools they are, where each source has its own.
        """
        return self._parts[source].numbers(pages, tokens)

    def out_of_reach(self, host: str) -> str | None:
        """See HasReach."""
        return self.engine.out_of_reach(host)

    @property
    def layouts(self) -> tuple[KVLayout, ...]:
        """The layout of each source's pools, or the one layout of the pools that all fill."""
        return tuple(self._layouts.values()) if self._layout is None else (self._layout,)

    def _of(self, source: str) -> KVLayout:
        return self._layout or self._layouts[source]

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        """See SinkDataPath."""
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

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See MarksPages."""
        self._require(pages)
        return self._copies.mark(pages)

    def _require(self, pages: Sequence[int]) -> None:
        """Raise ValueError for a page that no source's pools have."""
        checked.within("pages", pages, max(layout.pages for layout in self.layouts))

    def verify(self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]) -> None:
        """See SinkDataPath."""
        self._worker.take(self.bytes_of(source, chunks, pages),
                          self._verify, life, source, chunks, pages)

    def bytes_of(self, source: str, chunks: Sequence[int], _pages: Sequence[int]) -> int:
        """See CountsBytes: the bytes of all chunks, with their digests."""
        return sum(chunk_bytes(self._of(source), count) for count in filter(None, chunks))

    def settle(self, life: Life) -> None:
        """See SinkDataPath."""
        self._settled.add(life)
        self._worker.take(0, self._worker.in_order, partial(self._settle, life))

    def fence(self, life: Life, source: str) -> None:
        """See SinkDataPath. A source may be lost before any memory was leased for it."""
        lease = self._leases.get(life, {}).get(source)
        if lease is None:
            self._report(Fenced(life, source))
            return
        self._fences[life, source] = self.engine.fence(lease)
        self._wake()

    def release(self, life: Life) -> None:
        """See SinkDataPath."""
        leases = self._leases.pop(life)
        self._worker.take(0, self._worker.in_order, partial(self._release, leases))

    def reports(self) -> Iterable[Verified | Fenced | Idle]:
        """See SinkDataPath."""
        self._worker.refill()
        for (life, source), ticket in list(self._fences.items()):
            if self.engine.fenced(ticket):
                del self._fences[life, source]
                yield Fenced(life, source)
        while self._reports:
            yield self._reports.popleft()

    def close(self) -> None:
        """Stop copying, and close the engine. A device that copies is waited for."""
        self._worker.close()
        self.engine.close()

    def _report(self, report: Verified | Fenced | Idle) -> None:
        self._reports.append(report)
        self._wake()

    def _verify(
        self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]
    ) -> None:
        """In the worker: begin to unpack. The report follows when that is done."""
        copy = Copy(life, source)
        try:
            if life not in self._settled:
                for unpacked in self._unpack(life, source, chunks, pages):
                    copy.parts.append(unpacked)
            else:
                copy.is_clean = False
        except Exception as error:  # nothing else looks at the worker's future
            copy.blame(error)
        self._worker.in_order(partial(self._end_copy, copy))

    def _unpack(
        self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]
    ) -> Iterator[Unpacked]:
        """In the worker: begin to unpack each chunk into its pages."""
        layout, landed, after = self._of(source), self._landed(life, source), end_of_pass(pages)
        first = 0
        for count in filter(None, chunks):
            offset = chunk_offset(layout, first)
            yield self._copies.unpack(layout, landed[offset:], pages[first:first + count],
                                      key_of_chunk(key_of_life(life), offset), after)
            first += count

    def _landed(self, life: Life, source: str) -> Any:
        """In the worker: the memory of a lease. A device reads it by itself, so it is pinned."""
        lease, pin = self._leases[life][source], self._copies.pin
        landed = self._copies.landed(self.engine.view(lease))
        if pin is not None and isinstance(self.engine, PinsMemory):
            self.engine.pin(lease, pin)
        return landed

    def _end_copy(self, copy: "Copy") -> bool:
        """In the worker: report a copy, if it is done. Returns whether it is."""
        if not copy.has_ended():
            return False
        self._copied(copy.life, copy.source)
        self._report(Verified(copy.life, copy.source, copy.is_clean, copy.reason))
        return True

    def _copied(self, life: Life, source: str) -> None:
        """In the worker: a copy has ended, and is reported next."""

    def _settle(self, life: Life) -> bool:
        self._settled.discard(life)
        self._report(Idle(life))
        return True

    def _release(self, leases: Mapping[str, Lease]) -> bool:
        for lease in leases.values():
            self.engine.release(lease)
        self._wake()
        return True
