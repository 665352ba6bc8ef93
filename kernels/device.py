"""The GPU path: one launch a chunk, on tables and buffers made before the first chunk.

With TRITON_INTERPRET=1 and a layout on the device "interpreter", the same code runs on CPU
tensors in Triton's interpreter, which is how it is tested without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from pdproto.kernels import page_copy
from pdproto.kernels.arguments import (
    DEFAULT,
    Launch,
    bytes_needed,
    check_count,
    check_one_each,
    page_numbers,
)
from pdproto.kernels.device_memory import (
    IN_FLIGHT,
    Binding,
    DeviceReport,
    binding_of,
    bound_table,
    on_stream,
    torch_device,
)
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPlan, HeadRange, plan_for
from pdproto.kernels.report import Report
from pdproto.kernels.tiling import Variant, tiling_for, variant_for

ALIGNMENT: Final = 16
WARPS: Final = 4

_COMPILED: Final[dict[tuple[Any, ...], Any]] = {}


def _signed(key: int) -> int:
    return (key + (1 << 63)) % (1 << 64) - (1 << 63)


def run(variant: Variant, grid: int, stream: Any, arguments: tuple[Any, ...]) -> None:
    """Launch the compiled kernel directly: Triton's own look-up costs more than the launch."""
    kernel = page_copy.copy_kernel
    if not isinstance(kernel, triton.runtime.JITFunction):
        kernel[(grid,)](*arguments, *variant)
        return
    key = (variant, arguments[2].dtype, arguments[0].device.index)
    compiled = _COMPILED.get(key)
    if compiled is None:
        # The first launch compiles; it runs on the current stream, so make `stream` that.
        with torch.cuda.stream(stream):
            _COMPILED[key] = kernel[(grid,)](*arguments, *variant, num_warps=4)
        return
    compiled[(grid, 1, 1)](*arguments, *variant, stream=stream.cuda_stream)


@dataclass(frozen=True, slots=True)
class Work:
    """One launch, before its arguments are laid out."""

    plan: ChunkPlan
    peers: Sequence[HeadRange] | None
    pages: NDArray[np.int64] | torch.Tensor | None  # host, device, or not needed
    chunks: Sequence[torch.Tensor]
    digests: Sequence[torch.Tensor] | None
    from_pool: bool
    store: bool
    digest: int
    key: int
    report: Report | None
    launch: Launch


def _words(binding: Binding, work: Work) -> torch.Tensor:
    """Where the kernel reports: without a report, where nobody looks."""
    if work.report is None:
        return binding.sink
    if not isinstance(work.report, DeviceReport):
        raise TypeError("report: want one from new_report(layout) of this layout")
    return work.report.words


def launch_work(layout: KVLayout, work: Work) -> None:
    """Lay out the arguments of one launch and enqueue it."""
    plan, peers = work.plan, len(work.plan.peers)
    if plan.pages == 0:
        return
    binding = binding_of(layout)
    table, rows = bound_table(binding, layout, plan, work.peers)
    variant = variant_for(
        table, from_pool=work.from_pool, store=work.store, digest=work.digest,
        check=isinstance(work.pages, torch.Tensor), peers=peers > 1,
    )  # fmt: skip
    tiling = tiling_for(variant, table, sections=layout.entries * peers, pages=plan.pages)
    words = _words(binding, work)
    stream = work.launch.stream
    if rows.is_cuda and stream is None:
        stream = torch.cuda.current_stream(rows.device)
    if isinstance(work.report, DeviceReport):
        work.report.stream = stream
    with on_stream(work.launch.stream):
        pages, shifts = _numbers(binding, work, peers)
    run(
        variant, min(tiling.tiles, work.launch.ctas_max or tiling.tiles), stream,
        (
            rows,
            rows if shifts is None else shifts,
            rows if pages is None else pages,
            work.chunks[0] if work.chunks else binding.nothing,
            work.digests[0] if work.digests else rows,
            words, layout.pages, plan.pages, tiling.page_tiles, tiling.segments, peers,
            tiling.tiles, _signed(work.key),
        ),
    )  # fmt: skip


