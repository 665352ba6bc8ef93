"""`many` on a device: the places of all requests go there with the page numbers, by one copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from pdproto.kernels import device, page_copy
from pdproto.kernels.arguments import Launch, check_count, spans_of
from pdproto.kernels.device_arguments import carried, chunk_tensors, digest_tensors, page_tensor
from pdproto.kernels.device_launch import (
    carry_in,
    carry_out,
    device_words,
    sent,
    spans_carried,
    stream_for,
)
from pdproto.kernels.device_memory import PEERS_MAX, binding_of, bound_table
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.overlap import Span, check_spans
from pdproto.kernels.plan import ChunkPlan, HeadRange, plan_for
from pdproto.kernels.report import Report
from pdproto.kernels.request import Request, named, numbers_of, spans_within
from pdproto.kernels.table import NUMERATOR_MAX
from pdproto.kernels.tiling import tilings_for, variant_for

PLACES_MAX: Final = 2 * PEERS_MAX
"""Numbers that tell the places of the requests of one launch: the ring has room for so many."""

NOT_IN_A_GRAPH: Final = "requests: one a call, by pack_chunk, while a graph is captured"


@dataclass(frozen=True, slots=True)
class Part:
    """A request of a launch, whose tensors have been checked. It has at least one page."""

    plan: ChunkPlan
    chunks: Sequence[torch.Tensor]
    digests: Sequence[torch.Tensor] | None
    key: int


def copy(
    layout: KVLayout, requests: Sequence[Request], keys: Sequence[int],
    peers: Sequence[HeadRange] | None, order: Order | None, report: Report | None, launch: Launch,
    *, from_pool: bool,
) -> tuple[ChunkPlan, ...]:  # fmt: skip
    """`many.pack_requests` and `many.unpack_requests`."""
    lists = _lists(layout, requests, unique=not from_pool)
    plans, parts = [], []
    kept: list[Any] = []
    spans: list[Span] = []
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
    for index, (request, listed, key) in enumerate(zip(requests, lists, keys, strict=True)):
        plan = plan_for(layout, listed.shape[0], order=order, peers=peers)
        with named(index):
            part = Part(plan, chunk_tensors(layout, plan, request.chunks),
                        digest_tensors(layout, plan, request.digests, "digests"), key)
        mine = carried(plan, request.chunks)
        spans += spans_within(index, [*spans_of(plan, part.chunks, part.digests or (), "digests"),
                                      *spans_carried(mine)])
        pairs += mine
        plans.append(plan)
        if plan.pages:
            parts.append(part)
            kept.append(listed)
    check_spans(layout, spans, written=from_pool)
    if parts:
        _launch(layout, parts, kept, peers, report, launch, pairs, from_pool=from_pool)
    return tuple(plans)


def _lists(
    layout: KVLayout, requests: Sequence[Request], *, unique: bool
) -> list[Any]:
    """The page numbers of each request: all in host memory, or all on the device in one type."""
    placed, kinds = [], set()
    for index, request in enumerate(requests):
        with named(index):
            pages = page_tensor(layout, request.pages, unique=False)
        kinds.add(pages.dtype if isinstance(pages, torch.Tensor) else "host memory")
        if isinstance(pages, torch.Tensor):
            placed.append(pages)
    if len(kinds) > 1:
        raise ValueError("requests: page numbers of some are in host memory or of another type: "
                         "want all in host memory, or all on the device in one type")
    if not placed:
        return list(numbers_of(layout, requests, unique=unique))
    check_count(layout, sum(pages.shape[0] for pages in placed))
    return placed


def _launch(
    layout: KVLayout, parts: Sequence[Part], lists: Sequence[Any],
    peers: Sequence[HeadRange] | None, report: Report | None, launch: Launch,
    pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], *, from_pool: bool,
) -> None:  # fmt: skip
    binding, plan = binding_of(layout), parts[0].plan
    table, rows = bound_table(binding, layout, plan, peers)
    on_host = isinstance(lists[0], np.ndarray)
    digest = 0 if parts[0].digests is None else 1 if from_pool else 2
    variant = variant_for(table, from_pool=from_pool, store=True, digest=digest, check=not on_host,
                          peers=len(plan.peers) > 1, many=True)
    tiling, begins = tilings_for(variant, table, sections=layout.entries * len(plan.peers),
                                 counts=[part.plan.pages for part in parts])
    places = places_of(parts, begins, None if on_host else lists)
    words, stream = device_words(binding, report), stream_for(rows, launch, report)
    numbers, turn = sent(binding, [places, *(lists if on_host else ())], launch, NOT_IN_A_GRAPH)
    # Nothing may fail between sending the numbers and the launch that ends their turn.
    try:
        pages = numbers[places.size:] if on_host else lists[0]
        first = parts[0]
        arguments = (
            rows, numbers, pages, first.chunks[0], first.digests[0] if first.digests else rows,
            words, layout.pages, 0, tiling.page_tiles, tiling.segments, len(plan.peers),
            tiling.tiles, 0,
        )  # fmt: skip
        grid = min(tiling.tiles, launch.ctas_max or tiling.tiles)
        if not from_pool:
            carry_in(pairs, launch)
        device.run_copy(variant, grid, stream, arguments)
        if from_pool:
            carry_out(pairs, launch)
    finally:
        binding.uplink.launched(turn, stream)


def places_of(
    parts: Sequence[Part], begins: Sequence[int], lists: Sequence[torch.Tensor] | None
) -> NDArray[np.int64]:
    """What differs between requests, as `page_copy.find_request` reads it.

    begins: the first page tile of each. lists: page numbers on the device; without them, those of
    all requests lie one behind the other. Raises ValueError for too many requests.
    """
    slots, peers = 1 << (len(parts) - 1).bit_length(), len(parts[0].plan.peers)
    columns = page_copy.REQUEST_COLUMNS.value + 2 * peers
    length = 1 + slots + len(parts) * columns
    if length > PLACES_MAX:
        raise ValueError(f"requests: {len(parts)} for {peers} peers are too many for one launch: "
                         f"their places are {length} numbers, {PLACES_MAX} is the limit")
    places = np.full(length, NUMERATOR_MAX, np.int64)
    places[0] = slots
    places[1 : 1 + len(begins)] = begins
    rows = places[1 + slots :].reshape(len(parts), columns)
    before = 0
    for index, (row, part) in enumerate(zip(rows, parts, strict=True)):
        listed = before if lists is None else _apart(lists[index], lists[0])
        signed = part.key - ((part.key >> 63) << 64)
        row[:4] = part.plan.pages, before, listed, signed
        row[4 : 4 + peers] = [_apart(chunk, parts[0].chunks[0]) for chunk in part.chunks]
        if part.digests is not None and parts[0].digests is not None:
            first = parts[0].digests[0]
            row[4 + peers :] = [_apart(sums, first) for sums in part.digests]
        before += part.plan.pages
    return places


def _apart(one: torch.Tensor, other: torch.Tensor) -> int:
    """Elements from one tensor's first to another's."""
    return (one.data_ptr() - other.data_ptr()) // one.element_size()
