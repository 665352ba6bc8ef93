"""Many requests in one launch: the bytes, digests and findings of each are those of it alone."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdproto.kernels.chunk import (
    HeadRange,
    KVLayout,
    Launch,
    Order,
    Request,
    new_report,
    pack_requests,
    plan_for,
    unpack_requests,
    warmup,
)
from pdproto.kernels.digest import page_digests
from pdproto.kernels.plan import PeerPlan
from tests.kernels.paths import Path, on_device
from tests.kernels.pools import POISON, Geometry, Guarded, new_pools
from tests.kernels.reference import pack_reference, unpack_reference
from tests.tiers import examples

GEOMETRY: Final = Geometry(entries=2, pages=6, tokens=2, heads=4, row_bytes=32)


def _digests(peer: PeerPlan, payload: NDArray[np.uint8], key: int) -> NDArray[np.uint64]:
    """The definition, entry by entry: groups have pages of different sizes."""
    found = []
    for entry in range(peer.entries):
        first = peer.offset(entry, 0) if peer.pages else 0
        part = next(p for p in peer.parts if p.first <= entry < p.first + p.entries)
        data = payload[first : first + peer.pages * part.page_bytes]
        # page_digests counts entries from 0, so pages of those before are put in front.
        padded = np.zeros(((entry + 1) * peer.pages, part.page_bytes), np.uint8)
        padded[entry * peer.pages :] = data.reshape(peer.pages, part.page_bytes)
        found.append(page_digests(padded, key, entries=entry + 1)[entry * peer.pages :])
    return np.concatenate(found)


class Case(NamedTuple):
    """Pools, the lists of pages of some requests, and what is done with them."""

    pools: list[NDArray[np.uint8]]
    order: Order
    chunk_order: Order
    peers: list[HeadRange] | None
    lists: list[list[int]]
    keys: list[int]
    digested: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Two kinds of pools at most, so that a launch has entries of different sizes."""
    tokens, order = draw(st.integers(1, 3)), draw(st.sampled_from(Order))
    heads = draw(st.integers(1, 4))
    pools = []
    for kind in range(draw(st.integers(1, 2))):
        rows = draw(st.sampled_from([2, 16, 48, 132, 656]))
        pools += new_pools(Geometry(2, 9, tokens, heads, rows, order), kind)
    cut = draw(st.integers(0, heads - 1))
    peers = [HeadRange(0, cut), HeadRange(cut, heads - cut)] if cut else None
    counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=7).filter(lambda c: sum(c) < 10))
    pages = draw(st.permutations(range(9)))
    lists = [[pages.pop() for _ in range(count)] for count in counts]
    keys = draw(st.lists(st.integers(0, 2**64 - 1), min_size=len(lists), max_size=len(lists)))
    return Case(pools, order, draw(st.sampled_from(Order)), peers, lists, keys, draw(st.booleans()))


def _request(
    path: Path, layout: KVLayout, case: Case, index: int, order: Order
) -> tuple[Request, list[Guarded]]:
    plan = plan_for(layout, len(case.lists[index]), peers=case.peers, order=order)
    guarded = [Guarded.of(peer.payload_bytes) for peer in plan.peers]
    sums = [path.put(np.zeros(peer.entries * peer.pages, np.uint64)) for peer in plan.peers]
    request = Request(np.array(case.lists[index], np.int64),
                      [one.within(path.put(one.memory)) for one in guarded],
                      sums if case.digested else None, case.keys[index])
    return request, guarded


def _pack_is_the_reference(path: Path, case: Case) -> None:
    layout = path.layout(case.pools, case.order)
    both = [_request(path, layout, case, i, case.order) for i in range(len(case.lists))]
    plans = pack_requests(layout, [request for request, _ in both], case.peers)
    for (request, guarded), plan, key in zip(both, plans, case.keys, strict=True):
        pages = request.pages.tolist()
        for index, peer in enumerate(plan.peers):
            want = pack_reference(case.pools, case.order, pages, plan, peer)
            assert np.array_equal(path.get(request.chunks[index]), want)
            if path.name != "cuda":  # where the memory is a copy
                guarded[index].check_red_zones()
            if request.digests is not None:
                got = path.get(request.digests[index]).view(np.uint64)
                assert np.array_equal(got, _digests(peer, want, key))


def _unpack_is_the_reference(path: Path, case: Case) -> None:
    layout = path.layout([pool.copy() for pool in case.pools], case.order)
    requests, random = [], np.random.default_rng(7)
    for index in range(len(case.lists)):
        request, _ = _request(path, layout, case, index, case.chunk_order)
        plan = plan_for(layout, request.pages.size, peers=case.peers, order=case.chunk_order)
        chunks = []
        for number, peer in enumerate(plan.peers):
            chunk = random.integers(0, 256, peer.payload_bytes, np.uint8)
            unpack_reference(case.pools, case.order, request.pages.tolist(), plan, peer, chunk)
            request.chunks[number][:] = path.put(chunk)
            if request.digests is not None:
                told = _digests(peer, chunk, case.keys[index])
                request.digests[number][:] = path.put(told)
            chunks.append(chunk)
        requests.append(request)
    report = new_report(layout)
    unpack_requests(layout, requests, case.peers, order=case.chunk_order, report=report)
    assert report.read().clean
    for pool, want in zip(layout.pools, case.pools, strict=True):
        assert np.array_equal(path.get(pool), want)


