"""The GPU path of chunks whose elements travel as fp8. The kernel is in `kernel`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from lab.casts import kernel
from lab.casts.scales import static_scales
from lab.casts.table import CastTable, cast_table_of
from pdproto.kernels.arguments import DEFAULT, Launch, check_apart
from pdproto.kernels.device_arguments import chunk_tensors, page_tensor
from pdproto.kernels.device_launch import device_numbers, device_words, run, stream_for
from pdproto.kernels.device_memory import (
    BINDING,
    Binding,
    binding_of,
    capturing,
    refuse_capture,
    torch_device,
)
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPlan, Scale, plan_for
from pdproto.kernels.report import Report
from pdproto.kernels.table import TILES_MAX

UNITS_MAX: Final = 256
KINDS: Final = {"bfloat16": tl.bfloat16, "float16": tl.float16}


class CastVariant(NamedTuple):
    """The constants of one compiled kernel."""

    kind: Any
    elements: int
    units: int
    depth: int
    wide: bool
    apart: bool
    scale: int
    to_chunk: bool
    check: bool


@dataclass
class _Kept:
    """What is kept of a layout. scales: those that were last checked, and how often they had been
    written to then.
    """

    tables: dict[tuple[Order, Scale | None], tuple[CastTable, torch.Tensor]] = field(
        default_factory=dict)
    scales: tuple[ref[torch.Tensor], int] | None = None


_KEPT: Final[WeakKeyDictionary[KVLayout, _Kept]] = WeakKeyDictionary()


def _kept(layout: KVLayout) -> _Kept:
    kept = _KEPT.get(layout)
    if kept is None:
        with BINDING:
            kept = _KEPT.setdefault(layout, _Kept())
    return kept


def _launch(
    layout: KVLayout, plan: ChunkPlan, pages: NDArray[np.int64] | torch.Tensor,
    chunk: Any, static: torch.Tensor | None, *, to_chunk: bool, report: Report | None,
    launch: Launch,
) -> None:  # fmt: skip
    """Lay out the arguments of one launch and enqueue it."""
    (memory,) = chunk_tensors(layout, plan, [chunk])
    check_apart(layout, plan, [memory], (), "digests", written=to_chunk)
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
    grid = min(tiles, launch.ctas_max or tiles)
    behind = (
        memory, binding.nothing.view(torch.float32) if static is None else static,
        words, plan.only.scale_offset, layout.pages, plan.pages, groups, tiles,
    )  # fmt: skip
    placed, _, turn = device_numbers(binding, pages, (), None, launch)
    try:
        arguments = (rows, placed, *behind)
        run(kernel.cast_kernel, variant, grid, stream, arguments, pages=1, warps=_warps(variant))
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
        run(kernel.cast_kernel, variant, 1, stream, idle, pages=1, warps=_warps(variant))
    return 2 * len(kinds)


def bound_cast(
    binding: Binding, layout: KVLayout, plan: ChunkPlan, to_chunk: bool, check: bool
) -> tuple[CastVariant, torch.Tensor]:
    """The variant, and the table on the device; the first call makes them."""
    key = (plan.order, plan.scale)
    tables = _kept(layout).tables
    bound = tables.get(key)
    if bound is None:
        with binding.lock:
            bound = tables.get(key)
            if bound is None:
                device = torch_device(layout)
                refuse_capture(device, "the table of this scale and this order")
                made = cast_table_of(layout, plan)
                bound = tables[key] = made, torch.from_numpy(made.rows).to(device)
    table, rows = bound
    units = min(UNITS_MAX, triton.next_power_of_2(table.longest))
    kind, *others = sorted({shape.element for _, shape in layout.shapes})
    if others:
        raise ValueError(f"pools: one cast is of one element type, not of {kind} and {others[0]}")
    scale = list(Scale).index(plan.scale) if plan.scale else 0
    variant = CastVariant(
        KINDS[kind], table.elements, units, table.depth, table.wide, table.apart, scale, to_chunk,
        check,
    )  # fmt: skip
    return variant, rows


def pack_cast(
    layout: KVLayout, pages: Any, chunk: Any, *, scale: Scale, static: Any = None,
    report: Report | None = None, launch: Launch = DEFAULT,
) -> ChunkPlan:  # fmt: skip
    """`chunk.pack_cast` on the device."""
    index = page_tensor(layout, pages, unique=False)
    plan = plan_for(layout, index.shape[0], scale=scale)
    if static is not None and (
        not isinstance(static, torch.Tensor)
        or static.device != torch_device(layout)
        or static.dtype != torch.float32
        or tuple(static.shape) != (layout.entries,)
        or not static.is_contiguous()
    ):
        want = f"contiguous float32 [{layout.entries}] on {torch_device(layout)}"
        raise ValueError(f"static: want {want}")
    if static is not None:
        _check_static(_kept(layout), static)
    _launch(layout, plan, index, chunk, static, to_chunk=True, report=report, launch=launch)
    return plan


def _check_static(kept: _Kept, scales: torch.Tensor) -> None:
    """Check scales once, and again after they were written to. Nothing else in a call waits."""
    # Tensors made in inference mode do not count what is written to them.
    version = 0 if scales.is_inference() else scales._version
    known = kept.scales
    if known is not None and known[0]() is scales and known[1] == version:
        return
    if capturing(scales.device):
        raise RuntimeError("static: pack once with these scales before a graph is captured")
    static_scales(scales.cpu(), len(scales))
    kept.scales = ref(scales), version


def unpack_cast(
    layout: KVLayout, pages: Any, chunk: Any, *, scale: Scale, order: Order | None = None,
    report: Report | None = None, launch: Launch = DEFAULT,
) -> ChunkPlan:  # fmt: skip
    """`chunk.unpack_cast` on the device."""
    index = page_tensor(layout, pages, unique=True)
    plan = plan_for(layout, index.shape[0], order=order, scale=scale)
    _launch(layout, plan, index, chunk, None, to_chunk=False, report=report, launch=launch)
    return plan
