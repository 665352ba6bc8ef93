"""Pages of a KV cache as a target: a source writes straight into the pages that decode reads.

    places = PagePlaces(layout)                       # once
    target = places.target(pages)                     # for the writes of one source in one life
    lease = sink.lease(life, source, target.length, target)
    target.intact(chunks, key)                        # when the source has written everything

The chunks are those of chunks.py, each at its `chunk_offset`. Their payload goes into the pages,
their digests into memory beside them; nothing is copied afterwards.

The pools must be in host memory, and the bytes of each page contiguous.
"""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Final

import numpy as np

from pdproto.engine.contract import Buffer
from pdproto.kernels.chunk import KVLayout, Order, coalesce_runs, digest_pages, plan_for
from pdproto.kernels.layout import Geometry
from pdproto.kernels.plan import ALIGNMENT_BYTES
from pdproto.pages.chunks import chunk_bytes, chunk_offset, host_only, key_of_chunk
from pdproto.runtime.errors import RemoteProtocolError


class PagePlaces:
    """The places of the pages of some pools.

    Raises ValueError for pools whose pages are not contiguous, or not in host memory.
    """

    def __init__(self, layout: KVLayout) -> None:
        host_only(layout)
        for group in layout.groups:
            if not _in_one_piece(group.geometry, layout.order):
                raise ValueError(
                    f"pools[{group.first}]: the bytes of a page are not contiguous, so a source"
                    f" cannot write straight into it"
                )
        self.layout: Final = layout
        # By group: pools of a group have their pages at the same places.
        self._pools: Final = [
            (group.geometry, [_memory(address, group.geometry.extent(layout.pages))
                              for address in group.addresses])
            for group in layout.groups
        ]

    def target(self, pages: Sequence[int]) -> "PageTarget":
        """These pages, in the order in which the source sends them.

        Raises ValueError for a page that does not exist, or is given twice.
        """
        return PageTarget(self, pages)

    def places(self, pages: Sequence[int]) -> Iterator[memoryview]:
        """The memory for the payload of a chunk of these pages, entry by entry."""
        for geometry, pools in self._pools:
            spans = _spans(geometry, pages)
            for memory in pools:
                yield from [memory[span] for span in spans]


def _spans(geometry: Geometry, pages: Sequence[int]) -> list[slice]:
    """The byte ranges of pages in a pool. Pages that are side by side share a range."""
    stride, length = geometry.page_stride, geometry.shape.page_bytes
    if stride != length:
        return [slice(page * stride, page * stride + length) for page in pages]
    return [slice(first * length, (first + count) * length)
            for first, _, count in coalesce_runs(pages).tolist()]


def _memory(address: int, length: int) -> memoryview:
    """Memory that a layout keeps alive, as bytes."""
    return memoryview((ctypes.c_uint8 * length).from_address(address)).cast("B")


def _in_one_piece(geometry: Geometry, order: Order) -> bool:
    """Whether the bytes of a page have the same order in memory as in a chunk, without gaps."""
    shape = geometry.shape
    axes = [(shape.tokens, geometry.token_stride), (shape.heads, geometry.head_stride)]
    run = shape.row_bytes
    for count, stride in reversed(axes) if order is Order.NHD else axes:
        if count > 1 and stride != run:
            return False
        run *= count
    return True


