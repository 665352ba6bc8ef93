"""Layouts over memory that is there already: some heads of pools, and the content of fp8 chunks.

    theirs = heads_of(layout, HeadRange(0, 4))                   # what one peer gets
    pack_cast(theirs, pages, chunk, scale=Scale.PAGE_HEAD)
    content = content_of(theirs, plan, chunk)                    # codes and scales, as pools
    digest_pages(content, range(plan.pages), digests, key=key)

So slices and digests of fp8 chunks need no kernels of their own. Keep a layout as long as its
memory: plans and tables are made once for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pdproto.kernels.arguments import bytes_needed
from pdproto.kernels.layout import EntryGroup, Geometry, KVLayout, Order, Shape
from pdproto.kernels.plan import ChunkPart, ChunkPlan, HeadRange, Scale, parts_of
from pdproto.kernels.registration import memory_of


def heads_of(layout: KVLayout, heads: HeadRange) -> KVLayout:
    """The layout of some heads of each pool. A pool with one head (a latent) stays whole.

    Raises ValueError for heads that a pool does not have.
    """
    parts = parts_of(layout.shapes, heads, None)
    groups = tuple(_sliced(group, part) for group, part in zip(layout.groups, parts, strict=True))
    return replace(layout, groups=groups)


def _sliced(group: EntryGroup, part: ChunkPart) -> EntryGroup:
    geometry = group.geometry
    first = part.heads.first * geometry.head_stride
    shape = replace(geometry.shape, heads=part.heads.count)
    return replace(group, geometry=replace(geometry, shape=shape),
                   addresses=tuple(address + first for address in group.addresses))


def content_of(layout: KVLayout, plan: ChunkPlan, chunk: Any) -> KVLayout:
    """The content of an fp8 chunk of one peer as pools, one page of them for each of the chunk.

    First the codes of each entry, and then the scales of each, unless they are static. To digest
    them, give `digest_pages` memory for 64-bit [2 * entries * pages] ([entries * pages] if static).
    It finds any change of codes and scales that `digest` finds in pages. Both ends digest the
    chunk: the source behind the pack, and the sink before it unpacks, from memory that nobody else
    writes to. Raises ValueError for a plan without a cast, and for a chunk that is too short.
    """
    peer, memory = plan.only, memory_of(chunk, "chunk")
    needed = bytes_needed(plan, peer)
    if plan.scale is None:
        raise ValueError("plan: want one of a cast chunk, with a scale")
    if memory.element != "uint8" or len(memory.shape) != 1 or memory.shape[0] < needed:
        raise ValueError(f"chunk: want uint8 [byte] of {needed} bytes, got {memory.element} "
                         f"{memory.shape}")
    groups = [_group(memory.address + plan.pages * part.prefix_bytes, part.first, part.entries,
                     part.page_bytes, plan.pages) for part in peer.parts]
    groups += _scales(plan, memory.address + peer.scale_offset)
    pools = (chunk,) * sum(group.entries for group in groups)
    return KVLayout(Order.NHD, max(plan.pages, 1), max(plan.pages, 1), layout.device,
                    tuple(groups), pools)


def _scales(plan: ChunkPlan, address: int) -> Iterator[EntryGroup]:
    """The scales of each part; none that all pages share."""
    if plan.scale is not Scale.STATIC:
        for part in plan.only.parts:
            length = 4 * (part.heads.count if plan.scale is Scale.PAGE_HEAD else 1)
            yield _group(address + 4 * plan.pages * part.prefix_scales,
                         plan.only.entries + part.first, part.entries, length, plan.pages)


def _group(address: int, first: int, entries: int, page_bytes: int, pages: int) -> EntryGroup:
    """Entries without gaps: neither between the pages of an entry nor between entries."""
    shape = Shape(1, 1, page_bytes, "uint8")
    return EntryGroup(Geometry(shape, page_bytes, page_bytes, page_bytes), first,
                 tuple(address + entry * pages * page_bytes for entry in range(entries)))
