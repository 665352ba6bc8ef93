"""The CPU path of chunks whose elements travel as fp8. The arithmetic is in `fp8`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lab.casts import fp8
from pdproto.kernels.digest import BLOCK_BYTES
from pdproto.kernels.host import Bytes, Index, Route, part_bytes, routes_of, rows_of
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPart, ChunkPlan, PeerPlan, Scale

Float32 = NDArray[np.float32]


def scales_in(chunk: Bytes, peer: PeerPlan) -> Float32:
    """The scales of a chunk: float32 [scale]."""
    return chunk[peer.scale_offset : peer.scale_offset + 4 * peer.scales].view("<f4")


def part_scales(scales: Float32, plan: ChunkPlan, part: ChunkPart) -> Float32:
    """The scales of one part as [entry, page, head], with one head or page where shared."""
    if plan.scale is Scale.STATIC:
        return scales[part.prefix_scales :][: part.entries].reshape(-1, 1, 1)
    heads = part.heads.count if plan.scale is Scale.PAGE_HEAD else 1
    start = plan.pages * part.prefix_scales
    shaped: Float32 = scales[start:][: part.entries * plan.pages * heads].reshape(
        part.entries, plan.pages, heads
    )
    return shaped


def _axes(part: ChunkPart, order: Order) -> tuple[int, int, int]:
    """The shape of a page in the chunk: [token, head, dim] or [head, token, dim]."""
    outer = (part.tokens, part.heads.count)
    return (*(outer if order is Order.NHD else outer[::-1]), part.row_bytes)


def _per_page(scales: Float32, order: Order) -> Float32:
    """Scales [page, head] shaped to multiply [page, *_axes]."""
    return scales[:, None, :, None] if order is Order.NHD else scales[:, :, None, None]


def _blocks(
    part: ChunkPart, route: Route, codes: Bytes, pages: Index
) -> Iterator[tuple[int, slice, Index, Bytes]]:
    """(entry, pages of it, rows in its pool, its codes), a cache-sized block at a time."""
    shaped = codes.reshape(part.entries, pages.size, part.page_bytes)
    step = max(1, BLOCK_BYTES // (8 * part.page_bytes))
    for start in range(0, pages.size, step):
        block = slice(start, min(start + step, pages.size))
        rows = rows_of(route, pages[block])
        for entry in range(part.entries):
            yield entry, block, rows, shaped[entry, block]


def pack_cast(
    layout: KVLayout,
    plan: ChunkPlan,
    pages: Index,
    chunks: Sequence[Bytes],
    static: Float32 | None,
) -> None:
    """Fill one fp8 chunk per peer, and its scales. `static` is float32 [entry] or None."""
    over_heads = plan.scale is not Scale.PAGE_HEAD
    token_axis = 1 if plan.order is Order.NHD else 2
    axes = (1, 2, 3) if over_heads else (token_axis, 3)
    for peer, chunk in zip(plan.peers, chunks, strict=True):
        scales = scales_in(chunk, peer)
        if static is not None:
            scales[...] = static
        found = zip(peer.parts, routes_of(layout, plan, peer), layout.groups, strict=True)
        for part, route, group in found:
            element, shape = group.geometry.shape.element, _axes(part, plan.order)
            told = part_scales(scales, plan, part)
            for entry, block, rows, codes in _blocks(
                part, route, part_bytes(chunk, peer, part), pages
            ):
                taken = np.take(route.pools[entry], rows, axis=0)
                values = fp8.to_float32(taken.reshape(-1), element).reshape(-1, *shape)
                if static is None:
                    scale = fp8.scale_for(values, axes)
                    told[entry, block] = scale.reshape(told[entry, block].shape)
                else:
                    scale = told[entry, 0, 0]
                scaled = values * (np.float32(1) / scale)
                codes[...] = fp8.encode(scaled).reshape(codes.shape)


def unpack_cast(layout: KVLayout, plan: ChunkPlan, pages: Index, chunks: Sequence[Bytes]) -> None:
    """Store fp8 chunks into pages, at the pools' precision."""
    for peer, chunk in zip(plan.peers, chunks, strict=True):
        scales = scales_in(chunk, peer)
        found = zip(peer.parts, routes_of(layout, plan, peer), layout.groups, strict=True)
        for part, route, group in found:
            element, shape = group.geometry.shape.element, _axes(part, plan.order)
            told = part_scales(scales, plan, part)
            for entry, block, rows, codes in _blocks(
                part, route, part_bytes(chunk, peer, part), pages
            ):
                shared = told[entry, :1] if plan.scale is Scale.STATIC else told[entry, block]
                values = fp8.decode(codes.reshape(-1, *shape)) * _per_page(shared, plan.order)
                stored = fp8.from_float32(values, element)
                route.pools[entry][rows] = stored.reshape(rows.size, -1)