def pages_in(layout: KVLayout, length: int) -> int:
    """The number of pages of a chunk of this length; 0 if no chunk has this length."""
    one = plan_for(layout, 1).only
    unit = one.payload_bytes + 8 * one.entries  # without the padding, which is of any length below
    fewest = max(0, length - ALIGNMENT_BYTES) // unit
    likely = range(fewest, length // unit + 1)
    return next((pages for pages in likely if chunk_bytes(layout, pages) == length), 0)


class ChunkTarget:
    """The memory of one chunk: its payload goes into pages, its digests into memory of their own.

    offset: of the chunk in the lease, in bytes.
    """

    def __init__(self, places: PagePlaces, pages: Sequence[int], offset: int) -> None:
        plan = plan_for(places.layout, len(pages)).only
        self.pages: Final = list(pages)
        self._places: Final = places
        self._offset: Final = offset
        self._behind: Final = bytearray(plan.bytes - plan.payload_bytes)  # padding and digests
        self._digest_offset: Final = plan.digest_offset - plan.payload_bytes

    def places(self) -> Iterable[memoryview]:
        """The memory for the bytes of the chunk, back to back."""
        return chain(self._places.places(self.pages), (memoryview(self._behind),))

    def intact(self, key: int) -> bool:
        """Whether the bytes of the pages have the digests that came with the chunk.

        key: of the chunk in this life. Call it only after no source can write there any more.
        """
        came = np.frombuffer(self._behind, "<u8", offset=self._digest_offset)
        found = np.empty(came.size, "<u8")
        key = key_of_chunk(key, self._offset)
        digest_pages(self._places.layout, self.pages, found, key=key)
        return bool(np.array_equal(found, came))


class PageTarget:
    """See contract.Target, and above. length: of the lease, in bytes."""

    def __init__(self, places: PagePlaces, pages: Sequence[int]) -> None:
        known = places.layout.pages
        for page in pages:
            if not 0 <= page < known:
                raise ValueError(f"page {page} does not exist: the pools have {known}")
        if len(set(pages)) != len(pages):
            raise ValueError("pages: one is given more than once")
        self.length: Final = chunk_offset(places.layout, len(pages))
        self._places: Final = places
        self._pages: Final = list(pages)
        self._chunks: Final[dict[int, ChunkTarget]] = {}  # chunks that came, by first page

    def places(self, offset: int, length: int) -> Iterable[memoryview]:
        """See contract.Target: a write is one whole chunk."""
        if not length:
            return ()
        layout = self._places.layout
        first, inside = divmod(offset, chunk_bytes(layout, 1))
        count = pages_in(layout, length)
        if inside or not count or first + count > len(self._pages):
            raise RemoteProtocolError(
                f"write: {length} bytes at {offset} are no chunk of {len(self._pages)} pages"
            )
        chunk = ChunkTarget(self._places, self._pages[first : first + count], offset)
        self._chunks[first] = chunk
        return chunk.places()

    def intact(self, chunks: Sequence[int], key: int) -> bool:
        """Whether the bytes of all pages have the digests that came. chunks: the pages of each.

        Call it only after no source can write there any more.
        """
        firsts = accumulate(chunks, initial=0)
        return all(self._agrees(first, count, key)
                   for first, count in zip(firsts, chunks, strict=False) if count)

    def _agrees(self, first: int, count: int, key: int) -> bool:
        chunk = self._chunks.get(first)
        return chunk is not None and len(chunk.pages) == count and chunk.intact(key)


# Handling one view in Python and in the system costs about as much as copying so many bytes.
VIEW_BYTES_MIN: Final = 16 << 10


def places_in(layout: KVLayout) -> PagePlaces | None:
    """The places of the pages; None if a page is not contiguous, small, or on a device."""
    smallest = min((shape.page_bytes for _, shape in layout.shapes), default=0)
    if layout.device != "cpu" or smallest < VIEW_BYTES_MIN:
        return None
    try:
        return PagePlaces(layout)
    except ValueError:
        return None


def chunk_views(places: PagePlaces, pages: Sequence[int], key: int) -> list[Buffer]:
    """The bytes of a chunk of these pages, back to back, for a source that does not pack it first.

    They are those of chunks.pack_pages. The pages must not change until the outcome has been read;
    the tables of the source see to that. If they do change, the sink finds it: the digest was taken
    before.

    Raises ValueError for a page that does not exist.
    """
    plan = plan_for(places.layout, len(pages)).only
    behind = np.zeros(plan.bytes - plan.payload_bytes, np.uint8)  # padding and digests
    digests = behind[plan.digest_offset - plan.payload_bytes :].view("<u8")
    digest_pages(places.layout, pages, digests, key=key)
    return [*places.places(pages), behind]