def _numbers(
    binding: Binding, work: Work, peers: int
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Page numbers and the places of the peers' chunks on the device, by at most one copy."""
    pieces = []
    if peers > 1:
        shifts = np.zeros((2, peers), np.int64)
        shifts[0] = [chunk.data_ptr() - work.chunks[0].data_ptr() for chunk in work.chunks]
        if work.digests:
            first = work.digests[0].data_ptr()
            shifts[1] = [(sums.data_ptr() - first) // 8 for sums in work.digests]
        pieces.append(shifts.ravel())
    on_device = work.pages is None or isinstance(work.pages, torch.Tensor)
    if not on_device:
        pieces.append(work.pages)
    if not pieces:
        return work.pages, None
    placed = binding.uplink.send(pieces)
    pages = work.pages if on_device else placed[2 * peers if peers > 1 else 0 :]
    return pages, placed[: 2 * peers] if peers > 1 else None


def _pages(layout: KVLayout, pages: Any, *, unique: bool) -> NDArray[np.int64] | torch.Tensor:
    """Page numbers: a tensor if they are on the device, else checked and in host memory."""
    if not isinstance(pages, torch.Tensor) or pages.device != torch_device(layout):
        return page_numbers(layout, pages, unique=unique)
    if (
        pages.ndim != 1
        or pages.dtype not in {torch.int32, torch.int64}
        or not pages.is_contiguous()
    ):
        raise ValueError(f"pages: want int32 or int64 [page], got {pages.dtype} {pages.shape}")
    check_count(layout, len(pages))
    return pages


def _tensor(
    layout: KVLayout, tensor: Any, name: str, kind: torch.dtype, length: int, alignment: int
) -> torch.Tensor:
    """Check a chunk or digests: device, type, contiguity, length in elements, alignment."""
    device = torch_device(layout)
    if not isinstance(tensor, torch.Tensor) or tensor.device != device:
        raise ValueError(f"{name}: want a tensor on {device}")
    if tensor.dtype != kind or tensor.ndim != 1 or not tensor.is_contiguous():
        raise ValueError(
            f"{name}: want contiguous {kind}, got {tensor.dtype} {tuple(tensor.shape)}"
        )
    if len(tensor) < length:
        raise ValueError(f"{name}: {length} elements needed, got {len(tensor)}")
    if tensor.data_ptr() % alignment:
        raise ValueError(f"{name}: its address must be a multiple of {alignment}")
    return tensor


def _chunks(layout: KVLayout, plan: ChunkPlan, chunks: Sequence[Any]) -> list[torch.Tensor]:
    check_one_each(plan, chunks, "chunks")
    return [
        _tensor(layout, chunk, f"chunks[{i}]", torch.uint8, bytes_needed(plan, peer), ALIGNMENT)
        for i, (chunk, peer) in enumerate(zip(chunks, plan.peers, strict=True))
    ]


def _digests(
    layout: KVLayout, plan: ChunkPlan, digests: Sequence[Any] | None, name: str
) -> list[torch.Tensor] | None:
    if digests is None:
        return None
    check_one_each(plan, digests, name)
    return [
        _tensor(layout, sums, f"{name}[{i}]", torch.int64, peer.entries * peer.pages, 8)
        for i, (sums, peer) in enumerate(zip(digests, plan.peers, strict=True))
    ]


def pack(
    layout: KVLayout,
    pages: Any,
    chunks: Sequence[Any],
    peers: Sequence[HeadRange] | None,
    *,
    digests: Sequence[Any] | None = None,
    key: int = 0,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> ChunkPlan:
    """`chunk.pack_slices` on the device."""
    index = _pages(layout, pages, unique=False)
    plan = plan_for(layout, len(index), peers=peers)
    launch_work(
        layout,
        Work(
            plan, peers, index, _chunks(layout, plan, chunks),
            _digests(layout, plan, digests, "digests"), from_pool=True, store=True,
            digest=0 if digests is None else 1, key=key, report=report, launch=launch,
        ),
    )  # fmt: skip
    return plan


def unpack(  # noqa: PLR0913 - as chunk.unpack_slices
    layout: KVLayout,
    pages: Any,
    chunks: Sequence[Any],
    peers: Sequence[HeadRange] | None,
    *,
    order: Order | None = None,
    expected: Sequence[Any] | None = None,
    key: int = 0,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> ChunkPlan:
    """`chunk.unpack_slices` on the device."""
    index = _pages(layout, pages, unique=True)
    plan = plan_for(layout, len(index), order=order, peers=peers)
    launch_work(
        layout,
        Work(
            plan, peers, index, _chunks(layout, plan, chunks),
            _digests(layout, plan, expected, "expected"), from_pool=False, store=True,
            digest=0 if expected is None else 2, key=key, report=report, launch=launch,
        ),
    )  # fmt: skip
    return plan


def digest_pages(
    layout: KVLayout,
    pages: Any,
    digests: Any,
    *,
    order: Order | None = None,
    key: int = 0,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> None:
    """`chunk.digest_pages` on the device."""
    index = _pages(layout, pages, unique=False)
    plan = plan_for(layout, len(index), order=order)
    launch_work(
        layout,
        Work(
            plan, None, index, (), _digests(layout, plan, [digests], "digests"), from_pool=True,
            store=False, digest=1, key=key, report=report, launch=launch,
        ),
    )  # fmt: skip


def digest_chunk(
    layout: KVLayout,
    plan: ChunkPlan,
    peer: HeadRange | None,
    chunk: Any,
    digests: Any,
    *,
    key: int = 0,
    launch: Launch = DEFAULT,
) -> None:
    """`chunk.digest_chunk` on the device."""
    launch_work(
        layout,
        Work(
            plan, None if peer is None else (peer,), None, _chunks(layout, plan, [chunk]),
            _digests(layout, plan, [digests], "digests"), from_pool=False, store=False,
            digest=1, key=key, report=None, launch=launch,
        ),
    )  # fmt: skip


def warmup(
    layout: KVLayout,
    *,
    peers: Sequence[Sequence[HeadRange]] = (),
    orders: Sequence[Order] = (),
    in_flight: int = IN_FLIGHT,
) -> int:
    """Make buffers, tables and kernels for whole pages and for each of `peers`.

    `peers` are the ways chunks will be sliced, as they will be given to pack and unpack;
    `orders` those of chunks, beside the layout's own, that will be unpacked. Each kernel is
    launched once, without work.
    """
    binding = binding_of(layout, in_flight)
    device = torch_device(layout)
    stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
    numbers = [torch.zeros(1, dtype=kind, device=device) for kind in (torch.int64, torch.int32)]
    made = set()
    ways: list[Sequence[HeadRange] | None] = [None, *peers]
    for way, order in product(ways, {layout.order, *orders}):
        plan = plan_for(layout, 1, order=order, peers=way)
        table, rows = bound_table(binding, layout, plan, way)
        for from_pool, digest, store, (check, pages) in product(
            (True, False), (0, 1, 2), (True, False),
            ((False, numbers[0]), (True, numbers[0]), (True, numbers[1])),
        ):  # fmt: skip
            # Packing compares nothing, and a launch without a store is there for a digest.
            if (digest == 2 and from_pool) or (digest == 1 and store and not from_pool):
                continue
            if not store and digest != 1:
                continue
            variant = variant_for(
                table, from_pool=from_pool, store=store, digest=digest, check=check,
                peers=len(plan.peers) > 1,
            )  # fmt: skip
            arguments = (rows, rows, pages, binding.nothing, rows, binding.sink)
            run(variant, 1, stream, (*arguments, layout.pages, 1, 1, 1, len(plan.peers), 0, 0))
            made.add((variant, pages.dtype))
    return len(made)
