"""Pack pages of 16-bit floats as fp8 with scales, and back: on a CPU, or in one launch on a GPU.

    pack_cast(layout, pages, chunk, scale=Scale.PAGE)
    unpack_cast(layout, pages, chunk, scale=Scale.PAGE)

Pages, chunks and errors are those of `pdproto.kernels.chunk`. The arithmetic is in `fp8`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lab.casts import host
from lab.casts.scales import static_scales
from pdproto.kernels.arguments import DEFAULT, Launch, check_apart, host_chunks, page_numbers
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPlan, Scale, plan_for
from pdproto.kernels.report import Report


def pack_cast(
    layout: KVLayout,
    pages: Any,
    chunk: Any,
    *,
    scale: Scale,
    static: Any = None,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> ChunkPlan:
    """Pack bfloat16 or float16 pages as fp8 e4m3 with the scales behind them; see `fp8`.

    chunk: at least `plan.only.digest_offset` bytes. static: float32 [entry], positive and finite,
    only with `Scale.STATIC`. On a GPU it is a tensor there: a call waits for the GPU to check the
    scales the first time, and again after they were written to.
    """
    if (static is None) == (scale is Scale.STATIC):
        raise ValueError(f"static: scales belong to Scale.STATIC, here scale is {scale.name}")
    if layout.device != "cpu":
        from lab.casts import device  # noqa: PLC0415 - needs torch and triton

        return device.pack_cast(
            layout, pages, chunk, scale=scale, static=static,
            report=report, launch=launch,
        )  # fmt: skip
    index = page_numbers(layout, pages)
    plan = plan_for(layout, index.size, scale=scale)
    told = None if static is None else static_scales(static, layout.entries)
    targets = host_chunks(plan, [chunk], written=True)
    check_apart(layout, plan, targets, (), "digests", written=True)
    if index.size:
        host.pack_cast(layout, plan, index, targets, told)
    return plan


def unpack_cast(
    layout: KVLayout,
    pages: Any,
    chunk: Any,
    *,
    scale: Scale,
    order: Order | None = None,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> ChunkPlan:
    """Store an fp8 chunk and its scales into `pages`, at the pools' own precision."""
    if layout.device != "cpu":
        from lab.casts import device  # noqa: PLC0415 - needs torch and triton

        return device.unpack_cast(
            layout, pages, chunk, scale=scale, order=order,
            report=report, launch=launch,
        )  # fmt: skip
    index = page_numbers(layout, pages, unique=True)
    plan = plan_for(layout, index.size, order=order, scale=scale)
    sources = host_chunks(plan, [chunk], written=False)
    check_apart(layout, plan, sources, (), "digests", written=False)
    if index.size:
        host.unpack_cast(layout, plan, index, sources)
    return plan


def warmup(layout: KVLayout, scales: Iterable[Scale], orders: Iterable[Order] = ()) -> int:
    """Compile what casts of `layout` will need; returns how many kernels. See `chunk.warmup`."""
    if layout.device == "cpu":
        return 0
    from lab.casts import device  # noqa: PLC0415 - needs torch and triton

    return sum(device.warmup(layout, scale, order)
               for scale in scales for order in {layout.order, *orders})
