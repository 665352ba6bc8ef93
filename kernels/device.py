"""The GPU path: one launch a chunk, on tables and buffers made before the first chunk.

With TRITON_INTERPRET=1 and a layout on the device "interpreter", the same code runs on CPU
tensors in Triton's interpreter, which is how it is tested without a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pdproto.kernels import page_copy
from pdproto.kernels.arguments import (
    DEFAULT,
    IN_FLIGHT,
    Launch,
    Numbers,
    check_apart,
    write_numbers,
)
from pdproto.kernels.device_arguments import chunk_tensors, digest_tensors, page_tensor
from pdproto.kernels.device_launch import device_numbers, device_words, run, stream_for
from pdproto.kernels.device_memory import Binding, binding_of, bound_table, torch_device
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPlan, HeadRange, plan_for
from pdproto.kernels.report import Report
from pdproto.kernels.tiling import Variant, tiling_for, variant_for

WARPS: Final = 4


def _signed(key: int) -> int:
    """A key from 0 to 2**64 - 1 as the signed integer of the same bits."""
    return key - ((key >> 63) << 64)


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


def check_memory(layout: KVLayout, work: Work) -> None:
    """Refuse chunks and digests that lie in a pool or, if they are written, in each other."""
    writes = work.from_pool or not work.store  # beside the pools
    name = "digests" if writes else "expected"
    check_apart(layout, work.plan, work.chunks, work.digests or (), name, written=writes)


class Arranged(NamedTuple):
    """The arguments of a launch, except page numbers, places of chunks, and the key."""

    binding: Binding
    rows: torch.Tensor
    variant: Variant
    tiles: int
    behind: tuple[Any, ...]  # the page numbers, up to the key


def arrange(layout: KVLayout, work: Work) -> Arranged:
    """Lay out the arguments of one launch."""
    plan, peers = work.plan, len(work.plan.peers)
    binding = binding_of(layout)
    table, rows = bound_table(binding, layout, plan, work.peers)
    variant = variant_for(
        table, from_pool=work.from_pool, store=work.store, digest=work.digest,
        check=isinstance(work.pages, torch.Tensor), peers=peers > 1,
    )  # fmt: skip
    tiling = tiling_for(variant, table, sections=layout.entries * peers, pages=plan.pages)
    behind = (
        work.chunks[0] if work.chunks else binding.nothing,
        work.digests[0] if work.digests else rows,
        device_words(binding, work.report), layout.pages, plan.pages, tiling.page_tiles,
        tiling.segments, peers,
    )  # fmt: skip
    return Arranged(binding, rows, variant, tiling.tiles, behind)


def run_copy(variant: Variant, grid: int, stream: Any, arguments: tuple[Any, ...]) -> None:
    """Launch the copy kernel."""
    run(page_copy.copy_kernel, variant, grid, stream, arguments, warps=WARPS, pages=2)


def launch_work(layout: KVLayout, work: Work) -> None:
    """Lay out the arguments of one launch and enqueue it."""
    check_memory(layout, work)
    if work.plan.pages == 0:
        return
    binding, rows, variant, tiles, behind = arrange(layout, work)
    stream = stream_for(rows, work.launch, work.report)
    grid = min(tiles, work.launch.ctas_max or tiles)
    key = _signed(work.key)
    pages, places, turn = device_numbers(
        binding, work.pages, work.chunks, work.digests, work.launch
    )
    # Nothing may fail between sending the numbers and the launch that ends their turn.
    try:
        run_copy(variant, grid, stream, (rows, places, pages, *behind, tiles, key))
    finally:
        if turn is not None:
            binding.uplink.launched(turn, stream)


class PreparedLaunch:
    """See prepared.Prepared. The work has page numbers of host memory; `numbers` take their place.

    Do not use it while a graph is captured: a replay would read later numbers. Nothing checks that.
    """

    def __init__(self, layout: KVLayout, numbers: Numbers, work: Work) -> None:
        self._layout: Final = layout
        self._pinned: Final = numbers.host
        self._host: Final[NDArray[np.int64]] = numbers.host.numpy()
        self._placed: Final = numbers.placed
        self._unique: Final = not work.from_pool
        check_memory(layout, work)
        self._report: Final = work.report
        self._arranged: Final = arrange(layout, work)

    def tell(self, pages: Any) -> None:
        """See Prepared."""
        write_numbers(self._host, self._layout, pages, unique=self._unique)

    def enqueue(self, key: int, launch: Launch = DEFAULT) -> None:
        """See Prepared."""
        self._placed.copy_(self._pinned, non_blocking=True)
        self._launch(self._arranged.tiles, key, launch)

    def warm(self, launch: Launch = DEFAULT) -> None:
        """See Prepared."""
        self._launch(0, 0, launch)

    def _launch(self, tiles: int, key: int, launch: Launch) -> None:
        binding, rows, variant, _, behind = self._arranged
        stream = stream_for(rows, launch, self._report)
        grid = min(tiles, launch.ctas_max or tiles) or 1
        arguments = (rows, binding.nothing_listed, self._placed, *behind, tiles, _signed(key))
        run_copy(variant, grid, stream, arguments)


def prepared(
    layout: KVLayout, numbers: Numbers, chunk: torch.Tensor, digests: torch.Tensor,
    report: Report | None = None,
) -> PreparedLaunch:
    """Prepare a pack with digests; or, with a report, an unpack that compares them."""
    packs = report is None
    plan = plan_for(layout, numbers.host.shape[0])
    name = "digests" if packs else "expected"
    work = Work(
        plan, None, None, chunk_tensors(layout, plan, [chunk]),
        digest_tensors(layout, plan, [digests], name), from_pool=packs, store=True,
        digest=1 if packs else 2, key=0, report=report, launch=DEFAULT,
    )  # fmt: skip
    return PreparedLaunch(layout, numbers, work)


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
    index = page_tensor(layout, pages, unique=False)
    plan = plan_for(layout, index.shape[0], peers=peers)
    launch_work(
        layout,
        Work(
            plan, peers, index, chunk_tensors(layout, plan, chunks),
            digest_tensors(layout, plan, digests, "digests"), from_pool=True, store=True,
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
    index = page_tensor(layout, pages, unique=True)
    plan = plan_for(layout, index.shape[0], order=order, peers=peers)
    launch_work(
        layout,
        Work(
            plan, peers, index, chunk_tensors(layout, plan, chunks),
            digest_tensors(layout, plan, expected, "expected"), from_pool=False, store=True,
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
    index = page_tensor(layout, pages, unique=False)
    plan = plan_for(layout, index.shape[0], order=order)
    launch_work(
        layout,
        Work(
            plan, None, index, (), digest_tensors(layout, plan, [digests], "digests"),
            from_pool=True, store=False, digest=1, key=key, report=report, launch=launch,
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
            plan, None if peer is None else (peer,), None, chunk_tensors(layout, plan, [chunk]),
            digest_tensors(layout, plan, [digests], "digests"), from_pool=False, store=False,
            digest=1, key=key, report=None, launch=launch,
        ),
    )  # fmt: skip


def warmup(
    layout: KVLayout,
    *,
    peers: Sequence[Sequence[HeadRange]] = (),
    orders: Sequence[Order] = (),
    in_flight: int | None = None,
) -> int:
    """Make buffers, tables and kernels for whole pages and for each of `peers`.

    Arguments are those of `chunk.warmup`. Each kernel is launched once, without work.
    """
    binding = binding_of(layout, in_flight or IN_FLIGHT)
    binding.uplink.provide(in_flight or 0)
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
            idle = (*arguments, layout.pages, 1, 1, 1, len(plan.peers), 0, 0)
            run_copy(variant, 1, stream, idle)
            made.add((variant, pages.dtype))
    return len(made)
