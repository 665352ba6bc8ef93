"""What others do, in our own code, timed beside ours: patterns, not their programs.

Each fills, or empties, the chunks of a subject, and is proved to before it is timed.
"""

# As in the package's own kernels: ruff and mypy do not know Triton's manner.
# ruff: noqa: N803
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
import triton
import triton.language as tl

from pdproto.cli.bench_cases import Operation
from pdproto.cli.bench_subject import Subject, require, same
from pdproto.kernels.chunk import digests_in, pack_slices

BLOCK: Final = 1024
COPIES_MAX: Final = 4096
"""Copies of one page each that are still worth waiting for."""

Calls = list[Callable[[], object]]


@triton.jit
def element_kernel(
    table_ptr, page_ptr, chunk_ptr, page_elements, elements,
    KIND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A gather element by element, its page looked up for each: narrow loads, wide stores."""
    entry = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < elements
    page = tl.load(page_ptr + place // page_elements, mask=inside, other=0).to(tl.int64)
    pool = tl.load(table_ptr + entry).to(tl.pointer_type(KIND))
    data = tl.load(pool + page * page_elements + place % page_elements, mask=inside)
    tl.store(chunk_ptr.to(tl.pointer_type(KIND)) + entry * elements + place, data, mask=inside)


def index_select(subject: Subject) -> Calls:
    """torch.index_select(out=) for one entry after the other: as many launches as entries."""

    def call(repeat: int) -> None:
        rows = _rows(subject, repeat)
        for entry, pool in enumerate(_words(subject)):
            torch.index_select(pool, 0, subject.pages[repeat], out=rows[entry])

    return _each(subject, call)


def indexed_and_joined(subject: Subject) -> Calls:
    """pool[pages] of every entry, then torch.cat: every byte is moved twice."""
    index = [pages.long() for pages in subject.pages]

    def call(repeat: int) -> None:
        taken = [pool[index[repeat]] for pool in _words(subject)]
        torch.cat(taken, out=_rows(subject, repeat).reshape(-1, taken[0].shape[1]))

    return _each(subject, call)


def page_by_page(subject: Subject) -> Calls:
    """A copy for each page of each entry, as the runtime's own copies would do it."""
    listed = [pages.tolist() for pages in subject.pages]

    def call(repeat: int) -> None:
        for out, pool in zip(_rows(subject, repeat), _words(subject), strict=True):
            for row, page in zip(out, listed[repeat], strict=True):
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
        for pool, rows in zip(_words(subject), _rows(subject, repeat), strict=True):
            pool.index_copy_(0, index[repeat], rows)

    return _each(subject, call)


def _words(subject: Subject) -> list[torch.Tensor]:
    """Every pool as int64 [page, word]."""
    return [pool.reshape(len(pool), -1).view(torch.int64) for pool in subject.layout.pools]


def _rows(subject: Subject, repeat: int) -> torch.Tensor:
    """The chunk of a repetition as int64 [entry, page, word]."""
    chunk = subject.chunks[repeat][0][: subject.plan.only.payload_bytes].view(torch.int64)
    return chunk.reshape(subject.case.entries, subject.case.pages, -1)


def _each(subject: Subject, call: Callable[[int], None]) -> Calls:
    return [partial(call, repeat) for repeat in range(len(subject.calls))]


def of(subject: Subject) -> dict[str, Calls]:
    """What else does what a case does, by name."""
    case = subject.case
    if case.peers is not None:
        return {"peer by peer": peer_by_peer(subject)} if case.operation is Operation.PACK else {}
    if case.operation is Operation.PACK:
        narrow = tl.int8 if case.row_bytes in {656, 1152} else tl.int16
        found = {
            "index_select per entry": index_select(subject),
            "index and join": indexed_and_joined(subject),
            "by element": by_element(subject, narrow),
        }
        if case.entries * case.pages <= COPIES_MAX:
            found["page by page"] = page_by_page(subject)
        return found
    if case.operation is Operation.DIGEST_PACK:
        return {"index_select, then sums": sums_apart(subject)}
    if case.operation is Operation.UNPACK:
        return {"index_copy per entry": index_copy(subject)}
    return {}


def prove(subject: Subject, name: str, calls: Calls) -> None:
    """Raise WrongResultError unless a baseline moves what it should, from a clean start."""
    packs = subject.case.operation is not Operation.UNPACK
    for repeat in (0, len(calls) - 1):
        for chunk in subject.chunks[repeat]:
            chunk.fill_(0xA5) if packs else chunk.random_(0, 256)
        calls[repeat]()
        require(same(subject, repeat), subject.case, f"{name} differs from the reference")


def by_element(subject: Subject, kind: Any = tl.int16) -> Calls:
    """One launch for all entries, two bytes (or one) at a time."""
    case = subject.case
    width = 2 if kind is tl.int16 else 1
    addresses = [pool.data_ptr() for pool in subject.layout.pools]
    table = torch.tensor(addresses, device=subject.pages[0].device)
    elements = case.pages * case.page_bytes // width
    grid = (case.entries, triton.cdiv(elements, BLOCK))

    def call(repeat: int) -> None:
        element_kernel[grid](
            table, subject.pages[repeat], subject.chunks[repeat][0],
            case.page_bytes // width, elements, KIND=kind, BLOCK=BLOCK,
        )  # fmt: skip

    return _each(subject, call)
