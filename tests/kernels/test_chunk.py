"""Every path packs and unpacks exactly what the reference does, and touches nothing else."""

from __future__ import annotations

from typing import Final
from unittest import mock

import numpy as np
import pytest

from pdproto.kernels import native
from pdproto.kernels.chunk import (
    HeadRange,
    Order,
    digest_chunk,
    digest_pages,
    digests_in,
    new_report,
    pack_chunk,
    pack_slices,
    plan_for,
    unpack_chunk,
    unpack_slices,
)
from pdproto.kernels.digest import key_at, page_digests
from tests.kernels.paths import Path
from tests.kernels.pools import POISON, Geometry, Guarded, new_pools
from tests.kernels.reference import pack_reference, unpack_reference

# Rows of one head of one token: 656 is MLA in fp8 with its scales, 1152 the same in bfloat16,
# 132 an fp8 index row (no multiple of 8), 2 a single element.
GEOMETRIES: Final = {
    "llama tp8": Geometry(entries=3, pages=9, tokens=16, heads=1, row_bytes=256),
    "llama tp1": Geometry(entries=2, pages=5, tokens=4, heads=8, row_bytes=256),
    "page of one token": Geometry(entries=2, pages=11, tokens=1, heads=8, row_bytes=256),
    "mla": Geometry(entries=2, pages=4, tokens=64, heads=1, row_bytes=1152),
    "mla page of one": Geometry(entries=2, pages=11, tokens=1, heads=1, row_bytes=1152),
    "mla fp8": Geometry(entries=2, pages=4, tokens=16, heads=1, row_bytes=656),
    "mla fp8 page of one": Geometry(entries=2, pages=11, tokens=1, heads=1, row_bytes=656),
    "index rows": Geometry(entries=2, pages=5, tokens=1, heads=1, row_bytes=132),
    "512 B rows": Geometry(entries=2, pages=5, tokens=4, heads=1, row_bytes=512),
    "many entries": Geometry(entries=61, pages=3, tokens=1, heads=1, row_bytes=1024),
    "2 KiB rows": Geometry(entries=2, pages=5, tokens=2, heads=2, row_bytes=2048),
    "hnd": Geometry(entries=2, pages=5, tokens=4, heads=6, row_bytes=64, order=Order.HND),
    "tiny": Geometry(entries=1, pages=7, tokens=3, heads=5, row_bytes=2),
}
BY_NAME: Final = pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)


