"""Direct writes of items: a known source writes them straight into the buffers of decode.

    node = DirectDecodeNode("d0", DirectItems(components, place, TcpSink()))

Rule 1: a source is leased the items themselves, if they are contiguous and its share is known: its
        later writes must be of that share. The share is known after a header of the source came
        through staging memory. A source in the same place as this rank is presumed to have the same
        share until it sends another one; then it goes through staging memory, and an error there
        names the difference.
Rule 2: the writes of a source follow one another without a gap: each byte is written once.
Rule 3: the digests of a chunk are compared when the next chunk begins: then the chunk is complete,
        and by rule 2 it is not written again. The digests of the last chunk are compared after the
        source has said *done* and is kept out. Those of an incomplete chunk do not agree.
Rule 4: items in host memory are written through staging memory.
Rule 5: items go back when neither a source nor a copy of this process reaches them any more.

The tables are those of spec/handoff/direct.py, also for hand-overs through staging memory: those
only keep their items longer than necessary.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import Final

from pdproto.engine.contract import Lease, SinkEngine
from pdproto.items.components import Component, Numbering
from pdproto.items.data_path import (
    SHARES_KEPT,
    SOURCES_KEPT,
    Coverage,
    SinkItems,
    key_of_share,
)
from pdproto.items.shares import Share, TpRank
from pdproto.pages.copies import Unpacked
from pdproto.pages.direct import InPlace
from pdproto.pages.page_target import ChunkTarget, PagePlaces, pages_in, places_in
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import Life


def places_of(share: Share) -> tuple[PagePlaces, ...] | None:
    """The places of the items of each component; None if the pieces of an item are small."""
    found = [places_in(part.layout) for part in share.parts if part.layout is not None]
    places = tuple(one for one in found if one is not None)
    return places if len(places) == len(share.parts) else None


class ItemTarget:
    """The target of one source in one life: its header, and then its chunks, without gaps.

    places: of the items of each component. items: each once, as a receiver publishes them. key: of
    the digests. worker: compares them. See contract.Target. Raises ValueError for an item that does
    not exist.
    """

    def __init__(
        self, share: Share, places: Sequence[PagePlaces], numbering: Numbering,
        items: Sequence[int], *, key: int, worker: Executor,
    ) -> None:
        numbering.check(items)
        lengths = (count * share.parts[component].bytes(1)
                   for component, count in numbering.counts(items).items())
        self.share: Final = share
        self.length: Final = len(share.header) + sum(lengths)
        self._places: Final = places
        self._numbering: Final = numbering
        self._items: Final = items
        self._header: Final = bytearray(len(share.header))
        self._key: Final = key
        self._worker: Final = worker
        self._chunks: Final[list[ChunkTarget]] = []
        self._verdicts: Final[list[Future[bool]]] = []  # of the first ones
        self.is_strange = False  # the source has sent something else than this share
        self._end = self._taken = 0  # of bytes, and of items

    def places(self, offset: int, length: int) -> Iterable[memoryview]:
        """See contract.Target: a write is the header, or a chunk, or both in this order."""
        self.is_strange = True  # unless the checks below all pass
        if offset != self._end:
            raise RemoteProtocolError(
                f"write: it begins at {offset}, and the one before ended at {self._end}")
        head = 0 if offset else len(self._header)
        if length < head:
            raise RemoteProtocolError(f"write: {length} bytes, and a header has {head}")
        chunk = self._chunk(length - head)
        self._end += length
        self.is_strange = False
        header = (memoryview(self._header),) if head else ()
        return chain(header, chunk.places()) if chunk is not None else header

    def _chunk(self, length: int) -> ChunkTarget | None:
        """The next chunk, of `length` bytes; None without one."""
        items, first = self._items, self._taken
        left = len(items) - first
        if not length:
            return None
        if left:
            component = self._numbering.component(items[first])
            count = pages_in(self._places[component].layout, length)
            if 0 < count <= left and (
                    self._numbering.component(items[first + count - 1]) == component):
                _, indices = self._numbering.split(items[first:first + count])
                begins = self._end or len(self._header)
                chunk = ChunkTarget(self._places[component], indices, begins)
                with suppress(RuntimeError):  # the worker is closed: the answer is not needed
                    for whole in self._chunks[len(self._verdicts):]:
                        self._verdicts.append(self._worker.submit(whole.intact, self._key))
                self._chunks.append(chunk)
                self._taken += count
                return chunk
        raise RemoteProtocolError(
            f"write: {length} bytes at {self._end} are no chunk of {left} items to come")

    def intact(self, chunks: Sequence[int]) -> bool:
        """Whether the digests of all items agree. The worker calls it after the source is kept out.

        chunks: the items of each. Raises ValueError for another header than this source's.
        """
        if self._header != self.share.header:
            self.is_strange = True
            raise ValueError("it sends other layers or heads than it is known to have")
        came = [len(chunk.pages) for chunk in self._chunks]
        return came == [*filter(None, chunks)] and all(map(self._is_intact, range(len(came))))

    def _is_intact(self, place: int) -> bool:
        """Whether the digests of a chunk agree. A verdict that the worker has not reached is not
        waited for: a source that says *done* too early may have it queued behind this very call.
        """
        if place < len(self._verdicts) and self._verdicts[place].done():
            return self._verdicts[place].result()
        return self._chunks[place].intact(self._key)


class DirectItems(SinkItems, InPlace[ItemTarget]):
    """The data path of a decode rank with direct writes.

    Raises EngineError for an engine without a page fence.
    """

    landing = SinkItems

    def __init__(
        self, components: Sequence[Component], place: TpRank, engine: SinkEngine, *,
        threads: int = 1,
    ) -> None:
        super().__init__(components, place, engine, threads=threads)
        self._places: Final = lru_cache(SHARES_KEPT)(self._places_by)
        self._presumed: Final[dict[str, bool]] = {}  # by source: it still holds

    def _places_by(self, header: bytes) -> tuple[PagePlaces, ...] | None:
        """The target for a source with this header; None if it must use staging memory."""
        share, _ = self._share(header)
        return places_of(share)

    def presume(self, source: str) -> None:
        """See rule 1."""
        if source not in self._presumed:
            if len(self._presumed) >= SOURCES_KEPT:
                self._presumed.clear()
            self._presumed[source] = True

    def _lease(self, life: Life, source: str, pages: Sequence[int]) -> Lease | None:
        if self.numbering.on_host(pages):
            return super()._lease(life, source, pages)
        share = self._whole if self._presumed.get(source) else self._known.get(source)
        places = self._places(share.header) if share is not None else None
        if share is None or places is None:
            return super()._lease(life, source, pages)
        target = ItemTarget(share, places, self.numbering, pages,
                            key=key_of_share(life, share), worker=self._worker)
        self._targets[life, source] = target
        return self.engine.lease(life, source, target.length, target)

    def settle(self, life: Life) -> None:
        """See SinkDataPath."""
        InPlace.settle(self, life)  # also if no copy runs: a source may still be writing

    def release(self, life: Life) -> None:
        """See SinkDataPath."""
        targets = {source: self._targets.get((life, source)) for source in self._leases[life]}
        super().release(life)
        for source, target in targets.items():
            if target is not None and target.is_strange:
                self._presumed[source] = False

    def _is_reached(self, life: Life) -> bool:
        with self._counting:
            return super()._is_reached(life) or life in self._copying

    def _take(
        self, coverage: Coverage, life: Life, source: str, chunks: Sequence[int],
        pages: Sequence[int],
    ) -> Iterator[Unpacked]:
        target = self._targets.get((life, source))
        if target is None:
            yield from super()._take(coverage, life, source, chunks, pages)
            return
        if not self._is_kept_out(life, source):
            yield Unpacked(lambda: False)
            return
        clean = target.intact(chunks)
        self._cover(coverage, self._share(target.share.header)[1])
        yield Unpacked(lambda: clean)
