"""The table that a cast kernel reads: where each entry's elements lie, in pool and chunk.

Its columns are named in `kernel`. It is like the table of a copy (`table`), but a row is about
an entry. Units are counted in the order of the chunk, within a page or, if each head has its own
scale, within a head of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels.layout import Geometry, KVLayout, Order
from pdproto.kernels.plan import ChunkPart, ChunkPlan, Scale
from pdproto.kernels.table import NUMERATOR_MAX, Axis, axes_of, division

UNIT_ELEMENTS: Final = 16


@dataclass(frozen=True)
class CastTable:
    """A table, int64 [entry, column], and the numbers that its rows have in common.

    elements: of one unit. depth: axes of a scale's elements that are not contiguous in the pool or
    in the chunk. wide: whether a stride of them is 2**31 bytes or more. apart: whether the outer
    axis is not contiguous in the chunk. longest: the most units that share one scale.
    """

    rows: NDArray[np.int64]
    elements: int
    depth: int
    wide: bool
    apart: bool
    longest: int


def unit_elements(layout: KVLayout) -> int:
    """Elements of a unit: 16 if every address, row and stride is a multiple of that, else 1."""
    steps = list(layout.addresses())
    for group in layout.groups:
        geometry = group.geometry
        # A row is twice as long here as in the chunk, where it must be aligned as well, and the
        # strides within a page are counted in units, of 32 bytes here.
        inner = (geometry.shape.row_bytes, geometry.token_stride, geometry.head_stride)
        steps += [geometry.page_stride, *(step // 2 for step in inner)]
    return UNIT_ELEMENTS if gcd(*steps) % UNIT_ELEMENTS == 0 else 1


def _steps(part: ChunkPart, order: Order) -> tuple[int, int]:
    """Bytes from token to token and from head to head in the chunk."""
    if order is Order.NHD:
        return part.heads.count * part.row_bytes, part.row_bytes
    return part.row_bytes, part.tokens * part.row_bytes


def _axes(
    geometry: Geometry, part: ChunkPart, order: Order, *, by_head: bool
) -> tuple[int, list[Axis]]:
    """Pool bytes that are contiguous on both sides, and the axes of a scale around them."""
    if not by_head:
        return axes_of(geometry, part, order)
    row = geometry.shape.row_bytes
    if part.tokens == 1 or (geometry.token_stride == row and _steps(part, order)[0] * 2 == row):
        return part.tokens * row, []
    return row, [Axis(part.tokens, geometry.token_stride)]


def cast_table_of(layout: KVLayout, plan: ChunkPlan) -> CastTable:
    """Work out the table of the chunks of `plan`."""
    elements, by_head = unit_elements(layout), plan.scale is Scale.PAGE_HEAD
    rows, depth, farthest, longest, apart = [], 0, 0, 0, False
    for group, part in zip(layout.groups, plan.only.parts, strict=True):
        geometry, heads = group.geometry, part.heads.count
        run, axes = _axes(geometry, part, plan.order, by_head=by_head)
        depth = max(depth, len(axes))
        farthest = max(farthest, sum((axis.count - 1) * axis.stride for axis in axes) + run)
        outer, inner = (*axes, Axis(1, 0), Axis(1, 0))[:2]
        units = part.page_bytes // (heads if by_head else 1) // elements
        longest = max(longest, units)
        outer_units = units // outer.count
        inner_units = run // 2 // elements if inner.count > 1 else outer_units
        token_step, head_step = _steps(part, plan.order)
        chunk_gap = token_step // elements - outer_units if by_head and axes else 0
        apart = apart or chunk_gap != 0
        in_units = 2 * elements
        for entry, address in enumerate(group.addresses):
            rows.append([
                address, geometry.page_stride, part.page_bytes,
                part.prefix_bytes + entry * part.page_bytes,
                part.prefix_scales + entry * (heads if by_head else 1), heads if by_head else 1,
                units, geometry.head_stride, head_step,
                outer_units, *division(outer_units), outer.stride // in_units - outer_units,
                chunk_gap, *division(inner_units), inner.stride // in_units - inner_units,
            ])  # fmt: skip
    wide = farthest > NUMERATOR_MAX
    return CastTable(np.array(rows, np.int64), elements, depth, wide, apart, longest)
