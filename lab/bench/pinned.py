"""Chunks in pinned host memory: packed and unpacked there by the kernel, or by the copy engine.

Beside both, in the same rounds, a plain copy of the same bytes between pinned memory and the GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from lab.bench import timing
from lab.bench.cases import Case, Operation, Way
from lab.bench.report import Results, Row
from lab.bench.subject import Subject, check, make, require, same
from pdproto.kernels.chunk import Pinned, digests_in, pack_slices, unpack_slices

COLD_BYTES: Final = 256 << 20
"""Pinned bytes between two uses of the same memory: pinning takes long, and no cache has so many.
"""

LAUNCHES_MAX: Final = 64
ENOUGH_BYTES: Final = 64 << 20
"""Launches of a round, at most, and their payload where there are fewer: about 1.2 ms."""


@dataclass(frozen=True, slots=True)
class Hosted:
    """A case with its host memory. subject: its chunks are what the copy engine reads or writes.

    memory: the chunk of each repetition. calls: one for each repetition, by way. copies: of the
    payload, one for each repetition, between other pinned memory and other memory of the GPU.
    """

    subject: Subject
    memory: list[torch.Tensor]
    calls: dict[Way, list[Callable[[], object]]]
    copies: list[Callable[[], object]]


def _digests(subject: Subject, memory: torch.Tensor) -> list[Any] | None:
    """The digests of a chunk in host memory; None where the case has none."""
    if subject.case.operation in {Operation.PACK, Operation.UNPACK}:
        return None
    return [digests_in(subject.plan.only, memory)]


def _call(subject: Subject, repeat: int, memory: torch.Tensor, way: Way) -> None:
    layout, pages, sums = subject.layout, subject.pages[repeat], _digests(subject, memory)
    chunk = memory if way is Way.KERNEL else Pinned(memory, subject.chunks[repeat][0])
    if subject.case.unpacks:
        unpack_slices(layout, pages, [chunk], None, expected=sums, report=subject.report)
    else:
        pack_slices(layout, pages, [chunk], None, digests=sums, report=subject.report)


def bound(case: Case, device: str = "cuda") -> Hosted:
    """Allocate a case, and bind its repetitions."""
    subject = make(case, device)
    plan, on = subject.plan.only, subject.chunks[0][0].device
    count = max(1, min(len(subject.pages), COLD_BYTES // plan.bytes))

    def pinned(length: int) -> list[torch.Tensor]:
        step = -(-length // 128) * 128
        whole = torch.empty(count * step, dtype=torch.uint8, pin_memory=on.type == "cuda")
        return [whole[first : first + length] for first in range(0, count * step, step)]

    memory, others = pinned(plan.bytes), pinned(plan.payload_bytes)
    spare = torch.empty((count, plan.payload_bytes), dtype=torch.uint8, device=on)
    pairs = [(row, other) if case.unpacks else (other, row)
             for row, other in zip(spare, others, strict=True)]  # fmt: skip
    return Hosted(
        subject, memory,
        {way: [partial(_call, subject, repeat, one, way) for repeat, one in enumerate(memory)]
         for way in Way},
        [partial(torch.Tensor.copy_, target, source, non_blocking=True)
         for target, source in pairs],
    )  # fmt: skip


def prove(hosted: Hosted) -> None:
    """Check both ways at their full size. Raises WrongResultError."""
    subject, case = hosted.subject, hosted.subject.case
    check(subject)  # now every chunk on the device is packed, and has its digests
    length = subject.plan.only.payload_bytes
    for way, calls in hosted.calls.items():
        for repeat in (0, len(calls) - 1):
            memory, chunk = hosted.memory[repeat], subject.chunks[repeat][0]
            want, sums = chunk[:length].clone(), subject.digests[repeat][0]
            chunk.fill_(0xA5)
            told = _digests(subject, memory)
            if case.unpacks:
                memory[:length].copy_(want)
                if told is not None:
                    told[0].copy_(sums)
                for pool in subject.layout.pools:
                    pool[subject.pages[repeat].long()] = 0
            else:
                memory.fill_(0xA5)
            calls[repeat]()
            if chunk.is_cuda:
                torch.cuda.synchronize()
            if told is not None:
                require(torch.equal(told[0].to(sums.device), sums), case,
                        f"digests {way.value} differ")  # fmt: skip
            chunk[:length].copy_(memory[:length])
            require(same(subject, repeat), case, f"{way.value} it differs from the reference")
            require(torch.equal(chunk[:length], want), case, f"{way.value} it changes the chunk")
    require(subject.report.read().clean, case, "the report is not clean")


def measure(case: Case, results: Results) -> None:
    """Check and time a case. Raises WrongResultError, and TimeoutError as `timing.in_turns`."""
    hosted = bound(case)
    prove(hosted)
    payload = case.payload_bytes
    launches = max(1, min(LAUNCHES_MAX, ENOUGH_BYTES // payload))
    copies = timing.prepared(hosted.copies, graphed=False, launches=launches)
    where = "from pinned memory" if case.unpacks else "to pinned memory"
    for way, calls in hosted.calls.items():
        mine = timing.prepared(calls, graphed=False, launches=launches)
        timed, _ = timing.in_turns(mine, copies, held=True)
        results.rows.append(Row(
            f"{case.operation.value}, {where}", f"{case.name}, {way.value}", payload, timed.us,
            timed.ratio, timed.ratio_min, timed.ratio_max, case.goal,
        ))  # fmt: skip
