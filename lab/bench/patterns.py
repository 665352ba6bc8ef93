"""Baselines in CUDA C and with copies of the driver: patterns of other programs, in our code.

Pages are given as pieces, int64 [piece, (source, target, bytes)]. A piece is a page of an entry, or
a token of it if heads are sliced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final
from zlib import adler32

import numpy as np
import torch
from numpy.typing import NDArray

from lab.bench import driver as bench_driver
from lab.bench.cases import Case, Operation
from lab.bench.driver import LeftOutError
from lab.bench.subject import Subject

SOURCE: Final = r"""
#ifndef KERNEL
#define KERNEL extern "C" __global__
#endif
typedef unsigned long long word;

/* A warp for each token of each entry (y), eight bytes a thread. */
KERNEL void warp_per_token(
    const word *pools, const INDEX *pages, char *chunk, word tokens, word page_tokens,
    word page_stride, word token_stride, word first, word piece, word to_pool)
{
    const word token = (blockIdx.x * (word)blockDim.x + threadIdx.x) / 32;
    if (token >= tokens)
        return;
    char *there = (char *)pools[blockIdx.y] + (word)pages[token / page_tokens] * page_stride
        + token % page_tokens * token_stride + first;
    char *here = chunk + (blockIdx.y * tokens + token) * piece;
    const char *source = to_pool ? here : there;
    char *target = to_pool ? there : here;
    for (word at = threadIdx.x % 32 * 8; at < piece; at += 256)
        __stcg((word *)(target + at), __ldg((const word *)(source + at)));
}

/* A block for each piece, 16 bytes a thread, or one byte where anything is not aligned. */
KERNEL void block_per_piece(const word *pieces)
{
    const word *mine = pieces + 3 * (word)blockIdx.x;
    const char *source = (const char *)mine[0];
    char *target = (char *)mine[1];
    const word length = mine[2];
    if (((mine[0] | mine[1] | length) & 15) == 0)
        for (word at = threadIdx.x * 16; at < length; at += blockDim.x * 16)
            *(ulonglong2 *)(target + at) = *(const ulonglong2 *)(source + at);
    else
        for (word at = threadIdx.x; at < length; at += blockDim.x)
            target[at] = source[at];
}

