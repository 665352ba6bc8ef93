"""The layout of a chunk. Both ends compute it, from shapes and peers that both know.

A chunk is one contiguous piece: the bytes of some pages that one peer gets.

    payload   [entry][page][token][head][dim], or [entry][page][head][token][dim] for HND
    scales    float32, only when the elements are cast; starts at a multiple of 128 bytes
    digests   uint64 [entry, page], if the two ends use them; starts at a multiple of 128 bytes

The pages of an entry lie back to back, and so do the entries: the payload has no padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from pdproto.kernels.layout import SEGMENTS_MAX, KVLayout, Order, Shape

ALIGNMENT_BYTES: Final = 128


class Scale(Enum):
    """The elements of an fp8 chunk that share one scale."""

    STATIC = "static"  # one per entry, given by the caller
    PAGE = "page"  # one per entry and page, from the largest magnitude there
    PAGE_HEAD = "page_head"  # one per entry, page and head, likewise


@dataclass(frozen=True, slots=True)
class HeadRange:
    """The heads that one peer gets: `count` of them from `first` on."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class ChunkPart:
    """One group of entries in one peer's chunk.

    `prefix_bytes` is the size of one page of all entries before this group. So the first byte of
    entry e of the group, page i, is at pages * (prefix_bytes + e * page_bytes) + i * page_bytes.
    `prefix_scales` counts scales in the same way.
    """

    first: int
    entries: int
    tokens: int
    heads: HeadRange
    row_bytes: int
    prefix_bytes: int
    prefix_scales: int

    @property
    def page_bytes(self) -> int:
        """The bytes of a page of this part."""
        return self.tokens * self.heads.count * self.row_bytes


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """One peer's chunk. `bytes` is all of it; without digests it ends at `digest_offset`."""

    pages: int
    entries: int
    parts: tuple[ChunkPart, ...]
    payload_bytes: int
    scale_offset: int
    scales: int
    digest_offset: int
    bytes: int
    signature: int

    def offset(self, entry: int, page: int) -> int:
        """The first byte of page `page` (counted within the chunk) of entry `entry`."""
        for part in self.parts:
            if part.first <= entry < part.first + part.entries:
                before = self.pages * (part.prefix_bytes + (entry - part.first) * part.page_bytes)
                return before + page * part.page_bytes
        raise IndexError(f"entry {entry} does not exist: the chunk has {self.entries}")

    def expect(self, signature: int) -> None:
        """Raise ValueError unless the peer computed the same chunk. Call it before receiving."""
        if signature != self.signature:
            raise ValueError(
                f"signature: the peer's chunk is {signature:#018x}, ours {self.signature:#018x}:"
                " page size, heads, row bytes, entries, pages, order or cast differ"
            )


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The chunks of some pages, one per peer, in the order the peers were given."""

    order: Order
    scale: Scale | None
    pages: int
    peers: tuple[PeerPlan, ...]

    @property
    def only(self) -> PeerPlan:
        """The chunk, where there is one peer."""
        (peer,) = self.peers
        return peer


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _heads(shape: Shape, peer: HeadRange | None) -> HeadRange:
    """The heads of an entry that `peer` gets.

    An entry with one head (a latent) goes to every peer.
    """
    if peer is None or shape.heads == 1:
        return HeadRange(0, shape.heads)
    if peer.first < 0 or peer.count < 1 or peer.first + peer.count > shape.heads:
        last = peer.first + peer.count
        raise ValueError(f"heads {peer.first} to {last}: an entry has {shape.heads}")
    return peer


def _scales_per_page(part_heads: int, scale: Scale | None) -> int:
    return {None: 0, Scale.STATIC: 1, Scale.PAGE: 1, Scale.PAGE_HEAD: part_heads}[scale]


def _signature(order: Order, scale: Scale | None, pages: int, parts: Sequence[ChunkPart]) -> int:
    told = [order.value, scale.value if scale else "copy", pages]
    for part in parts:
        told += [part.entries, part.tokens, part.heads.count, part.row_bytes]
    return int.from_bytes(blake2b(repr(told).encode(), digest_size=8).digest(), "little")


@lru_cache(maxsize=1024)
def parts_of(
    shapes: tuple[tuple[int, Shape], ...], peer: HeadRange | None, scale: Scale | None
) -> tuple[ChunkPart, ...]:
    """The parts of one peer's chunk, the same object for any number of pages."""
    parts = []
    first = prefix_bytes = prefix_scales = 0
    for entries, shape in shapes:
        heads = _heads(shape, peer)
        row_bytes = shape.row_bytes if scale is None else shape.row_bytes // 2
        part = ChunkPart(
            first, entries, shape.tokens, heads, row_bytes, prefix_bytes, prefix_scales)
        parts.append(part)
        first += entries
        prefix_bytes += entries * part.page_bytes
        prefix_scales += entries * _scales_per_page(heads.count, scale)
    return tuple(parts)


@lru_cache(maxsize=4096)
def plan_chunk(
    shapes: tuple[tuple[int, Shape], ...],
    pages: int,
    *,
    order: Order = Order.NHD,
    peers: tuple[HeadRange, ...] | None = None,
    scale: Scale | None = None,
) -> ChunkPlan:
    """Plan the chunks of `pages` pages for `peers` (default: one peer that gets every head).

    `shapes` is (entries, shape) per group, as in `KVLayout.shapes`; a receiver plans with its
    own. With a `scale` the chunk holds fp8 (e4m3): a two-byte element takes one byte there.

    Raises ValueError for heads that an entry does not have and for elements that cannot be cast.
    """
    if pages < 0:
        raise ValueError(f"pages: want 0 or more, got {pages}")
    for _, shape in shapes:
        if scale is not None and shape.element not in {"bfloat16", "float16"}:
            raise ValueError(f"scale: {shape.element} cannot become fp8, 16-bit floats can")
    planned = []
    for index, peer in enumerate(peers if peers is not None else (None,)):
        try:
            parts = parts_of(shapes, peer, scale)
        except ValueError as error:
            raise ValueError(f"peers[{index}]: {error}") from None
        last = parts[-1]
        entries = last.first + last.entries
        prefix_bytes = last.prefix_bytes + last.entries * last.page_bytes
        prefix_scales = last.prefix_scales + last.entries * _scales_per_page(
            last.heads.count, scale
        )
        payload = pages * prefix_bytes
        scales = prefix_scales if scale is Scale.STATIC else pages * prefix_scales
        digest_offset = _aligned(_aligned(payload) + 4 * scales)
        planned.append(
            PeerPlan(
                pages=pages,
                entries=entries,
                parts=parts,
                payload_bytes=payload,
                scale_offset=_aligned(payload),
                scales=scales,
                digest_offset=digest_offset,
                bytes=digest_offset + 8 * entries * pages,
                signature=_signature(order, scale, pages, parts),
            )
        )
    if len(planned) * sum(entries for entries, _ in shapes) > SEGMENTS_MAX:
        raise ValueError(f"peers: entries times peers pass {SEGMENTS_MAX}")
    return ChunkPlan(order, scale, pages, tuple(planned))


def plan_for(
    layout: KVLayout,
    pages: int,
    *,
    order: Order | None = None,
    peers: Sequence[HeadRange] | None = None,
    scale: Scale | None = None,
) -> ChunkPlan:
    """`plan_chunk` for the pools of `layout`. order: of the chunk (default: the layout's own)."""
    return plan_chunk(
        layout.shapes,
        pages,
        order=order or layout.order,
        peers=None if peers is None else tuple(peers),
        scale=scale,
    )