FEW: Final = settings(
    max_examples=examples(8, 30), deadline=None,
    # The path is the same for all examples of a test.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


@FEW
@given(case=cases())
def test_packing_many_requests_is_the_reference(path: Path, case: Case) -> None:
    _pack_is_the_reference(path, case)


@FEW
@given(case=cases())
def test_unpacking_many_requests_is_the_reference(path: Path, case: Case) -> None:
    _unpack_is_the_reference(path, case)


def _requests(path: Path, layout: KVLayout, lists: list[Any], **told: Any) -> list[Request]:
    """With a chunk of poison each."""
    return [Request(pages, [path.put(np.full(plan_for(layout, len(pages)).only.bytes, POISON,
                                             np.uint8))], **told) for pages in lists]


@on_device
@pytest.mark.parametrize("number", ["int32", "int64"])
def test_page_numbers_of_many_requests_on_the_device(path: Path, number: str) -> None:
    pools = new_pools(GEOMETRY)
    layout = path.layout(pools)
    lists = [np.array(pages, number) for pages in ([4, 4, 0], [1], [5, 2])]
    requests = _requests(path, layout, [path.put(pages) for pages in lists])
    plans = pack_requests(layout, requests, launch=Launch(ctas_max=3))
    for request, pages, plan in zip(requests, lists, plans, strict=True):
        want = pack_reference(pools, Order.NHD, pages.tolist(), plan, plan.only)
        assert np.array_equal(path.get(request.chunks[0])[: want.size], want)


@on_device
def test_a_launch_is_one_for_all_requests_and_peers(path: Path) -> None:
    """The count of launches is why the call exists: 3 requests for 2 peers are one launch."""
    from pdproto.kernels import device, device_many  # noqa: PLC0415 - need torch

    layout, peers = path.layout(new_pools(GEOMETRY)), [HeadRange(0, 1), HeadRange(1, 3)]
    requests = []
    for pages in ([0, 1], [2], [3, 4, 5]):
        plan = plan_for(layout, len(pages), peers=peers)
        requests.append(Request(pages, [path.put(np.zeros(peer.bytes, np.uint8))
                                        for peer in plan.peers]))
    with (
        mock.patch.object(device, "run", wraps=vars(device)["run"]) as run,
        mock.patch.object(device_many, "sent", wraps=vars(device_many)["sent"]) as sent,
    ):
        pack_requests(layout, requests, peers)
    assert (run.call_count, sent.call_count) == (1, 1)


def test_a_report_counts_the_pages_of_all_requests(path: Path) -> None:
    """Positions go on from request to request, past a word of the report (32 pages)."""
    pools = new_pools(Geometry(entries=2, pages=80, tokens=1, heads=1, row_bytes=16))
    source = path.layout(pools)
    lists = [list(range(40)), [41], [], [79, 50, 60]]
    requests = []
    for pages in lists:
        plan = plan_for(source, len(pages)).only
        requests.append(Request(
            pages, [path.put(np.zeros(plan.payload_bytes, np.uint8))],
            [path.put(np.zeros(plan.entries * plan.pages, np.uint64))], key=len(pages)))
    pack_requests(source, requests)
    sink, report = path.layout([np.zeros_like(pool) for pool in pools]), new_report(source)
    damaged = requests[3].chunks[0]
    damaged[1 * 16] ^= 1  # page 1 of entry 0
    requests[0].chunks[0][39 * 16] ^= 1
    unpack_requests(sink, requests, report=report)
    outcome = report.read()
    assert (outcome.bad_index, outcome.mismatched) == (None, (39, 42))


@on_device
def test_a_page_that_no_pool_has_is_reported_by_its_place_among_all(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    report = new_report(layout)
    lists = [path.put(np.array(pages)) for pages in ([0, 1], [2, 6, 3], [-1])]
    requests = _requests(path, layout, lists)
    pack_requests(layout, requests, report=report)
    assert report.read().bad_index == 3
    page = plan_for(layout, 1).only.payload_bytes // GEOMETRY.entries
    chunk = path.get(requests[1].chunks[0])
    assert not chunk[page : 2 * page].any(), "shipped the bytes of a page that does not exist"


def test_arguments_of_requests_are_named(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    one, two = _requests(path, layout, [[0, 1], [2]])
    sums = path.put(np.zeros(2, np.uint64))
    report = new_report(layout)
    with pytest.raises(ValueError, match=r"requests\[1\]: pages\[0\]: page 6 does not exist"):
        pack_requests(layout, [one, Request([6], two.chunks)])
    with pytest.raises(ValueError, match=r"requests\[1\]: chunks\[0\]: .* needed, got 0"):
        pack_requests(layout, [one, Request([2], [two.chunks[0][:0]])])
    with pytest.raises(TypeError, match=r"requests\[1\]: key: want an integer"):
        pack_requests(layout, [one, Request([2], two.chunks, key=1.5)])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"requests\[1\]: digests: .* for all requests or for no"):
        pack_requests(layout, [one, Request([2], two.chunks, [sums])])
    with pytest.raises(ValueError, match=r"requests\[1\]\.chunks\[0\]: shares .* requests\[0\]"):
        pack_requests(layout, [Request([2], one.chunks), Request([3], one.chunks)])
    with pytest.raises(ValueError, match=r"requests\[0\]\.chunks\[0\]: shares .* with pools\[1\]"):
        pack_requests(layout, [Request([2], [layout.pools[1].reshape(-1)]), one])
    with pytest.raises(ValueError, match="page 1 is written more than once"):
        unpack_requests(layout, [one, Request([1], two.chunks)])
    with pytest.raises(ValueError, match="report: needed with digests"):
        unpack_requests(layout, [Request([2], two.chunks, [sums])])
    with pytest.raises(ValueError, match="head 0 is written more than once"):
        unpack_requests(layout, [one], [HeadRange(0, 1), HeadRange(0, 1)], report=report)
    few = path.layout(new_pools(GEOMETRY), pages_max=2)
    with pytest.raises(ValueError, match="pages: 3 in one chunk, the layout's chunk_pages_max"):
        pack_requests(few, [one, two])
    for request in (one, two):
        assert (path.get(request.chunks[0]) == POISON).all()
    assert pack_requests(layout, []) == ()


@on_device
def test_more_requests_than_a_launch_can_have_are_refused(path: Path) -> None:
    from pdproto.kernels import device  # noqa: PLC0415 - needs torch

    layout = path.layout(new_pools(Geometry(entries=1, pages=1, tokens=1, heads=1, row_bytes=32)))
    size = -(-plan_for(layout, 1).only.bytes // 16) * 16
    memory = path.put(np.zeros((257, size), np.uint8))
    requests = [Request([0], [chunk]) for chunk in memory]
    with pytest.raises(ValueError, match="requests: 257 for 1 peers are too many for one launch"):
        pack_requests(layout, requests)
    with mock.patch.object(device, "run") as run:
        pack_requests(layout, requests[:256])
    assert run.call_count == 1
    pack_requests(layout, requests[:33], launch=Launch(ctas_max=4))
    found = path.get(memory)
    assert found[0].any()
    assert (found[:33] == found[0]).all()
    assert not found[33:].any()
    mixed = [requests[0], Request(path.put(np.array([0])), requests[1].chunks)]
    with pytest.raises(ValueError, match="want all in host memory, or all on the device in one"):
        pack_requests(layout, mixed)


@on_device
def test_requests_are_refused_while_a_graph_is_captured(path: Path) -> None:
    """A replay would read the places of a later launch."""
    from pdproto.kernels import device_launch  # noqa: PLC0415 - needs torch

    layout = path.layout(new_pools(GEOMETRY))
    requests = _requests(path, layout, [path.put(np.array([0, 1])), path.put(np.array([2]))])
    with (
        mock.patch.object(device_launch, "capturing", return_value=True),
        pytest.raises(ValueError, match="requests: one a call, by pack_chunk, while a graph"),
    ):
        pack_requests(layout, requests)
    assert (path.get(requests[0].chunks[0]) == POISON).all()
    pack_requests(layout, requests)


@on_device
def test_warmup_makes_the_kernels_of_many_requests(path: Path) -> None:
    from pdproto.kernels import device  # noqa: PLC0415 - needs torch

    layout, made = path.layout(new_pools(GEOMETRY)), set()
    with mock.patch.object(device, "run", lambda _, variant, *__, **___: made.add(variant)):
        warmup(layout, requests=True)
    used = []
    requests = [
        Request([0], [path.put(np.zeros(1024, np.uint8))],
                [path.put(np.zeros(2, np.uint64))]),
        Request([1], [path.put(np.zeros(1024, np.uint8))],
                [path.put(np.zeros(2, np.uint64))]),
    ]
    bare = [Request(path.put(np.array(one.pages)), one.chunks) for one in requests]
    with mock.patch.object(device, "run", lambda _, variant, *__, **___: used.append(variant)):
        for told in (requests, bare):
            pack_requests(layout, told)
            unpack_requests(layout, told, report=new_report(layout))
    assert len(used) == 4
    assert set(used) <= made
