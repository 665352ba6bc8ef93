"""Pack pages of a KV cache into contiguous chunks, and back: the calls users make.

    layout = register(pools)                     # once
    warmup(layout)                               # once, on a GPU: compiles what may be needed
    pack_chunk(layout, pages, chunk)             # any thread, any number of times
    unpack_chunk(layout, pages, chunk)

Every call checks its arguments first and raises ValueError or TypeError, naming the argument,
before any byte moves. A chunk and its digests may overlap neither a pool nor each other. With pools
on a CPU a call returns when the copy is done. With pools on a GPU it enqueues one kernel, and at
most one copy of page numbers, on the stream that it is given or on the current one. It waits for
nothing and allocates nothing. The results are there when the stream has run the kernel.

Pages are page numbers, int32 or int64, in host memory (checked before the call does anything)
or on the pools' GPU (checked by the kernel, which never touches memory outside the pools: a bad
page number is packed as zeros, unpacked nowhere, and its position is put in the report).
Chunks are uint8 [byte] on the pools' device, or in pinned host memory, where the kernel reads
and writes them over the link; their layout is `plan.PeerPlan`.

A copy can be part of a CUDA graph, after a `warmup` that covers it, if its page numbers are on
the GPU: each replay reads their values of that moment. Their count, the addresses of chunks and
digests, and the key stay as captured. Page numbers in host memory are sent through a ring of memory
that later chunks use again, and so are the places of several peers' chunks: a replay would read
those of a later chunk. Both raise ValueError while a graph is captured. Keep page numbers in a
tensor on the GPU, and call once for each peer. Fetch and read a report outside of the capture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels import host
from pdproto.kernels.arguments import (
    DEFAULT,
    Launch,
    as_bytes,
    check_apart,
    check_disjoint,
    host_chunks,
    host_digests,
    host_report,
    key_number,
    page_numbers,
)
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.plan import ChunkPlan, HeadRange, PeerPlan, plan_chunk, plan_for
from pdproto.kernels.registration import entries_of, register
from pdproto.kernels.report import HostReport, Outcome, Report
from pdproto.kernels.split_pages import SplitPages, split_pages

__all__ = [
    "ChunkPlan", "HeadRange", "KVLayout", "Launch", "Order", "Outcome", "PeerPlan", "Report",
    "SplitPages", "coalesce_runs", "digest_chunk", "digest_pages", "digests_in", "entries_of",
    "new_report", "pack_chunk", "pack_slices", "plan_chunk", "plan_for", "register", "split_pages",
    "unpack_chunk", "unpack_slices", "warmup",
]  # fmt: skip


def new_report(layout: KVLayout) -> Report:
    """A clean report for chunks of `layout`, on its device. Allocate it once and keep it."""
    if layout.device == "cpu":
        return HostReport(layout.chunk_pages_max)
    from pdproto.kernels.device_memory import DeviceReport  # noqa: PLC0415 - needs torch

    return DeviceReport(layout.chunk_pages_max, layout.device)


def digests_in(peer: PeerPlan, chunk: Any) -> Any:
    """View the digest region at the end of a chunk, 64-bit [entries * pages].

    To send digests inside the chunk, give it as `digests` to pack and as `expected` to unpack.
    """
    if hasattr(chunk, "data_ptr"):
        from torch import int64  # noqa: PLC0415 - only where a tensor was given

        return chunk[peer.digest_offset : peer.bytes].view(int64)
    data = as_bytes(chunk, "chunk", peer.bytes, written=False)
    return data[peer.digest_offset : peer.bytes].view("<u8")


def pack_chunk(
    layout: KVLayout,
    pages: Any,
    chunk: Any,
    *,
    digests: Any = None,
    key: int = 0,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> ChunkPlan:
    """Copy `pages` of every pool into `chunk`, in one launch, byte for byte.

    pages: [page], may repeat. chunk: uint8, at least `plan.only.payload_bytes`, and on a GPU at
    an address that is a multiple of 16. digests: 64-bit [entries * pages], filled with the
    digest of every page as stored in the chunk; see `digest` for it and for `key`. Returns the
    plan, which says where everything is.
    """
    return pack_slices(
        layout, pages, [chunk], None, digests=None if digests is None else [digests],
        key=key, report=report, launch=launch,
    )  # fmt: skip


def unpack_chunk(
    layout: KVLayout,
    pages: Any,
    chunk: Any,
    *,
    order: Order | None = None,
    expected: Any = None,
    key: int = 0,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> ChunkPlan:
    """Copy `chunk` into `pages` of every pool, in one launch, byte for byte.

    pages: [page], all different. order: of the chunk (default: the layout's own).
    expected: 64-bit [entries * pages], the digests that the stored bytes must have; pages that
    differ are marked in `report`. The data is stored in either case, so use the pages only after
    a clean report. Returns the plan.
    """
    return unpack_slices(
        layout, pages, [chunk], None, order=order,
        expected=None if expected is None else [expected],
        key=key, report=report, launch=launch,
    )  # fmt: skip


def pack_slices(
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
    """Split `pages` by heads into one chunk per peer, in one launch: unequal tensor parallelism.

    peers: the heads that each gets. Counts may differ, and several peers may get the same heads.
    An entry with a single head (a latent) goes to every peer whole. All else is as in
    `pack_chunk`, once per peer.
    """
    key = key_number(key)
    if layout.device != "cpu":
        from pdproto.kernels import device  # noqa: PLC0415 - needs torch and triton

        return device.pack(
            layout, pages, chunks, peers, digests=digests, key=key,
            report=report, launch=launch,
        )  # fmt: skip
    index = page_numbers(layout, pages)
    plan = plan_for(layout, index.size, peers=peers)
    targets = host_chunks(plan, chunks, written=True)
    sums = host_digests(plan, digests, "digests")
    check_apart(layout, plan, targets, sums, "digests", written=True)
    if index.size:
        host.pack(layout, plan, index, targets, sums, key, launch.threads)
    return plan


def unpack_slices(  # noqa: PLR0913 - all but four by name, with defaults
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
    """Merge one chunk per writer into `pages`, in one launch; or the chunk of one writer alone.

    peers: the heads that each chunk holds, without overlap. All else is as in `unpack_chunk`.
    """
    key = key_number(key)
    check_disjoint(layout, peers)
    if expected is not None and report is None:
        raise ValueError("report: needed with expected, or a mismatch would go unseen")
    if layout.device != "cpu":
        from pdproto.kernels import device  # noqa: PLC0415 - needs torch and triton

        return device.unpack(
            layout, pages, chunks, peers, order=order, expected=expected, key=key,
            report=report, launch=launch,
        )  # fmt: skip
    index = page_numbers(layout, pages, unique=True)
    plan = plan_for(layout, index.size, order=order, peers=peers)
    sources = host_chunks(plan, chunks, written=False)
    sums = host_digests(plan, expected, "expected")
    check_apart(layout, plan, sources, sums, "expected", written=False)
    found = host_report(layout, report)
    if index.size:
        host.unpack(layout, plan, index, sources, sums, found, key, launch.threads)
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
    """Digest `pages` in the pools, as if packed whole, into `digests`, 64-bit [entries * pages]."""
    key = key_number(key)
    if layout.device != "cpu":
        from pdproto.kernels import device  # noqa: PLC0415 - needs torch and triton

        device.digest_pages(
            layout, pages, digests, order=order, key=key, report=report, launch=launch
        )
        return
    index = page_numbers(layout, pages)
    plan = plan_for(layout, index.size, order=order)
    (sums,) = host_digests(plan, [digests], "digests")
    check_apart(layout, plan, (), [sums], "digests", written=True)
    if index.size and sums is not None:
        host.digest_pages(layout, plan, index, sums, key)


def digest_chunk(
    layout: KVLayout,
    pages: int,
    chunk: Any,
    digests: Any,
    *,
    order: Order | None = None,
    peer: HeadRange | None = None,
    key: int = 0,
    launch: Launch = DEFAULT,
) -> None:
    """Digest a chunk of `pages` pages before any of it is stored: 64-bit [entries * pages]."""
    key = key_number(key)
    plan = plan_for(layout, pages, order=order, peers=None if peer is None else (peer,))
    if layout.device != "cpu":
        from pdproto.kernels import device  # noqa: PLC0415 - needs torch and triton

        device.digest_chunk(layout, plan, peer, chunk, digests, key=key, launch=launch)
        return
    (source,) = host_chunks(plan, [chunk], written=False)
    (sums,) = host_digests(plan, [digests], "digests")
    check_apart(layout, plan, [source], [sums], "digests", written=True)
    if sums is not None:
        host.digest_chunk(plan.only, source, sums, key)


def warmup(
    layout: KVLayout,
    *,
    peers: Sequence[Sequence[HeadRange]] = (),
    orders: Sequence[Order] = (),
    in_flight: int | None = None,
) -> int:
    """Compile and load what copies of `layout` will need; returns how many kernels.

    Call it before serving: afterwards no call compiles or allocates. Kernels for whole pages are
    always included. On a CPU there is nothing to do.

    peers: the ways of slicing, as they will be given to pack and unpack. orders: of chunks that
    will be unpacked, besides the layout's own. in_flight: how many chunks with page numbers from
    host memory may wait for a slow stream (default: 32). Their numbers have to fit a ring of pinned
    memory of 4 MiB, or of two of the largest chunk (`chunk_pages_max`). One chunk more raises
    BlockingIOError. A later call can raise the number while copies run, and cannot lower it.
    """
    if in_flight is not None and in_flight < 1:
        raise ValueError(f"in_flight: want at least 1, got {in_flight}")
    if layout.device == "cpu":
        return 0
    from pdproto.kernels import device  # noqa: PLC0415 - needs torch and triton

    return device.warmup(layout, peers=peers, orders=orders, in_flight=in_flight)


def coalesce_runs(pages: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
    """Return int64 [run, 3]: the first page, its position in `pages`, and how many follow.

    `pages[position + k] == first + k` for k below the length, and runs are as long as possible:
    [7, 8, 9, 3] is [[7, 0, 3], [3, 3, 1]]. Raises ValueError unless `pages` is one-dimensional.
    """
    listed = np.asarray(pages, dtype=np.int64)
    if listed.ndim != 1:
        raise ValueError(f"pages: want one axis, got shape {listed.shape}")
    if listed.size == 0:
        return np.empty((0, 3), np.int64)
    breaks = np.flatnonzero(np.diff(listed) != 1) + 1
    starts = np.concatenate((np.zeros(1, np.int64), breaks))
    lengths = np.diff(np.append(starts, listed.size))
    return np.stack((listed[starts], starts, lengths), axis=1)
