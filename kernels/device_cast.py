"""The GPU path of chunks whose elements travel as fp8. The kernel is in `page_cast`."""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import Any, Final, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from pdproto.kernels import page_cast
from pdproto.kernels.arguments import DEFAULT, Launch
from pdproto.kernels.device_arguments import chunk_tensors, page_tensor
from pdproto.kernels.device_launch import device_numbers, device_words, run, stream_for
from pdproto.kernels.device_memory import Binding, binding_of, refuse_capture, torch_device
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPlan, Part, Scale, plan_for
from pdproto.kernels.report import Report
from pdproto.kernels.table import TILES_MAX, division

UNIT_ELEMENTS: Final = 16
UNITS_MAX: Final = 256
KINDS: Final = {"bfloat16": tl.bfloat16, "float16": tl.float16}


class CastVariant(NamedTuple):
    """What the compiler is told; a kernel is compiled once for each."""

    kind: Any
    elements: int
    units: int
    scale: int
    to_chunk: bool
    check: bool


def unit_elements(layout: KVLayout) -> int:
    """Elements that move together: 16 where every address, row and stride allows, else 1."""
    steps = list(layout.addresses())
    for group in layout.groups:
        geometry = group.geometry
        # A row is twice as long here as in the chunk, where it must be aligned as well.
        steps += [geometry.page_stride, geometry.token_stride, geometry.head_stride]
        steps.append(geometry.shape.row_bytes // 2)
    return UNIT_ELEMENTS if gcd(*steps) % UNIT_ELEMENTS == 0 else 1


def cast_table(layout: KVLayout, plan: ChunkPlan, elements: int) -> NDArray[np.int64]:
    """The table of `page_cast`: int64 [entry, column]."""
    rows = []
    by_head = plan.scale is Scale.PAGE_HEAD
    for group, part in zip(layout.groups, plan.only.parts, strict=True):
        geometry = group.geometry
        heads, row = part.heads.count, part.row_bytes
        token_step, head_step = _steps(part, plan.order)
        token_units = row // elements * (1 if by_head else heads)
        page_scales = heads if by_head else 1
        for entry, address in enumerate(group.addresses):
            rows.append([
                address, geometry.page_stride, part.page_bytes,
                part.prefix_bytes + entry * part.page_bytes,
                part.prefix_scales + entry * page_scales,
                geometry.token_stride, geometry.head_stride, token_step, head_step,
                token_units, *division(token_units), row // elements, *division(row // elements),
                token_units * part.tokens, page_scales,
            ])  # fmt: skip
    return np.array(rows, np.int64)


def _steps(part: Part, order: Order) -> tuple[int, int]:
    """Bytes from token to token and from head to head in the chunk."""
    if order is Order.NHD:
        return part.heads.count * part.row_bytes, part.row_bytes
    return part.row_bytes, part.tokens * part.row_bytes


def _launch(
    layout: KVLayout, plan: ChunkPlan, pages: NDArray[np.int64] | torch.Tensor,
    chunk: torch.Tensor, static: torch.Tensor | None, *, to_chunk: bool, report: Report | None,
    launch: Launch,
) -> None:  # fmt: skip
    """Lay out the arguments of one launch and enqueue it."""
    if plan.pages == 0 or plan.scale is None:
        return
    binding = binding_of(layout)
    variant, rows = bound_cast(binding, layout, plan, to_chunk, isinstance(pages, torch.Tensor))
    groups = _groups(plan)
    tiles = layout.entries * plan.pages * groups
    if tiles > TILES_MAX:
        raise ValueError(f"pages: {plan.pages} pages make {tiles} tiles: ask for fewer")
    words = device_words(binding, report)
    stream = stream_for(rows, launch, report)
    placed, _, turn = device_numbers(binding, pages, (), None, launch)
    arguments = (
        rows, placed, chunk, binding.nothing.view(torch.float32) if static is None else static,
        words, plan.only.scale_offset, layout.pages, plan.pages, groups, tiles,
    )  # fmt: skip
    grid = min(tiles, launch.ctas_max or tiles)
    try:
        run(page_cast.cast_kernel, variant, grid, stream, arguments, pages=1, warps=_warps(variant))
    finally:
        if turn is not None:
            binding.uplink.launched(turn, stream)


def _groups(plan: ChunkPlan) -> int:
    """The most scales that a page of any entry has."""
    if plan.scale is not Scale.PAGE_HEAD:
        return 1
    return max(part.heads.count for part in plan.only.parts)


def _warps(variant: CastVariant) -> int:
    return 4 if variant.units * variant.elements >= 2048 else 1


def warmup(layout: KVLayout, scale: Scale, order: Order) -> int:
    """Make the table and launch each kernel for `scale` once, without work."""
    binding, device = binding_of(layout), torch_device(layout)
    plan = plan_for(layout, 1, order=order, scale=scale)
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    kinds = ((False, torch.int64), (True, torch.int64), (True, torch.int32))
    for to_chunk, (check, kind) in product((True, False), kinds):
        variant, rows = bound_cast(binding, layout, plan, to_chunk, check)
        idle = (
            rows, torch.zeros(1, dtype=kind, device=device), binding.nothing,
            binding.nothing.view(torch.float32), binding.sink, plan.only.scale_offset,
            layout.pages, 1, 1, 0,
        )  # fmt: skip
        run(page_cast.cast_kernel, variant, 1, stream, idle, pages=1, warps=_warps(variant))
    return 2 * len(kinds)


def bound_cast(
    binding: Binding, layout: KVLayout, plan: ChunkPlan, to_chunk: bool, check: bool
) -> tuple[CastVariant, torch.Tensor]:
    """The variant, and the table on the device, made the first time it is asked for."""
    elements = unit_elements(layout)
    key = (plan.order, plan.scale)
    rows = binding.cast_tables.get(key)
    if rows is None:
        with binding.lock:
            rows = binding.cast_tables.get(key)
            if rows is None:
                device = torch_device(layout)
                refuse_capture(device, "the table of this scale and this order")
                table = torch.from_numpy(cast_table(layout, plan, elements))
                rows = binding.cast_tables[key] = table.to(device)
    parts = plan.only.parts
    longest = max(part.page_bytes for part in parts)
    if plan.scale is Scale.PAGE_HEAD:
        longest = max(part.tokens * part.row_bytes for part in parts)
    units = min(UNITS_MAX, triton.next_power_of_2(longest // elements))
    kind, *others = sorted({shape.element for _, shape in layout.shapes})
    if others:
        raise ValueError(f"pools: one cast is of one element type, not of {kind} and {others[0]}")
    scale = list(Scale).index(plan.scale) if plan.scale else 0
    return CastVariant(KINDS[kind], elements, units, scale, to_chunk, check), rows


def pack_cast(
    layout: KVLayout, pages: Any, chunk: Any, *, scale: Scale, static: Any = None,
    report: Report | None = None, launch: Launch = DEFAULT,
) -> ChunkPlan:  # fmt: skip
    """`chunk.pack_cast` on the device."""
    index = page_tensor(layout, pages, unique=False)
    plan = plan_for(layout, len(index), scale=scale)
    if static is not None and (
        not isinstance(static, torch.Tensor)
        or static.device != torch_device(layout)
        or static.dtype != torch.float32
        or tuple(static.shape) != (layout.entries,)
        or not static.is_contiguous()
    ):
        want = f"contiguous float32 [{layout.entries}] on {torch_device(layout)}"
        raise ValueError(f"static: want {want}")
    (target,) = chunk_tensors(layout, plan, [chunk])
    _launch(layout, plan, index, target, static, to_chunk=True, report=report, launch=launch)
    return plan


def unpack_cast(
    layout: KVLayout, pages: Any, chunk: Any, *, scale: Scale, order: Order | None = None,
    report: Report | None = None, launch: Launch = DEFAULT,
) -> ChunkPlan:  # fmt: skip
    """`chunk.unpack_cast` on the device."""
    index = page_tensor(layout, pages, unique=True)
    plan = plan_for(layout, len(index), order=order, scale=scale)
    (source,) = chunk_tensors(layout, plan, [chunk])
    _launch(layout, plan, index, source, None, to_chunk=False, report=report, launch=launch)
    return plan
