"""What others do, in our own code, timed beside ours: patterns, not their programs."""

# As in the package's own kernels: ruff and mypy do not know Triton's manner.
# ruff: noqa: N803
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
import triton
import triton.language as tl

from pdproto.cli.bench_subject import Subject

BLOCK: Final = 1024


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


def index_select(subject: Subject) -> list[Callable[[], object]]:
    """torch.index_select(out=) for one entry after the other: as many launches as entries."""
    case = subject.case
    pools = [pool.reshape(len(pool), -1).view(torch.int64) for pool in subject.layout.pools]

    def call(repeat: int) -> None:
        chunk = subject.chunks[repeat][0][: subject.plan.only.payload_bytes].view(torch.int64)
        rows = chunk.reshape(case.entries, case.pages, -1)
        for entry, pool in enumerate(pools):
            torch.index_select(pool, 0, subject.pages[repeat], out=rows[entry])

    return [partial(call, repeat) for repeat in range(len(subject.calls))]


def by_element(subject: Subject, kind: Any = tl.int16) -> list[Callable[[], object]]:
    """One launch for all entries, two bytes (or one) at a time."""
    case = subject.case
    width = 2 if kind is tl.int16 else 1
    table = torch.tensor([pool.data_ptr() for pool in subject.layout.pools], device="cuda")
    elements = case.pages * case.page_bytes // width
    grid = (case.entries, triton.cdiv(elements, BLOCK))

    def call(repeat: int) -> None:
        element_kernel[grid](
            table, subject.pages[repeat], subject.chunks[repeat][0],
            case.page_bytes // width, elements, KIND=kind, BLOCK=BLOCK,
        )  # fmt: skip

    return [partial(call, repeat) for repeat in range(len(subject.calls))]
