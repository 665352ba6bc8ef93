"""Checks of arguments before any byte moves. Every error names the argument."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels.digest import KEY_MASK
from pdproto.kernels.layout import KVLayout
from pdproto.kernels.overlap import check_spans, span_of
from pdproto.kernels.plan import ChunkPlan, HeadRange, PeerPlan
from pdproto.kernels.report import HostReport, Report, report_words

FEW_PAGES: Final = 64
"""Up to this many page numbers, a Python loop is faster than a call of numpy."""


ALIGNMENT: Final = 16
"""Of a chunk on a device, in bytes: the widest access."""

IN_FLIGHT: Final = 32
"""Default of chunks whose page numbers may be on the way to a device at one time."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a copy is run.

    On a GPU: `stream` is a torch.cuda.Stream (default: the current one). `ctas_max` bounds the
    thread blocks of the kernel, so that a compute kernel beside it keeps its multiprocessors.
    On a CPU: `threads` is the number of threads, with that of the caller, that copy a chunk of
    1 MiB or more. Each copies whole entries. Casts, and digests without a copy, use one thread.
    """

    stream: Any = None
    ctas_max: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"launch: threads must be at least 1, got {self.threads}")
        if self.ctas_max is not None and self.ctas_max < 1:
            raise ValueError(f"launch: ctas_max must be at least 1, got {self.ctas_max}")


DEFAULT: Final = Launch()


@dataclass(frozen=True, slots=True)
class Numbers:
    """Memory for the page numbers of one chunk, torch.int64 [page].

    host: where they are written, pinned. placed: on the device, where they are sent to. Neither may
    be used again before the kernel that reads them has ended.
    """

    host: Any
    placed: Any


def key_number(key: Any) -> int:
    """`key` modulo 2**64. Raises TypeError unless it is an integer of Python or numpy."""
    try:
        return operator.index(key) & KEY_MASK
    except TypeError:
        raise TypeError(f"key: want an integer, got {type(key).__name__}") from None


def in_host_memory(array: Any, name: str) -> Any:
    """`array` as numpy sees it. Raises TypeError for a tensor that numpy cannot read."""
    if not hasattr(array, "data_ptr"):
        return array
    try:
        return array.numpy()
    except TypeError as error:  # it is on a GPU, or numpy lacks its type
        raise TypeError(f"{name}: want host memory that numpy can read: {error}") from None


def page_numbers(layout: KVLayout, pages: Any, *, unique: bool = False) -> NDArray[np.int64]:
    """Page numbers from host memory as int64 [page], each checked to be a page of `layout`."""
    listed = np.asarray(in_host_memory(pages, "pages"))
    if listed.size == 0 and listed.ndim == 1:
        return np.empty(0, np.int64)
    if listed.ndim != 1 or listed.dtype.char not in "ilq":
        raise ValueError(f"pages: want int32 or int64 [page], got {listed.dtype} {listed.shape}")
    check_count(layout, listed.size)
    # For a few numbers Python is faster than two reductions.
    told = listed.tolist() if listed.size <= FEW_PAGES else (listed.min(), listed.max())
    if min(told) < 0 or max(told) >= layout.pages:
        position = int(np.flatnonzero((listed < 0) | (listed >= layout.pages))[0])
        raise ValueError(f"pages[{position}]: page {listed[position]} does not exist: the pools "
                         f"have {layout.pages}")
    if unique and len(set(told)) < listed.size:
        check_unique(listed)
    return listed.astype(np.int64, copy=False)


def write_numbers(
    into: NDArray[np.int64], layout: KVLayout, pages: Any, *, unique: bool
) -> None:
    """Write down checked page numbers. Raises ValueError; then `into` is as it was."""
    listed = page_numbers(layout, pages, unique=unique)
    if listed.size != into.size:
        raise ValueError(f"pages: the copy was prepared for {into.size}, got {listed.size}")
    into[:] = listed


def check_count(layout: KVLayout, pages: int) -> None:
    """Refuse a chunk of more pages than the layout was registered for."""
    if pages > layout.chunk_pages_max:
        raise ValueError(
            f"pages: {pages} in one chunk, the layout's chunk_pages_max is {layout.chunk_pages_max}"
        )


def check_unique(listed: NDArray[np.integer]) -> None:
    """Refuse a page that is listed twice: either of the two writes could be the last."""
    ordered = np.sort(listed)
    if (ordered[1:] != ordered[:-1]).all():
        return
    numbers, counts = np.unique(listed, return_counts=True)
    raise ValueError(f"pages: page {numbers[counts > 1][0]} is written more than once")


def check_disjoint(layout: KVLayout, peers: Sequence[HeadRange] | None) -> None:
    """Refuse writers that would write the same head."""
    if peers is None or len(peers) < 2:
        return
    if any(shape.heads == 1 for _, shape in layout.shapes):
        raise ValueError("peers: an entry with a single head has one writer")
    ordered = sorted(peers, key=lambda peer: peer.first)
    for lower, upper in pairwise(ordered):
        if lower.first + lower.count > upper.first:
            raise ValueError(f"peers: head {upper.first} is written more than once")


def bytes_needed(plan: ChunkPlan, peer: PeerPlan) -> int:
    """Bytes of a chunk without its digests: they may lie elsewhere."""
    return peer.payload_bytes if plan.scale is None else peer.scale_offset + 4 * peer.scales


def check_one_each(plan: ChunkPlan, given: Sequence[Any], name: str) -> None:
    if len(given) != len(plan.peers):
        raise ValueError(f"{name}: want one per peer, {len(plan.peers)}, got {len(given)}")


def check_apart(
    layout: KVLayout, plan: ChunkPlan, chunks: Sequence[Any], digests: Sequence[Any], name: str,
    *, written: bool,
) -> None:  # fmt: skip
    """Refuse chunks and digests, named `name`, that lie in a pool; or, if `written`, in each other.

    Each is a contiguous array or tensor that has been checked, or None.
    """
    spans = [
        span_of(chunk, bytes_needed(plan, peer), f"chunks[{index}]")
        for index, (chunk, peer) in enumerate(zip(chunks, plan.peers, strict=False))
    ]
    spans += [
        span_of(sums, 8 * peer.entries * peer.pages, f"{name}[{index}]")
        for index, (sums, peer) in enumerate(zip(digests, plan.peers, strict=False))
        if sums is not None
    ]
    check_spans(layout, spans, written=written)


def as_bytes(buffer: Any, name: str, needed: int, *, written: bool) -> NDArray[np.uint8]:
    """View a numpy array, CPU tensor or any buffer as uint8 [byte]; ValueError if too small."""
    buffer = in_host_memory(buffer, name)
    data = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
    if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
        raise ValueError(f"{name}: want contiguous uint8 [byte], got {data.dtype} {data.shape}")
    if data.size < needed:
        raise ValueError(f"{name}: {needed} bytes needed, got {data.size}")
    if written and not data.flags.writeable:
        raise ValueError(f"{name}: read-only memory")
    return data


def host_chunks(
    plan: ChunkPlan, chunks: Sequence[Any], *, written: bool
) -> list[NDArray[np.uint8]]:
    """One uint8 view per peer, each long enough."""
    check_one_each(plan, chunks, "chunks")
    return [
        as_bytes(chunk, f"chunks[{index}]", bytes_needed(plan, peer), written=written)
        for index, (chunk, peer) in enumerate(zip(chunks, plan.peers, strict=True))
    ]


def host_digests(
    plan: ChunkPlan, digests: Sequence[Any] | None, name: str
) -> list[NDArray[np.uint64] | None]:
    """One uint64 [entries * pages] view per peer, or None for every peer."""
    if digests is None:
        return [None] * len(plan.peers)
    check_one_each(plan, digests, name)
    views: list[NDArray[np.uint64] | None] = []
    for index, (sums, peer) in enumerate(zip(digests, plan.peers, strict=True)):
        array = in_host_memory(sums, f"{name}[{index}]")
        if not isinstance(array, np.ndarray) or array.dtype.char not in "lLqQ":
            raise ValueError(f"{name}[{index}]: want a 64-bit integer array")
        if array.size != peer.entries * peer.pages or not array.flags.c_contiguous:
            raise ValueError(
                f"{name}[{index}]: want {peer.entries} * {peer.pages} contiguous digests,"
                f" got shape {array.shape}"
            )
        views.append(array.reshape(-1).view(np.uint64))
    return views


def check_report(words: int, needed: int) -> None:
    """Refuse a report with too few bits: a kernel would write past its end."""
    if words < needed:
        raise ValueError(
            f"report: {words} words, {needed} needed: it is of a layout with shorter chunks"
        )


def host_report(layout: KVLayout, report: Report | None) -> HostReport | None:
    """The report, which must lie where the pools do and have a bit for every page."""
    if report is None:
        return None
    if not isinstance(report, HostReport):
        raise TypeError("report: want one from new_report(layout) of this layout")
    check_report(len(report.words), report_words(layout.chunk_pages_max))
    return report
