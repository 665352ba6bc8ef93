"""Many requests in one launch, beside a launch for each: time on the device, and on the host.

Page numbers are in host memory, as a scheduler has them, so a CUDA graph can have none of the
calls: the device is held while they are enqueued.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Final

import torch

from lab.bench import timing
from lab.bench.cases import MANY_GOAL, Case
from lab.bench.report import Results, Row
from lab.bench.subject import Subject, make, require
from pdproto.kernels.chunk import (
    Request,
    pack_requests,
    pack_slices,
    unpack_requests,
    unpack_slices,
)
from pdproto.kernels.device_memory import binding_of

ONE: Final = "one launch"
EACH: Final = "a launch each"
PLACED: Final = "a launch each, page numbers on the GPU"

IN_FLIGHT: Final = 512
"""Launches whose page numbers are on the way at one time, at most: more than a round has."""

LAUNCHES_MAX: Final = 128
"""Launches of a round. A stream takes about a thousand operations, and a launch has two or three.
"""

ENOUGH_BYTES: Final = 512 << 20
"""Payload of a round, where that is not too many launches: about 0.4 ms."""


@dataclass(frozen=True, slots=True)
class Requests:
    """A case with its memory. subject: its pages and chunks are those of all requests together.

    parts: the requests of each repetition. calls: one for each repetition, by their name.
    """

    subject: Subject
    parts: list[list[Request]]
    calls: dict[str, list[Callable[[], object]]]


def counts_of(case: Case) -> list[int]:
    """The pages of each request: from half of their mean to one and a half times as many."""
    mean = case.pages // case.requests
    half = max(1, mean // 2)
    found: list[int] = []
    for pair in range(case.requests // 2):
        apart = half - pair % half
        found += mean - apart, mean + apart
    return found


def _requests(subject: Subject, repeat: int) -> list[Request]:
    """The requests of a repetition: consecutive parts of its pages and of its chunks."""
    case, listed = subject.case, subject.pages[repeat].cpu().numpy()
    chunks = [(chunk, peer.payload_bytes // case.pages)
              for chunk, peer in zip(subject.chunks[repeat], subject.plan.peers, strict=True)]
    return [
        Request(listed[first:last], [chunk[first * step : last * step] for chunk, step in chunks])
        for first, last in pairwise([0, *accumulate(counts_of(case))])
    ]


def bound(case: Case, device: str = "cuda") -> Requests:
    """Allocate a case, and bind its repetitions."""
    subject = make(case, device)
    parts = [_requests(subject, repeat) for repeat in range(len(subject.pages))]
    if subject.layout.device != "cpu":
        binding_of(subject.layout).uplink.provide(IN_FLIGHT)
    together = unpack_requests if case.unpacks else pack_requests
    alone = unpack_slices if case.unpacks else pack_slices
    layout, peers = subject.layout, case.peers

    def each(of: Sequence[Request], numbers: Sequence[Any]) -> None:
        for request, pages in zip(of, numbers, strict=True):
            alone(layout, pages, request.chunks, peers)

    def placed(of: list[Request]) -> list[torch.Tensor]:
        return [torch.from_numpy(request.pages).to(subject.pages[0].device) for request in of]

    calls: dict[str, list[Callable[[], object]]] = {
        ONE: [partial(together, layout, of, peers) for of in parts],
        EACH: [partial(each, of, [request.pages for request in of]) for of in parts],
        PLACED: [partial(each, of, placed(of)) for of in parts],
    }
    return Requests(subject, parts, calls)


def check(requests: Requests) -> None:
    """Check every way at its full size. Raises WrongResultError."""
    subject, case = requests.subject, requests.subject.case
    for name, calls in requests.calls.items():
        for repeat in (0, len(calls) - 1):
            for chunk in subject.chunks[repeat]:
                chunk.random_(0, 256) if case.unpacks else chunk.fill_(0xA5)
            calls[repeat]()
            require(_same(requests, repeat), case, f"{name} differs from the reference")


def _same(requests: Requests, repeat: int) -> bool:
    """Whether the chunks of every request hold exactly its pages, compared on the GPU."""
    subject, of = requests.subject, requests.parts[repeat]
    entries, index = subject.case.entries, subject.pages[repeat].long()
    for number, peer in enumerate(subject.plan.peers):
        heads = peer.parts[0].heads
        rows = [request.chunks[number].reshape(entries, -1) for request in of]
        for entry, pool in enumerate(subject.layout.pools):
            want = pool[index][:, :, heads.first : heads.first + heads.count]
            if not torch.equal(torch.cat([row[entry] for row in rows]), want.reshape(-1)):
                return False
    return True


def measure(case: Case, results: Results) -> None:
    """Check and time a case. Raises WrongResultError, and TimeoutError as `timing.in_turns`."""
    requests = bound(case)
    check(requests)
    subject = requests.subject
    copies = timing.prepared(subject.copies)
    enough = max(1, min(LAUNCHES_MAX, ENOUGH_BYTES // case.payload_bytes))
    told, ratios = {}, {}
    for name, calls in requests.calls.items():
        launches = enough if name == ONE else max(1, min(enough, LAUNCHES_MAX // case.requests))
        mine = timing.prepared(calls, graphed=False, launches=launches)
        told[name], _ = timing.in_turns(mine, copies, held=True)
        ratios[name] = told[name].ratio
    one = told[ONE]
    results.rows.append(Row(
        case.operation.value, case.name, case.payload_bytes, one.us, one.ratio, one.ratio_min,
        one.ratio_max, case.goal or None, {EACH: ratios[EACH], PLACED: ratios[PLACED]},
    ))  # fmt: skip
    host = {name: timing.enqueue_us(requests.calls[name][0], batches=10, batch=2)
            for name in (ONE, EACH)}  # fmt: skip
    results.numbers.update({
        f"{case.title}: {EACH} over {ONE}, time on the device":
            f"{told[EACH].us / one.us:.2f} (goal {MANY_GOAL:g})",
        f"{case.title}: host time": f"{host[ONE]:.0f} us, {EACH} {host[EACH]:.0f} us:"
                                    f" {host[EACH] / host[ONE]:.2f} (goal {MANY_GOAL:g})",
    })  # fmt: skip
