"""One benchmark case on a GPU: its memory, the call to time, and the check of its result.

Each repetition uses other pages of the pool and another chunk. So the memory of a call is no longer
in the cache when the call uses it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch

from lab.bench.cases import RUN, Case, Listing, Operation
from lab.casts import fp8
from lab.casts.cast import pack_cast, unpack_cast
from pdproto.kernels.chunk import (
    ChunkPlan,
    KVLayout,
    Report,
    digest_chunk,
    new_report,
    pack_slices,
    plan_for,
    register,
    unpack_slices,
)
from pdproto.kernels.digest import page_digests
from pdproto.kernels.plan import Scale

COLD_BYTES: Final = 512 << 20
"""Bytes of traffic between two uses of the same memory: many times the cache of any GPU so far."""

STATIC_SCALE: Final = 0.02
"""fp8 then reaches to 8.96; the largest of 1e10 normal values is about 6.5."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A case with its memory.

    calls: one for each repetition, on the current stream. copies: of the same bytes, one for each
    repetition. pages, chunks and digests: by repetition; the last two also by peer.
    """

    case: Case
    layout: KVLayout
    plan: ChunkPlan
    pages: list[torch.Tensor]
    chunks: list[list[torch.Tensor]]
    digests: list[list[torch.Tensor]]
    report: Report
    static: torch.Tensor
    calls: list[Callable[[], object]]
    copies: list[Callable[[], object]]


def _noise(length: int, device: str) -> torch.Tensor:
    """Random bytes: zeros would hide errors, and can even run faster."""
    words = torch.empty(-(-length // 8), dtype=torch.int64, device=device)
    return words.random_().view(torch.uint8)[:length]


def _pools(case: Case, pages: int, device: str) -> torch.Tensor:
    """Every pool, [entry, page, token, head, byte]; for a cast, bfloat16 instead of bytes."""
    shape = (case.entries, pages, case.page_tokens, case.heads, case.row_bytes)
    length = case.entries * pages * case.page_bytes
    if case.scale is not None:
        halves = torch.randn(length // 2, dtype=torch.bfloat16, device=device)
        return halves.reshape(*shape[:-1], case.row_bytes // 2)
    return _noise(case.base_bytes + length, device)[case.base_bytes :].reshape(shape)


def _listed(case: Case, pool_pages: int, repeats: int, device: str) -> list[torch.Tensor]:
    """The pages of each repetition; only `Listing.REPEATS` may have a page twice."""
    count = repeats * case.pages
    match case.listing:
        case Listing.RANDOM:
            order = torch.randperm(pool_pages, device=device)[:count]
        case Listing.IDENTITY:
            order = torch.arange(count, device=device)
        case Listing.REVERSED:
            order = torch.arange(count, device=device).flip(0)
        case Listing.RUNS:
            firsts = torch.randperm(count // RUN, device=device) * RUN
            order = (firsts[:, None] + torch.arange(RUN, device=device)).reshape(-1)
        case Listing.REPEATS:
            order = torch.randint(pool_pages, (count,), device=device)
    kind = torch.int64 if case.index_bits == 64 else torch.int32
    return list(order.to(kind).reshape(repeats, case.pages))


def make(case: Case, device: str = "cuda") -> Subject:
    """Allocate a case, and bind its repetitions."""
    repeats = max(1, min(256, round(COLD_BYTES / case.traffic_bytes)))
    pool_pages = max(repeats * case.pages, -(-case.pool_bytes // case.page_bytes))
    layout = register(list(_pools(case, pool_pages, device)))
    plan = plan_for(layout, case.pages, peers=case.peers, scale=case.scale)
    pages = _listed(case, pool_pages, repeats, device)
    chunks = [[_noise(peer.bytes, device) for peer in plan.peers] for _ in range(repeats)]
    digests = [
        [torch.zeros(peer.entries * peer.pages, dtype=torch.int64, device=device)
         for peer in plan.peers] for _ in range(repeats)
    ]  # fmt: skip
    sent = case.payload_bytes
    source, target = _noise(sent * repeats, device), _noise(sent * repeats, device)
    pairs = zip(target.reshape(repeats, -1), source.reshape(repeats, -1), strict=True)
    copies: list[Callable[[], object]] = [partial(torch.Tensor.copy_, *pair) for pair in pairs]
    static = torch.full((case.entries,), STATIC_SCALE, device=device)
    subject = Subject(
        case, layout, plan, pages, chunks, digests, new_report(layout), static, [], copies
    )
    subject.calls.extend(partial(call, subject, repeat) for repeat in range(repeats))
    return subject


def call(subject: Subject, repeat: int) -> None:
    """Run one repetition: one call of the public API, with page numbers on the device."""
    case, layout, pages = subject.case, subject.layout, subject.pages[repeat]
    chunks, digests, report = subject.chunks[repeat], subject.digests[repeat], subject.report
    static = subject.static if case.scale is Scale.STATIC else None
    match case.operation:
        case Operation.PACK:
            pack_slices(layout, pages, chunks, case.peers, report=report)
        case Operation.DIGEST_PACK:
            pack_slices(layout, pages, chunks, case.peers, digests=digests, report=report)
        case Operation.UNPACK:
            unpack_slices(layout, pages, chunks, case.peers, report=report)
        case Operation.VERIFY_UNPACK:
            unpack_slices(layout, pages, chunks, case.peers, expected=digests, report=report)
        case Operation.DIGEST_CHUNK:
            digest_chunk(layout, case.pages, chunks[0], digests[0])
        case Operation.CAST:
            pack_cast(layout, pages, chunks[0], scale=_scale(case), static=static, report=report)
        case Operation.UNCAST:
            unpack_cast(layout, pages, chunks[0], scale=_scale(case), report=report)


def _scale(case: Case) -> Scale:
    if case.scale is None:
        raise ValueError(f"case {case.name!r} casts, so it needs a scale")
    return case.scale


class WrongResultError(Exception):
    """A case differs from its reference, so its time is meaningless."""


def require(right: object, case: Case, what: str) -> None:
    """Raise WrongResultError, with `what` as its text, unless `right` is true."""
    if not right:
        raise WrongResultError(f"{case.operation.value}, {case.name}: {what}")


def check(subject: Subject) -> None:
    """Check the result of a case at its full size. Raises WrongResultError.

    Afterwards the chunks are packed and have digests, for repetitions that unpack.
    """
    case = subject.case
    if case.operation in {Operation.CAST, Operation.UNCAST}:
        _check_cast(subject)
    else:
        _check_copy(subject)
    require(subject.report.read().clean, case, "the report is not clean")


def same(subject: Subject, repeat: int) -> bool:
    """Whether the chunks of a repetition hold exactly its pages, compared on the GPU."""
    case, index = subject.case, subject.pages[repeat].long()
    for chunk, peer in zip(subject.chunks[repeat], subject.plan.peers, strict=True):
        (part,) = peer.parts
        heads = slice(part.heads.first, part.heads.first + part.heads.count)
        entries = chunk[: peer.payload_bytes].reshape(case.entries, -1)
        for entry, pool in enumerate(subject.layout.pools):
            if not torch.equal(entries[entry], pool[index][:, :, heads].reshape(-1)):
                return False
    return True


def _check_copy(subject: Subject) -> None:
    case, layout, report = subject.case, subject.layout, subject.report
    pages, chunks = subject.pages[0], subject.chunks[0]
    pack_slices(layout, pages, chunks, case.peers)
    require(same(subject, 0), case, "pack differs from the reference")
    unpacked = case.listing is not Listing.REPEATS
    if unpacked:
        for chunk in chunks:
            chunk.random_(0, 256)
        unpack_slices(layout, pages, chunks, case.peers)
        require(same(subject, 0), case, "unpack differs from the reference")
    for repeat, digests in enumerate(subject.digests):
        for chunk in subject.chunks[repeat]:
            chunk.fill_(0xA5)
        pack_slices(
            layout, subject.pages[repeat], subject.chunks[repeat], case.peers, digests=digests
        )
    for repeat in (0, len(subject.calls) - 1):
        require(same(subject, repeat), case, "pack with digests differs from the reference")
    few = min(4, case.pages)
    part = subject.plan.peers[0].parts[0]
    rows = chunks[0][: few * part.page_bytes].cpu().numpy().reshape(few, -1)
    told = subject.digests[0][0][:few].cpu().numpy().view("uint64")
    require((told == page_digests(rows)).all(), case, "digests differ from the reference")
    if unpacked:
        sums = subject.digests[0]
        unpack_slices(layout, pages, chunks, case.peers, expected=sums, report=report)


def _check_cast(subject: Subject) -> None:
    case, scale, layout = subject.case, _scale(subject.case), subject.layout
    static = subject.static if scale is Scale.STATIC else None
    for repeat, (chunk,) in enumerate(subject.chunks):
        pack_cast(layout, subject.pages[repeat], chunk, scale=scale, static=static)
    index, (chunk,) = subject.pages[0].long(), subject.chunks[0]
    values = layout.pools[0][index[:4]].float().cpu().numpy()
    if static is not None:
        told = static[:1].cpu().numpy().reshape(1, 1, 1, 1)
    else:
        told = fp8.scale_for(values, (1, 2, 3) if scale is Scale.PAGE else (1, 3))
    want = fp8.encode(values * (1 / told).astype("float32")).reshape(-1)
    got = chunk[: want.size].cpu().numpy()
    require((got == want).all(), case, "fp8 codes differ from the reference")
    before = layout.pools[-1][index].float()
    unpack_cast(layout, subject.pages[0], chunk, scale=scale, report=subject.report)
    after = layout.pools[-1][index].float()
    worst = ((after - before).abs().amax() / before.abs().amax()).item()
    require(worst <= 1 / 16, case, f"the round trip is off by {worst:.3f} of the largest")
