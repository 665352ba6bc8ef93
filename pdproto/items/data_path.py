"""The data path of items: they belong to several components, of which a rank has its share.

A lease holds the source's header (shares.py), and then its chunks, each of items of one component.
A sink publishes the address of the lease, its rank in its tensor parallelism, and the number of
prompt tokens in its cache.

Rule 1: a sink accepts the bytes of a source only if its header fits and the digests agree. The key
        of the digests depends on the life and the header. All sources together must cover all
        buffers of the sink.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pdproto.engine.contract import ADDRESS_MAX, Address, Lease, SinkEngine, SourceEngine
from pdproto.items.components import Component, Numbering
from pdproto.items.shares import (
    Share,
    TpRank,
    everything,
    header_bytes_max,
    header_in,
    layer_name,
    layout_told,
    share_for,
    share_of,
)
from pdproto.node.data_path import Idle, Posted
from pdproto.pages.chunks import key_of, key_of_chunk
from pdproto.pages.copies import Staged, Unpacked, end_of_pass
from pdproto.pages.device import Device
from pdproto.pages.host_copies import HostCopies
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import Job, SourcePages
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import COMPONENTS_MAX
from pdproto.runtime.wire import Life, PageLayout

SHARES_KEPT: Final = 256
SOURCES_KEPT: Final = 4_096
Rank = Annotated[int, Meta(ge=0, lt=4_096)]
Count = Annotated[int, Meta(ge=0, lt=1 << 31)]


class Placement(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The message of a sink that tells a source where to write.

    address: of the lease. size, rank: the sink's place in its tensor parallelism. prefix: tokens
    that decode has cached already. counts: how many items of each component the sink wants.
    """

    address: Annotated[bytes, Meta(max_length=ADDRESS_MAX)]
    size: Annotated[int, Meta(ge=1, le=4_096)]
    rank: Rank
    prefix: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    counts: Annotated[tuple[Count, ...], Meta(max_length=COMPONENTS_MAX)] = ()

    @property
    def place(self) -> TpRank:
        """The sink's place in its tensor parallelism."""
        return TpRank(self.size, self.rank)


def placement_in(data: bytes) -> Placement:
    """Decode a placement. Raises RemoteProtocolError if it is malformed."""
    try:
        return msgspec.msgpack.decode(data, type=Placement)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"placement: {error}") from None


def key_of_share(life: Life, share: Share) -> int:
    """The key of the digests of a source's chunks in a life. Both ends compute it."""
    return key_of(life.room, life.incarnation, life.generation, share.signature)


class SourceItems(SourcePages):
    """The data path of a prefill rank; see SourcePages. place: of the rank in its tensor
    parallelism.
    """

    def __init__(
        self, components: Sequence[Component], place: TpRank, engine: SourceEngine, *,
        device: Device | None = None, threads: int = 1,
    ) -> None:
        super().__init__([b[:, None, None, :] for b in components[0].buffers], engine,
                         device=device, threads=threads)
        self.numbering: Final = Numbering(components)
        self._told: Final = layout_told(components)
        self._share: Final[Callable[[TpRank], Share]] = lru_cache(SHARES_KEPT)(
            lambda sink: share_for(components, place, sink))
        for part in self._share(place).parts:  # to a sink like this rank
            if part.layout is not None:
                self._copies.warm(part.layout)

    def _require(self, pages: Sequence[int]) -> None:
        self.numbering.check(pages)

    def layout_for(self, _sink: str) -> PageLayout:
        """See HasLayout: parts of a rank are the same for every sink. The header says the rest."""
        return self._told

    def conversion(self, _theirs: PageLayout) -> str:
        """See Converts: items are handed over whole."""
        return ""

    def post(
        self, number: int, life: Life, address: bytes, offset: int, pages: Sequence[int],
        is_wanted: Callable[[], bool],
    ) -> Posted:
        """See SourceDataPath. The header precedes the first chunk."""
        try:
            placement = placement_in(address)
            share = self._share(placement.place)
            head = b"" if offset else share.header
            length = len(head) + self._bytes(share, pages)
            job = Job(number, Address.decode(placement.address), offset, length, is_wanted)
        except (RemoteProtocolError, ValueError) as error:
            self._refuse(number, error)
            return Posted(0, offset)
        key = key_of_chunk(key_of_share(life, share), offset + len(head))
        self._begin(job, lambda: self._items(head, key, share, pages))
        return Posted(length, offset + length)

    def _bytes(self, share: Share, items: Sequence[int]) -> int:
        return share.parts[self.numbering.component(items[0])].bytes(len(items)) if items else 0

    def _items(self, head: bytes, key: int, share: Share, items: Sequence[int]) -> Staged:
        if items:
            component, indices = self.numbering.split(items)
            layout = share.parts[component].layout
            if layout is not None:
                return self._copies.pack(layout, indices, key, head, end_of_pass(items))
        return self._copies.stage(head)


