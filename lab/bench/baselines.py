"""Baselines: other ways to do the same work, in our own code, timed beside our kernels.

They follow patterns of other programs, and are not these programs. Each fills or empties the chunks
of a subject. Its result is checked before it is timed.
"""

# As in the package's own kernels: ruff and mypy do not know the conventions of Triton.
# ruff: noqa: N803
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import gcd
from typing import Any, Final

import torch
import triton
import triton.language as tl

from lab.bench import patterns, sglang
from lab.bench.cases import Case, Operation
from lab.bench.driver import LeftOutError
from lab.bench.subject import Subject, require, same
from pdproto.kernels.chunk import digests_in, pack_slices

BLOCK: Final = 1024
FLAT_BLOCK: Final = 2048
"""Words of 8 bytes: 16 KiB for each program, like the tiles of our kernels."""

GRID_MAX: Final = 65_535
"""Blocks of a launch, along any axis but the first."""

COPIES_MAX: Final = 4096
"""Copies of one page each; more would take too long."""

Calls = list[Callable[[], object]]
Right = Callable[[Subject, int], bool]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline. make: allocates its memory and returns its calls, or raises LeftOutError.

    graphed: False if a call waits for the GPU, or a CUDA graph may refuse it. right: a further
    check of its result.
    """

    make: Callable[[Subject], Calls]
    graphed: bool = True
    right: Right | None = None


@triton.jit
def element_kernel(
    table_ptr, page_ptr, chunk_ptr, page_elements, elements,
    KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A gather by element: it looks up the page for each element. Narrow loads, wide stores."""
    entry = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < elements
    page = tl.load(page_ptr + place // page_elements, mask=inside, other=0).to(tl.int64)
    pool = tl.load(table_ptr + entry).to(tl.pointer_type(KIND))
    data = tl.load(pool + page * page_elements + place % page_elements, mask=inside)
    tl.store(chunk_ptr.to(tl.pointer_type(KIND)) + entry * elements + place, data, mask=inside)


@triton.jit
def flat_kernel(source_ptr, target_ptr, words, BLOCK: tl.constexpr):
    """A copy of consecutive 8-byte words: the time of a copy in Triton without look-ups."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < words
    tl.store(target_ptr + place, tl.load(source_ptr + place, mask=inside), mask=inside)


def flat_copy(subject: Subject) -> Calls:
    """A copy of pages that are already packed: a bound for the speed of a pack in Triton."""
    sizes = [peer.payload_bytes for peer in subject.plan.peers]
    if any(size % 8 for size in sizes):
        raise LeftOutError("it moves 8 bytes at a time, and chunks are not a multiple of that")
    for repeat, chunks in enumerate(subject.chunks):
        pack_slices(subject.layout, subject.pages[repeat], chunks, subject.case.peers)
    packed = [[chunk.clone() for chunk in chunks] for chunks in subject.chunks]

    def call(repeat: int) -> None:
        for source, target, size in zip(packed[repeat], subject.chunks[repeat], sizes, strict=True):
            flat_kernel[(triton.cdiv(size // 8, FLAT_BLOCK),)](
                source.view(torch.int64), target.view(torch.int64), size // 8, BLOCK=FLAT_BLOCK
            )

    return _each(subject, call)


def index_select(subject: Subject) -> Calls:
    """torch.index_select(out=) for one entry after the other: as many launches as entries."""

    def call(repeat: int) -> None:
        for pool, rows in _pairs(subject, repeat):
            torch.index_select(pool, 0, subject.pages[repeat], out=rows)

    return _each(subject, call)


def gather(subject: Subject) -> Calls:
    """torch.gather(out=) for one entry after the other, as SGLang does it without Triton."""
    index = [pages.long() for pages in subject.pages]

    def call(repeat: int) -> None:
        for pool, rows in _pairs(subject, repeat):
            listed = index[repeat].reshape(-1, *[1] * (rows.dim() - 1)).expand_as(rows)
            torch.gather(pool, 0, listed, out=rows)

    return _each(subject, call)


def indexed_and_joined(subject: Subject) -> Calls:
    """pool[pages] of every entry, then torch.cat: every byte is moved twice."""
    index = [pages.long() for pages in subject.pages]

    def call(repeat: int) -> None:
        pools, rows = zip(*_pairs(subject, repeat), strict=True)
        taken = [pool[index[repeat]].ravel() for pool in pools]
        chunk = subject.chunks[repeat][0][: subject.plan.only.payload_bytes]
        torch.cat(taken, out=chunk.view(rows[0].dtype))

    return _each(subject, call)


def page_by_page(subject: Subject) -> Calls:
    """A copy for each page of each entry, by copies of the CUDA runtime."""
    if subject.case.entries * subject.case.pages > COPIES_MAX:
        raise LeftOutError(f"more than {COPIES_MAX:,} copies")
    listed = [pages.tolist() for pages in subject.pages]

    def call(repeat: int) -> None:
        for pool, rows in _pairs(subject, repeat):
            for row, page in zip(rows, listed[repeat], strict=True):
                row.copy_(pool[page])

    return _each(subject, call)


def peer_by_peer(subject: Subject) -> Calls:
    """The same kernel, but a launch for each peer."""
    peers = subject.case.peers or ()

    def call(repeat: int) -> None:
        for peer, chunk in zip(peers, subject.chunks[repeat], strict=True):
            pack_slices(subject.layout, subject.pages[repeat], [chunk], [peer])

    return _each(subject, call)


def sums_apart(subject: Subject) -> Calls:
    """index_select, then a sum and a positional sum of the words, in passes of their own."""
    packs = index_select(subject)
    position = torch.arange(subject.case.page_bytes // 8, device=subject.pages[0].device)

    def call(repeat: int) -> None:
        packs[repeat]()
        rows = _rows(subject, repeat)
        sums = rows.sum(2)
        sums += (rows * position).sum(2)
        digests_in(subject.plan.only, subject.chunks[repeat][0]).copy_(sums.ravel())

    return _each(subject, call)


def index_copy(subject: Subject) -> Calls:
    """Tensor.index_copy_ for one entry after the other."""
    index = [pages.long() for pages in subject.pages]

    def call(repeat: int) -> None:
        for pool, rows in _pairs(subject, repeat):
            pool.index_copy_(0, index[repeat], rows)

    return _each(subject, call)


def then_adler(moves: Callable[[Subject], Calls]) -> Callable[[Subject], Calls]:
    """A copy, followed by the sums of its chunk with one thread for each page."""

    def make(subject: Subject) -> Calls:
        pairs = list(zip(moves(subject), patterns.thread_per_page(subject), strict=True))

        def call(repeat: int) -> None:
            for part in pairs[repeat]:
                part()

        return _each(subject, call)

    return make


def sum_of_words(subject: Subject) -> Calls:
    """A sum of the words of each page: the time to read a chunk."""

    def call(repeat: int) -> None:
        rows = _rows(subject, repeat)
        torch.sum(rows, 2, out=subject.digests[repeat][0].reshape(rows.shape[:2]))

    return _each(subject, call)


def _words_right(subject: Subject, repeat: int) -> bool:
    rows = _rows(subject, repeat)[-1, -4:].cpu().numpy()
    told = subject.digests[repeat][0][-len(rows) :].cpu().numpy()
    return bool((rows.sum(axis=1) == told).all())


def _pairs(subject: Subject, repeat: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Every pool and its rows of a chunk, in the widest words that fit both.

    [page, word], or [page, token, word] where heads are sliced.
    """
    case, (group,) = subject.case, subject.layout.groups
    width = gcd(8, case.row_bytes, *group.addresses)
    kind = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[width]
    row = case.row_bytes // width
    pools = [pool.view(kind).flatten(2) for pool in subject.layout.pools]
    for chunk, peer in zip(subject.chunks[repeat], subject.plan.peers, strict=True):
        heads = peer.parts[0].heads
        words = slice(heads.first * row, (heads.first + heads.count) * row)
        payload = chunk[: peer.payload_bytes].view(kind)
        rows = payload.reshape(case.entries, case.pages, case.page_tokens, -1)
        for pool, out in zip(pools, rows, strict=True):
            if case.peers is None:
                yield pool.flatten(1), out.flatten(1)
            else:
                yield pool[:, :, words], out


def _rows(subject: Subject, repeat: int) -> torch.Tensor:
    """The chunk of a repetition as int64 [entry, page, word]."""
    chunk = subject.chunks[repeat][0][: subject.plan.only.payload_bytes].view(torch.int64)
    return chunk.reshape(subject.case.entries, subject.case.pages, -1)


def _each(subject: Subject, call: Callable[[int], None]) -> Calls:
    return [partial(call, repeat) for repeat in range(len(subject.calls))]


def of(case: Case) -> dict[str, Baseline]:
    """The baselines of a case, by name."""
    found: dict[str, Baseline] = {}
    if case.operation is Operation.PACK:
        found["a flat copy in Triton, of packed pages"] = Baseline(flat_copy)
        found["index_select per entry"] = Baseline(index_select)
        found["gather per entry"] = Baseline(gather)
        if case.peers is None:
            found["index and join"] = Baseline(indexed_and_joined)
            found["by element"] = Baseline(by_element)
            found["page by page"] = Baseline(page_by_page)
        elif len(case.peers) > 1:
            found["peer by peer"] = Baseline(peer_by_peer)
    if case.operation is Operation.UNPACK:
        found["index_copy per entry"] = Baseline(index_copy)
    if patterns.moves(case):
        found["a cudaMemcpyAsync per run"] = Baseline(patterns.copy_each, graphed=False)
        found["one cudaMemcpyBatchAsync"] = Baseline(patterns.copy_batch, graphed=False)
        found["CUDA C, 8 B, a warp per token"] = Baseline(patterns.warp_per_token)
        found["CUDA C, 16 B, a block per piece"] = Baseline(patterns.block_per_piece)
    if case.operation is Operation.PACK:
        found["SGLang's gather, its kernel"] = Baseline(sglang.kernel)
        found["SGLang's gather, as called"] = Baseline(sglang.call, graphed=False)
    if case.operation is Operation.DIGEST_PACK:
        found["index_select, then sums"] = Baseline(sums_apart)
        found["index_select, then CUDA C Adler-32, a thread per page"] = Baseline(
            then_adler(index_select), right=patterns.adler_right
        )
    if case.operation is Operation.VERIFY_UNPACK:
        found["index_copy, then CUDA C Adler-32, a thread per page"] = Baseline(
            then_adler(index_copy), right=patterns.adler_right
        )
    if case.operation is Operation.DIGEST_CHUNK:
        found["sum of words, which only reads"] = Baseline(sum_of_words, right=_words_right)
        found["CUDA C Adler-32, a thread per page"] = Baseline(
            patterns.thread_per_page, right=patterns.adler_right
        )
    return found


def prove(subject: Subject, name: str, calls: Calls, right: Right | None = None) -> None:
    """Raise WrongResultError if a baseline gives a wrong result, after clearing its outputs."""
    case = subject.case
    reads = case.operation is Operation.DIGEST_CHUNK
    for repeat in (0, len(calls) - 1):
        for chunk, sums in zip(subject.chunks[repeat], subject.digests[repeat], strict=True):
            sums.zero_()
            if not reads:
                chunk.random_(0, 256) if case.unpacks else chunk.fill_(0xA5)
        calls[repeat]()
        require(reads or same(subject, repeat), case, f"{name} differs from the reference")
        require(
            right is None or right(subject, repeat), case, f"the sums of {name} are not right"
        )


def by_element(subject: Subject) -> Calls:
    """One launch for all entries, two bytes at a time (one byte for the rows of a latent)."""
    case, (group,) = subject.case, subject.layout.groups
    width = 1 if case.row_bytes in {656, 1152} else 2
    elements = case.pages * case.page_bytes // width
    grid = (case.entries, triton.cdiv(elements, BLOCK))
    if grid[1] > GRID_MAX:
        raise LeftOutError(f"its grid has {grid[1]:,} blocks along y; {GRID_MAX:,} is the limit")
    kind: Any = {1: tl.int8, 2: tl.int16}[width]
    table = torch.tensor(group.addresses, device=subject.pages[0].device)

    def call(repeat: int) -> None:
        element_kernel[grid](
            table, subject.pages[repeat], subject.chunks[repeat][0],
            case.page_bytes // width, elements, KIND=kind, BLOCK=BLOCK,
        )  # fmt: skip

    return _each(subject, call)
