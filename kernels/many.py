"""Pack and unpack the pages of many requests in one launch.

    requests = [Request(pages, [chunk], digests=[sums], key=life) for pages, chunk, ... in ...]
    pack_requests(layout, requests)
    unpack_requests(layout, requests, report=report)

Lists of pages have any lengths; each request has chunks, digests and a key of its own, and the same
bytes as by a call of `pack_slices` for it alone. So a launch holds many short requests, or many
requests for many peers each. In host memory requests are copied one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from pdproto.kernels import host
from pdproto.kernels.arguments import (
    DEFAULT,
    Launch,
    check_disjoint,
    host_chunks,
    host_digests,
    host_report,
    key_number,
    spans_of,
)
from pdproto.kernels.layout import KVLayout, Order
from pdproto.kernels.overlap import Span, check_spans
from pdproto.kernels.plan import ChunkPlan, HeadRange, plan_for
from pdproto.kernels.report import Report
from pdproto.kernels.request import Request, named, numbers_of, spans_within


def pack_requests(
    layout: KVLayout,
    requests: Sequence[Request],
    peers: Sequence[HeadRange] | None = None,
    *,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> tuple[ChunkPlan, ...]:
    """`pack_slices` of every request, in one launch.

    On a GPU page numbers are those of all requests in host memory, or of all on the GPU in one
    type. All requests together have at most `chunk_pages_max` pages, and there are at most 256 for
    one peer and 92 for eight (ValueError). Either all have digests, or none. Positions in the
    report count the pages of all requests, one request after the other. Returns a plan for each.
    """
    return _copy(layout, requests, peers, None, report, launch, from_pool=True)


def unpack_requests(
    layout: KVLayout,
    requests: Sequence[Request],
    peers: Sequence[HeadRange] | None = None,
    *,
    order: Order | None = None,
    report: Report | None = None,
    launch: Launch = DEFAULT,
) -> tuple[ChunkPlan, ...]:
    """`unpack_slices` of every request, in one launch; see there and at `pack_requests`.

    No page is listed twice, neither by one request nor by two.
    """
    check_disjoint(layout, peers)
    if report is None and any(request.digests is not None for request in requests):
        raise ValueError("report: needed with digests, or a mismatch would go unseen")
    return _copy(layout, requests, peers, order, report, launch, from_pool=False)


def _copy(
    layout: KVLayout, requests: Sequence[Request], peers: Sequence[HeadRange] | None,
    order: Order | None, report: Report | None, launch: Launch, *, from_pool: bool,
) -> tuple[ChunkPlan, ...]:  # fmt: skip
    keys = []
    for index, request in enumerate(requests):
        with named(index):
            keys.append(key_number(request.key))
        if (request.digests is None) != (requests[0].digests is None):
            raise ValueError(f"requests[{index}]: digests: want them for all requests or for none")
    if layout.device != "cpu":
        from pdproto.kernels import device_many  # noqa: PLC0415 - needs torch and triton

        return device_many.copy(
            layout, requests, keys, peers, order, report, launch, from_pool=from_pool)
    return _on_host(layout, requests, keys, peers, order, report, launch, from_pool=from_pool)


def _on_host(
    layout: KVLayout, requests: Sequence[Request], keys: Sequence[int],
    peers: Sequence[HeadRange] | None, order: Order | None, report: Report | None, launch: Launch,
    *, from_pool: bool,
) -> tuple[ChunkPlan, ...]:  # fmt: skip
    lists, plans, calls = numbers_of(layout, requests, unique=not from_pool), [], []
    spans: list[Span] = []
    for index, (request, listed) in enumerate(zip(requests, lists, strict=True)):
        plan = plan_for(layout, listed.size, order=order, peers=peers)
        with named(index):
            chunks = host_chunks(plan, request.chunks, written=from_pool)
            sums = host_digests(plan, request.digests, "digests")
        spans += spans_within(index, spans_of(plan, chunks, sums, "digests"))
        plans.append(plan)
        calls.append((plan, listed, chunks, sums))
    check_spans(layout, spans, written=from_pool)
    found, before = host_report(layout, report), 0
    for (plan, listed, chunks, sums), key in zip(calls, keys, strict=True):
        if listed.size and from_pool:
            host.pack(layout, plan, listed, chunks, sums, key, launch.threads)
        elif listed.size:
            host.unpack(layout, plan, listed, chunks, sums, found, key, launch.threads,
                        before=before)
        before += listed.size
    return tuple(plans)