@dataclass(slots=True)
class Coverage:
    """The buffers that the sources of a life have covered. missing: number of other sources."""

    missing: int
    covered: frozenset[tuple[int, int, int]] = frozenset()


class SinkItems(SinkPages):
    """The data path of a decode rank; see SourcePages. place: of the rank in its tensor
    parallelism. The items of a request are in host memory, or none is.
    """

    def __init__(
        self, components: Sequence[Component], place: TpRank, engine: SinkEngine, *,
        device: Device | None = None, threads: int = 1,
    ) -> None:
        super().__init__([b[:, None, None, :] for b in components[0].buffers], engine,
                         device=device, threads=threads)
        self.numbering: Final = Numbering(components)
        self._place: Final = place
        self._components: Final = components
        self._told: Final = layout_told(components)
        self._everything: Final = everything(components, place)
        self._header_bytes: Final = header_bytes_max(components)
        self._whole: Final = share_for(components, place, place)
        for part in self._whole.parts:
            if part.layout is not None:
                self._copies.warm(part.layout)
        self._share: Final = lru_cache(SHARES_KEPT)(
            lambda header: share_of(components, place, header))
        in_host = [replace(component, buffers=component.host) for component in components]
        self._host_share: Final = lru_cache(SHARES_KEPT)(
            lambda header: share_of(in_host, place, header)[0])
        self._host_copies: Final = HostCopies(threads=threads)
        self._known: Final[dict[str, Share]] = {}  # by source, after its first write
        self._prefixes: Final[dict[Life, int]] = {}
        self._coverage: Final[dict[Life, Coverage]] = {}
        self._counting: Final = Lock()
        self._copying: Final[dict[Life, set[str]]] = {}  # by source, until the worker is done

    def _require(self, pages: Sequence[int]) -> None:
        self.numbering.check(pages)

    def layout_for(self, _source: str) -> PageLayout:
        """See SourceItems."""
        return self._told

    def expect(self, life: Life, prefix: int) -> None:
        """Set the number of tokens that decode has cached, before the life is published. It is kept
        until `forget`.
        """
        self._prefixes[life] = prefix

    def forget(self, life: Life) -> None:
        """Forget the number of cached tokens of this life."""
        self._prefixes.pop(life, None)

    def presume(self, source: str) -> None:
        """Note that this source presumably has the same share as this rank. Without direct writes
        that has no effect.
        """

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        """See SinkDataPath."""
        addresses = super().lease(life, pages)
        if addresses is None:
            return None
        self._coverage[life] = Coverage(len(addresses))
        place, prefix = self._place, self._prefixes.get(life, 0)
        return {source: msgspec.msgpack.encode(
                    Placement(address, place.size, place.rank, prefix,
                              self.numbering.counted(pages[source])))
                for source, address in addresses.items()}

    def _lease(self, life: Life, source: str, pages: Sequence[int]) -> Lease | None:
        """Lease memory to a source: for all layers, until its header is known."""
        parts = self._known.get(source, self._whole).parts
        counts = self.numbering.counts(pages)
        length = sum(count * parts[component].bytes(1) for component, count in counts.items())
        return self.engine.lease(life, source, self._header_bytes + length)

    def release(self, life: Life) -> None:
        """See SinkDataPath."""
        self._coverage.pop(life, None)
        super().release(life)

    def verify(self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]) -> None:
        """See SinkDataPath."""
        with self._counting:
            self._copying.setdefault(life, set()).add(source)
        super().verify(life, source, chunks, pages)

    def bytes_of(self, source: str, chunks: Sequence[int], pages: Sequence[int]) -> int:
        """See CountsBytes."""
        share = self._known.get(source, self._whole)  # the presumption was right
        length, first = len(share.header), 0
        for count in filter(None, chunks):
            length += share.parts[self.numbering.component(pages[first])].bytes(count)
            first += count
        return length

    def _copied(self, life: Life, source: str) -> None:
        with self._counting:
            left = self._copying.get(life, set())
            left.discard(source)
            if not left:
                self._copying.pop(life, None)

    def settle(self, life: Life) -> None:
        """See SinkDataPath. A serving engine may reuse the items of an ended request at once. So
        without a copy under way for this life, the report does not wait for copies of other lives.
        """
        with self._counting:
            waits = life in self._copying
        if waits:
            super().settle(life)
        else:
            self._report(Idle(life))

    def _unpack(
        self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]
    ) -> Iterator[Unpacked]:
        """In the worker: begin to copy each chunk into its items."""
        return self._take(self._coverage[life], life, source, chunks, pages)

    def _take(
        self, coverage: Coverage, life: Life, source: str, chunks: Sequence[int],
        pages: Sequence[int],
    ) -> Iterator[Unpacked]:
        landed, after = self._landed(life, source), end_of_pass(pages)
        share, covered = self._share(
            header_in(self._copies.fetch(landed[:self._header_bytes]), self._header_bytes))
        on_host = self.numbering.on_host(pages)
        copies = self._host_copies if on_host else self._copies
        parts = (self._host_share(share.header) if on_host else share).parts
        if len(self._known) >= SOURCES_KEPT:
            self._known.clear()  # prefill restarts under new names, and old names stay
        self._known[source] = share
        offset, first = len(share.header), 0
        for count in filter(None, chunks):
            component, indices = self.numbering.split(pages[first:first + count])
            part = parts[component]
            length = part.bytes(count)
            if part.layout is not None:
                yield copies.unpack(part.layout, landed[offset:offset + length], indices,
                                    key_of_chunk(key_of_share(life, share), offset), after)
            offset, first = offset + length, first + count
        self._cover(coverage, covered)

    def _cover(self, coverage: Coverage, brought: frozenset[tuple[int, int, int]]) -> None:
        """Count the pieces of a source. Raises ValueError if the last source leaves a gap."""
        coverage.missing -= 1
        coverage.covered = coverage.covered | brought if coverage.covered else brought
        if coverage.missing or coverage.covered == self._everything:
            return
        left = self._everything - coverage.covered
        if left:
            component, entry, _ = min(left)
            of = self._components[component]
            sent = {one for part, one, _ in coverage.covered if part == component}
            raise ValueError(
                f"no source sends {of.name} of {_named(of, {entry})}: the sources send "
                f"{_named(of, sent)}, and decode has {_named(of, range(len(of.buffers)))}: want "
                f"the same layers, of all pipeline stages and the draft model, at both ends")


def _named(component: Component, entries: Collection[int]) -> str:
    """These buffers of a component, by their layers if it names them: the runs of their numbers."""
    if component.layers:
        numbers, name = sorted({component.layers[entry] for entry in entries}), layer_name
    else:
        numbers, name = sorted(entries), "buffer {}".format
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told = [name(run[0]) + (f" to {name(run[-1])}" if len(run) > 1 else "") for run in runs]
    return ", ".join(told) or "none"