/* A thread for each page, which sums it from end to end: Adler-32, 16 bytes a load. */
KERNEL void thread_per_page(const char *chunk, word page_bytes, word pages, word *sums)
{
    const word page = blockIdx.x * (word)blockDim.x + threadIdx.x;
    if (page >= pages)
        return;
    const char *start = chunk + page * page_bytes;
    unsigned low = 1, high = 0;
    for (word at = 0; at < page_bytes; at += 16) {
        const ulonglong2 both = *(const ulonglong2 *)(start + at);
        for (int half = 0; half < 2; half++) {
            word bytes = half ? both.y : both.x;
            for (int byte = 0; byte < 8; byte++, bytes >>= 8) {
                low += (unsigned)(bytes & 255);
                high += low;
            }
        }
        /* After more than 5552 bytes the sums could overflow 32 bits. */
        if (at % 5552 == 5536 || at + 16 >= page_bytes) {
            low %= 65521;
            high %= 65521;
        }
    }
    sums[page] = (word)high << 16 | low;
}
"""

WARPS: Final = 8
THREADS: Final = 256
PIECE_BYTES_MAX: Final = 64 << 10
"""Bytes of one thread block; longer pieces are cut."""

EACH_MAX: Final = 4096
BATCH_MAX: Final = 100_000
"""The most copies, with a call for each, and in one batch; more would take too long."""

Calls = list[Callable[[], object]]


def pieces(subject: Subject, repeat: int) -> NDArray[np.int64]:
    """Every piece that a repetition moves, in the order of chunk, entry, and place in the chunk."""
    layout, plan = subject.layout, subject.plan
    (group,) = layout.groups
    geometry = group.geometry
    pages = subject.pages[repeat].cpu().numpy().astype(np.int64)
    found = []
    for chunk, peer in zip(subject.chunks[repeat], plan.peers, strict=True):
        (part,) = peer.parts
        whole = part.heads.count == geometry.shape.heads
        token = np.arange(1 if whole else part.tokens) * geometry.token_stride
        length = part.page_bytes // len(token)
        inside = (pages[:, None] * geometry.page_stride + token).reshape(-1)
        inside += part.heads.first * geometry.head_stride
        for entry, address in enumerate(group.addresses):
            there = address + inside
            start = chunk.data_ptr() + peer.offset(entry, 0)
            here = start + length * np.arange(len(there))
            found.append(np.stack((there, here, np.full(len(there), length)), axis=1))
    listed = np.concatenate(found)
    return listed[:, [1, 0, 2]] if subject.case.unpacks else listed


def joined(listed: NDArray[np.int64], entries: int) -> NDArray[np.int64]:
    """The pieces, with those joined that are consecutive at both ends, within each entry."""
    apart = (listed[1:, :2] != listed[:-1, :2] + listed[:-1, 2:]).any(axis=1)
    each = len(listed) // entries
    apart[each - 1 :: each] = True
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(apart) + 1))
    runs = listed[starts]
    runs[:, 2] = np.add.reduceat(listed[:, 2], starts)
    return runs


def cut(listed: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Pieces of at most `most` bytes."""
    counts = -(-listed[:, 2] // most)
    rows = np.repeat(listed, counts, axis=0)
    ends = np.cumsum(counts)
    start = (np.arange(ends[-1]) - np.repeat(ends - counts, counts)) * most
    rows[:, :2] += start[:, None]
    rows[:, 2] = np.minimum(rows[:, 2] - start, most)
    return rows


def _runs(subject: Subject, most: int) -> list[NDArray[np.int64]]:
    """The joined pieces of every repetition. Raises LeftOutError for more than `most`."""
    case = subject.case
    entries = case.entries * len(subject.plan.peers)
    found = []
    for repeat in range(len(subject.calls)):
        # Tokens of a slice are never consecutive, and listing them all takes long.
        sliced = case.peers is not None and entries * case.pages * case.page_tokens > most
        if not sliced:
            found.append(joined(pieces(subject, repeat), entries))
        if sliced or len(found[-1]) > most:
            raise LeftOutError(f"more than {most:,} copies")
    return found


def current() -> int:
    """The stream that torch enqueues on."""
    return int(torch.cuda.current_stream().cuda_stream)


def runtime() -> bench_driver.Runtime:
    """The CUDA runtime that torch has loaded."""
    return bench_driver.Runtime(bench_driver.loaded("libcudart.so"))


def kernels(case: Case) -> bench_driver.Kernels:
    """The compiled kernels of this module for a case."""
    return bench_driver.kernels(SOURCE, case.index_bits)


def copy_each(subject: Subject) -> Calls:
    """cudaMemcpyAsync for each run of pages of each entry."""
    driver = runtime()

    def call(runs: NDArray[np.int64]) -> None:
        driver.copy_each(runs, current())

    return [partial(call, runs) for runs in _runs(subject, EACH_MAX)]


def copy_batch(subject: Subject) -> Calls:
    """cudaMemcpyBatchAsync of all runs of pages of all entries."""
    driver = runtime()

    def call(batch: bench_driver.Batch) -> None:
        batch.run(current())

    return [partial(call, driver.batch(runs)) for runs in _runs(subject, BATCH_MAX)]


def warp_per_token(subject: Subject) -> Calls:
    """A launch for each peer, a warp for each token of each entry: eight bytes a thread."""
    case, (group,) = subject.case, subject.layout.groups
    geometry = group.geometry
    widths = [*group.addresses, case.row_bytes, geometry.page_stride, geometry.token_stride]
    if any(width % 8 for width in widths):
        raise LeftOutError("it moves 8 bytes at a time, and pools are not aligned to that")
    table = torch.tensor(group.addresses, device=subject.pages[0].device)
    program, tokens = kernels(case), case.pages * case.page_tokens
    grid = (-(-tokens // WARPS), case.entries)

    def call(repeat: int) -> None:
        pages = subject.pages[repeat].data_ptr()
        for chunk, peer in zip(subject.chunks[repeat], subject.plan.peers, strict=True):
            heads = peer.parts[0].heads
            program.launch(
                "warp_per_token", grid, 32 * WARPS, current(),
                table.data_ptr(), pages, chunk.data_ptr(), tokens, case.page_tokens,
                geometry.page_stride, geometry.token_stride,
                heads.first * geometry.head_stride, heads.count * case.row_bytes,
                int(case.unpacks),
            )  # fmt: skip

    return [partial(call, repeat) for repeat in range(len(subject.calls))]


def block_per_piece(subject: Subject) -> Calls:
    """One launch, a block for each page (each token of a slice) of each entry."""
    program, device = kernels(subject.case), subject.pages[0].device

    def call(table: torch.Tensor) -> None:
        program.launch("block_per_piece", (len(table), 1), THREADS, current(), table.data_ptr())

    tables = [
        torch.from_numpy(cut(pieces(subject, repeat), PIECE_BYTES_MAX)).to(device)
        for repeat in range(len(subject.calls))
    ]
    return [partial(call, table) for table in tables]


def thread_per_page(subject: Subject) -> Calls:
    """Adler-32 of every page of a chunk, with one thread for each page."""
    case = subject.case
    if case.page_bytes % 16:
        raise LeftOutError("it loads 16 bytes at a time, and pages are not a multiple of that")
    program, pages = kernels(case), case.entries * case.pages
    grid = (-(-pages // THREADS), 1)

    def call(chunk: torch.Tensor, sums: torch.Tensor) -> None:
        program.launch(
            "thread_per_page", grid, THREADS, current(),
            chunk.data_ptr(), case.page_bytes, pages, sums.data_ptr(),
        )  # fmt: skip

    both = zip(subject.chunks, subject.digests, strict=True)
    return [partial(call, chunk, sums) for (chunk,), (sums,) in both]


def adler_right(subject: Subject, repeat: int) -> bool:
    """Whether the sums of the first few pages, and of the last, are those of zlib."""
    case = subject.case
    pages = case.entries * case.pages
    rows = subject.chunks[repeat][0][: subject.plan.only.payload_bytes].reshape(pages, -1)
    for page in {0, 1 % pages, case.pages % pages, pages - 1}:
        told = int(subject.digests[repeat][0][page].item())
        if told != adler32(rows[page].cpu().numpy().tobytes()):
            return False
    return True


def moves(case: Case) -> bool:
    """Whether these patterns can do the case: plain copies of bytes, without digests."""
    return case.operation in {Operation.PACK, Operation.UNPACK}