def _page_list(kind: str, pages: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    generator = np.random.default_rng(5)
    lists = {
        "identity": np.arange(pages),
        "reversed": np.arange(pages)[::-1],
        "random": generator.permutation(pages)[: max(1, pages - 2)],
        "repeats": generator.integers(0, pages, pages + 3),
        "runs": np.roll(np.arange(pages), pages // 2),
        "runs of 8": generator.permutation(np.arange(pages // 8 * 8).reshape(-1, 8)).reshape(-1),
        "one": np.array([pages - 1]),
    }
    return lists[kind].astype(np.int64)


def _pack_is_the_reference(path: Path, geometry: Geometry, kind: str) -> None:
    pools = new_pools(geometry)
    layout = path.layout(pools, geometry.order)
    pages = _page_list(kind, geometry.pages)
    plan = plan_for(layout, pages.size)
    guarded = Guarded.of(plan.only.payload_bytes)
    memory = path.put(guarded.memory)
    assert pack_chunk(layout, pages, guarded.within(memory)) is plan
    guarded.memory[:] = path.get(memory)
    want = pack_reference(pools, geometry.order, pages.tolist(), plan, plan.only)
    assert np.array_equal(guarded.chunk, want)
    guarded.check_red_zones()


@BY_NAME
def test_pack_is_the_reference(path: Path, geometry: Geometry) -> None:
    _pack_is_the_reference(path, geometry, "random")


@pytest.mark.parametrize("kind", ["identity", "reversed", "runs", "repeats", "one"])
def test_pack_takes_any_page_list(path: Path, kind: str) -> None:
    _pack_is_the_reference(path, GEOMETRIES["llama tp8"], kind)
    _pack_is_the_reference(path, GEOMETRIES["mla page of one"], kind)


def _there_and_back(path: Path, entries: int, kind: str, number: str) -> None:
    """Pack and unpack with page numbers where the pools are."""
    pools = new_pools(Geometry(entries, pages=24, tokens=2, heads=1, row_bytes=48))
    source = path.layout(pools)
    pages = _page_list(kind, 24).astype(number)
    guarded = Guarded.of(plan_for(source, pages.size).only.payload_bytes)
    memory = path.put(guarded.memory)
    plan = pack_chunk(source, path.put(pages), guarded.within(memory))
    guarded.memory[:] = path.get(memory)
    want = pack_reference(pools, Order.NHD, pages.tolist(), plan, plan.only)
    assert np.array_equal(guarded.chunk, want)
    guarded.check_red_zones()
    if kind == "repeats":
        return
    target = path.layout([np.full_like(pool, POISON) for pool in pools])
    unpack_chunk(target, path.put(pages), guarded.within(memory))
    for got, pool in zip(target.pools, pools, strict=True):
        assert np.array_equal(path.get(got), pool)


@pytest.mark.parametrize("number", ["int32", "int64"])
@pytest.mark.parametrize("kind", ["identity", "reversed", "runs of 8", "repeats"])
def test_page_numbers_of_either_width(path: Path, kind: str, number: str) -> None:
    _there_and_back(path, 2, kind, number)


@pytest.mark.parametrize(
    ("entries", "kind", "number"),
    [(96, "runs of 8", "int32"), (160, "reversed", "int64"), (188, "repeats", "int32")],
)
def test_models_have_many_entries(path: Path, entries: int, kind: str, number: str) -> None:
    """As many as those of `python -m lab bench`; their pages are small, for the interpreter."""
    _there_and_back(path, entries, kind, number)


@BY_NAME
@pytest.mark.parametrize("kind", ["identity", "random"])
def test_unpack_is_the_reference(path: Path, geometry: Geometry, kind: str) -> None:
    pools = new_pools(geometry)
    pages = _page_list(kind, geometry.pages)
    layout = path.layout([pool.copy() for pool in pools], geometry.order)
    plan = plan_for(layout, pages.size)
    chunk = np.random.default_rng(6).integers(0, 256, plan.only.bytes, dtype=np.uint8)
    unpack_chunk(layout, pages, path.put(chunk))
    unpack_reference(pools, geometry.order, pages.tolist(), plan, plan.only, chunk)
    for pool, want in zip(layout.pools, pools, strict=True):
        assert np.array_equal(path.get(pool), want)


@BY_NAME
def test_round_trip_with_digests_in_the_chunk(path: Path, geometry: Geometry) -> None:
    pools = new_pools(geometry)
    source = path.layout(pools, geometry.order)
    target = path.layout([np.full_like(pool, POISON) for pool in pools], geometry.order)
    pages = _page_list("random", geometry.pages)
    plan = plan_for(source, pages.size)
    chunk = path.put(Guarded.of(plan.only.bytes).chunk)
    pack_chunk(source, pages, chunk, digests=digests_in(plan.only, chunk), key=99)

    packed = path.get(chunk)
    payload = packed[: plan.only.payload_bytes].reshape(geometry.entries * pages.size, -1)
    told = packed[plan.only.digest_offset : plan.only.bytes].view("<u8")
    assert np.array_equal(told, page_digests(payload, 99, entries=geometry.entries))

    report = new_report(target)
    elsewhere = pages[::-1].copy()
    expected = digests_in(plan.only, chunk)
    unpack_chunk(target, elsewhere, chunk, expected=expected, key=99, report=report)
    assert report.read().clean
    for source_pool, target_pool in zip(pools, target.pools, strict=True):
        got = path.get(target_pool)
        assert np.array_equal(got[elsewhere], source_pool[pages])
        others = np.setdiff1d(np.arange(geometry.pages), elsewhere)
        assert (got[others] == POISON).all(), "wrote a page that was not named"


@BY_NAME
def test_digests_alone_equal_the_fused_ones(path: Path, geometry: Geometry) -> None:
    pools = new_pools(geometry)
    layout = path.layout(pools, geometry.order)
    pages = _page_list("random", geometry.pages)
    plan = plan_for(layout, pages.size)
    count = geometry.entries * pages.size
    chunk, fused, of_pages, of_chunk = (
        path.put(np.full(size, POISON, kind))
        for size, kind in (
            (plan.only.payload_bytes, np.uint8), (count, np.int64), (count, np.int64),
            (count, np.int64),
        )
    )  # fmt: skip
    pack_chunk(layout, pages, chunk, digests=fused)
    digest_pages(layout, pages, of_pages)
    digest_chunk(layout, pages.size, chunk, of_chunk)
    assert path.get(fused).tolist() == path.get(of_pages).tolist() == path.get(of_chunk).tolist()


def test_one_flipped_bit_names_its_page(path: Path) -> None:
    geometry = GEOMETRIES["llama tp8"]
    layout = path.layout(new_pools(geometry))
    pages = np.arange(geometry.pages)
    plan = plan_for(layout, pages.size)
    chunk = np.zeros(plan.only.bytes, np.uint8)
    generator = np.random.default_rng(7)
    report = new_report(layout)
    for position in (0, 8):
        placed = path.put(chunk.copy())
        pack_chunk(layout, pages, placed, digests=digests_in(plan.only, placed))
        damaged = path.get(placed).copy()
        entry, byte = int(generator.integers(3)), int(generator.integers(4096))
        damaged[plan.only.offset(entry, position) + byte] ^= 1 << int(generator.integers(8))
        placed = path.put(damaged)
        unpack_chunk(layout, pages, placed, expected=digests_in(plan.only, placed), report=report)
        report.fetch()
        if path.name != "cuda":
            assert report.ready()
        outcome = report.read()
        assert outcome.mismatched == (position,)
        assert outcome.bad_index is None
        assert not outcome.clean
        report.clear()
        assert report.read().clean


@pytest.mark.parametrize("other", [(0, 3), (2, 0), (1, 3)], ids=["position", "entry", "both"])
def test_pages_that_changed_places_with_their_digests_are_found(
    path: Path, other: tuple[int, int]
) -> None:
    """Whole pages in the wrong place: another position of the chunk, or another layer."""
    layout = path.layout(new_pools(Geometry(3, pages=9, tokens=2, heads=1, row_bytes=64)))
    pages = np.array([7, 2, 5, 0])
    plan = plan_for(layout, pages.size).only
    chunk = path.put(np.zeros(plan.bytes, np.uint8))
    pack_chunk(layout, pages, chunk, digests=digests_in(plan, chunk), key=5)
    packed = path.get(chunk).copy()
    payload = packed[: plan.payload_bytes].reshape(3, 4, -1)
    sums = packed[plan.digest_offset : plan.bytes].view(np.uint64).reshape(3, 4)
    for pieces in (payload, sums):
        pieces[0, 0], pieces[other] = pieces[other].copy(), pieces[0, 0].copy()
    chunk, report = path.put(packed), new_report(layout)
    unpack_chunk(layout, pages, chunk, expected=digests_in(plan, chunk), key=5, report=report)
    assert report.read().mismatched == ((0,) if other[1] == 0 else (0, 3))


def test_digests_of_a_chunk_that_is_not_the_first(path: Path) -> None:
    """Cut in two, pages have the digests that they have in one chunk."""
    layout = path.layout(new_pools(Geometry(2, pages=9, tokens=2, heads=1, row_bytes=48)))
    pages = np.array([7, 2, 5, 0, 8])
    whole = path.put(np.zeros(10, np.int64))
    digest_pages(layout, pages, whole, key=99)
    parts = []
    for first, last in ((0, 2), (2, 5)):
        part = path.put(np.zeros(2 * (last - first), np.int64))
        digest_pages(layout, pages[first:last], part, key=key_at(99, position=first))
        parts.append(path.get(part).reshape(2, -1))
    assert np.array_equal(np.concatenate(parts, axis=1).ravel(), path.get(whole))


SPLITS: Final = {
    "1 of 8": (8, (HeadRange(3, 1),)),
    "2 of 8": (8, (HeadRange(4, 2),)),
    "4 of 8": (8, (HeadRange(4, 4),)),
    "3 of 12": (12, (HeadRange(6, 3),)),
    "8 to 8": (8, tuple(HeadRange(head, 1) for head in range(8))),
    "12 to 5 and 7": (12, (HeadRange(0, 5), HeadRange(5, 7))),
    "replicated": (2, (HeadRange(0, 1), HeadRange(0, 1), HeadRange(1, 1), HeadRange(1, 1))),
}


@pytest.mark.parametrize(("heads", "peers"), SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("order", Order)
def test_slices_are_the_reference(
    path: Path, heads: int, peers: tuple[HeadRange, ...], order: Order
) -> None:
    row_bytes = 66 if heads == 12 else 128  # a multiple of 2 only, or of 16
    geometry = Geometry(2, pages=6, tokens=4, heads=heads, row_bytes=row_bytes, order=order)
    pools = new_pools(geometry)
    layout = path.layout(pools, order)
    pages = _page_list("random", geometry.pages)
    plan = plan_for(layout, pages.size, peers=peers)
    guarded = [Guarded.of(peer.bytes) for peer in plan.peers]
    memories = [path.put(one.memory) for one in guarded]
    chunks = [one.within(memory) for one, memory in zip(guarded, memories, strict=True)]
    digests = [digests_in(peer, chunk) for peer, chunk in zip(plan.peers, chunks, strict=True)]
    pack_slices(layout, pages, chunks, peers, digests=digests)
    count = geometry.entries * pages.size
    for peer, one, memory in zip(plan.peers, guarded, memories, strict=True):
        one.memory[:] = path.get(memory)
        one.check_red_zones()
        want = pack_reference(pools, order, pages.tolist(), plan, peer)
        assert np.array_equal(one.chunk[: want.size], want)
        assert (one.chunk[want.size : peer.digest_offset] == POISON).all(), "wrote between"
        of_pages = page_digests(want.reshape(count, -1), entries=geometry.entries)
        assert np.array_equal(digests_in(peer, one.chunk), of_pages)


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("chunk_order", Order)
def test_four_writers_merge_at_once_or_one_by_one(
    path: Path, order: Order, chunk_order: Order
) -> None:
    geometry = Geometry(2, pages=6, tokens=4, heads=7, row_bytes=64, order=order)
    writers = (HeadRange(0, 1), HeadRange(1, 3), HeadRange(4, 2), HeadRange(6, 1))
    pools = new_pools(geometry)
    pages = _page_list("random", geometry.pages)
    layouts = [path.layout([pool.copy() for pool in pools], order) for _ in range(2)]
    plan = plan_for(layouts[0], pages.size, order=chunk_order, peers=writers)
    generator = np.random.default_rng(8)
    chunks = [generator.integers(0, 256, peer.payload_bytes, dtype=np.uint8) for peer in plan.peers]
    placed = [path.put(chunk) for chunk in chunks]
    unpack_slices(layouts[0], pages, placed, writers, order=chunk_order)
    for writer, chunk in zip(writers, placed, strict=True):
        unpack_slices(layouts[1], pages, [chunk], [writer], order=chunk_order)
    for peer, chunk in zip(plan.peers, chunks, strict=True):
        unpack_reference(pools, order, pages.tolist(), plan, peer, chunk)
    for layout in layouts:
        for pool, want in zip(layout.pools, pools, strict=True):
            assert np.array_equal(path.get(pool), want)


def test_several_geometries_share_a_chunk(path: Path) -> None:
    """A latent and an index row of MLA, and a pool of another width between them."""
    latent = new_pools(Geometry(2, pages=6, tokens=8, heads=1, row_bytes=656))
    index = new_pools(Geometry(3, pages=6, tokens=8, heads=1, row_bytes=132), seed=1)
    wide = new_pools(Geometry(1, pages=6, tokens=8, heads=2, row_bytes=512), seed=2)
    pools = [*latent[:1], *index, *wide, *latent[1:]]
    layout = path.layout(pools)
    pages = _page_list("random", 6)
    plan = plan_for(layout, pages.size)
    chunk = path.put(Guarded.of(plan.only.bytes).chunk)
    pack_chunk(layout, pages, chunk, digests=digests_in(plan.only, chunk))
    want = pack_reference(pools, Order.NHD, pages.tolist(), plan, plan.only)
    assert np.array_equal(path.get(chunk)[: want.size], want)
    target = path.layout([np.full_like(pool, POISON) for pool in pools])
    report = new_report(target)
    unpack_chunk(target, pages, chunk, expected=digests_in(plan.only, chunk), report=report)
    assert report.read().clean
    for got, pool in zip(target.pools, pools, strict=True):
        assert np.array_equal(path.get(got)[pages], pool[pages])


@pytest.mark.parametrize("path", ["native"], indirect=True)
def test_entries_that_take_turns_are_one_native_call(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Latents and indexer rows, layer by layer: a call for each would be most of the time."""
    latents = new_pools(Geometry(61, pages=3, tokens=1, heads=1, row_bytes=1152))
    rows = new_pools(Geometry(61, pages=3, tokens=1, heads=1, row_bytes=132), seed=1)
    layout = path.layout([pool for pair in zip(latents, rows, strict=True) for pool in pair])
    assert len(layout.groups) == 122
    plan, report = plan_for(layout, 2).only, new_report(layout)
    chunk = np.zeros(plan.bytes, np.uint8)
    sums = digests_in(plan, chunk)
    calls = {name: mock.Mock(wraps=getattr(native, name)) for name in ("gather", "scatter")}
    for name, call in calls.items():
        monkeypatch.setattr(native, name, call)
    pack_chunk(layout, [2, 0], chunk, digests=sums)
    unpack_chunk(layout, [1, 0], chunk, expected=sums, report=report)
    assert report.read().clean
    for call in calls.values():
        call.assert_called_once()


@pytest.mark.parametrize("shift", [0, 2, 4, 8])
def test_misaligned_pools_are_packed_all_the_same(path: Path, shift: int) -> None:
    """No copy may assume 16 bytes: a view into a larger buffer starts anywhere."""
    base = np.random.default_rng(9).integers(0, 256, 3 * 4 * 2 * 64 + 16, dtype=np.uint8)
    placed = path.put(base)
    pool = placed[shift : shift + 3 * 4 * 2 * 64].reshape(3, 4, 2, 64)
    layout = path.layout([np.zeros((3, 4, 2, 64), np.uint8)])
    layout = path.relayout(layout, [pool])
    plan = plan_for(layout, 2)
    chunk = path.put(np.full(plan.only.bytes, POISON, np.uint8))
    pack_chunk(layout, [2, 0], chunk, digests=digests_in(plan.only, chunk))
    want = base[shift:][: 3 * 512].reshape(3, 4, 2, 64)[[2, 0]].reshape(-1)
    assert np.array_equal(path.get(chunk)[: want.size], want)
    report = new_report(layout)
    unpack_chunk(layout, [0, 2], chunk, expected=digests_in(plan.only, chunk), report=report)
    assert report.read().clean
    swapped = path.get(placed)[shift:][: 3 * 512].reshape(3, 512)[[0, 2]].reshape(-1)
    assert np.array_equal(swapped, want)


def test_interleaved_pools(path: Path) -> None:
    """K and V of a page side by side, as one tensor [page, 2, token, head, dim]."""
    both = np.random.default_rng(10).integers(0, 256, (6, 2, 4, 2, 64), dtype=np.uint8)
    placed = path.put(both)
    layout = path.relayout(path.layout([both[:, 0].copy()]), [placed[:, 0], placed[:, 1]])
    pages = np.array([5, 1, 1, 0])
    plan = plan_for(layout, 4)
    chunk = path.put(np.full(plan.only.payload_bytes, POISON, np.uint8))
    pack_chunk(layout, pages, chunk)
    want = both[pages].transpose(1, 0, 2, 3, 4).reshape(-1)
    assert np.array_equal(path.get(chunk), want)


def test_int32_pages_and_no_pages(path: Path) -> None:
    geometry = GEOMETRIES["llama tp8"]
    pools = new_pools(geometry)
    layout = path.layout(pools)
    pages = np.array([3, 1], np.int32)
    plan = plan_for(layout, 2)
    chunk = path.put(np.full(plan.only.bytes, POISON, np.uint8))
    assert pack_chunk(layout, [], chunk).pages == 0
    assert unpack_chunk(layout, np.empty(0, np.int32), chunk).pages == 0
    assert (path.get(chunk) == POISON).all()
    pack_chunk(layout, pages, chunk)
    want = pack_reference(pools, Order.NHD, [3, 1], plan, plan.only)
    assert np.array_equal(path.get(chunk)[: want.size], want)
