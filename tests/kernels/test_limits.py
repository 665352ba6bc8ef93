"""Sizes at which 32-bit offsets, grids and registers of narrower kernels end."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdproto.kernels.chunk import (
    Order,
    digests_in,
    new_report,
    pack_chunk,
    pack_slices,
    plan_for,
    unpack_chunk,
    unpack_slices,
)
from pdproto.kernels.plan import HeadRange
from pdproto.kernels.table import NUMERATOR_MAX, Table, division, table_of
from pdproto.kernels.tiling import tiling_for, variant_for
from tests.kernels.paths import PATHS, Path, on_cpu
from tests.kernels.pools import POISON, Geometry, new_pools
from tests.kernels.reference import pack_reference, unpack_reference
from tests.tiers import examples

GIGABYTES: int = 6 << 30


@pytest.fixture
def vast(tmp_path: pathlib.Path) -> NDArray[np.uint8]:
    """Six gigabytes of a sparse file; only what is touched takes memory."""
    return np.asarray(np.memmap(tmp_path / "vast", np.uint8, "w+", shape=(GIGABYTES,)))


# Address space without memory is for processors; `python -m lab bench` packs 10 GB on a GPU.
@on_cpu
def test_pools_beyond_32_bits(path: Path, vast: NDArray[np.uint8]) -> None:
    """Pages 2**31 and 2**32 bytes into a pool, and in-page strides as large."""
    shape, page = (6, 4, 2, 64), GIGABYTES // 6
    pool = np.lib.stride_tricks.as_strided(vast, shape, (page, 128, 64, 1))
    like = path.layout([np.zeros((1, 1, 1, 1), np.uint8)])
    layout = path.relayout(like, [path.put(pool)])
    pages = np.array([5, 0, 3, 2])
    data = np.random.default_rng(1).integers(0, 256, (4, 4, 2, 64), dtype=np.uint8)
    pool[pages] = data
    plan = plan_for(layout, 4)
    chunk = path.put(np.full(plan.only.bytes, POISON, np.uint8))
    pack_chunk(layout, pages, chunk, digests=digests_in(plan.only, chunk))
    assert np.array_equal(path.get(chunk)[: data.size], data.reshape(-1))
    pool[pages] = 0
    report = new_report(layout)
    unpack_chunk(layout, pages, chunk, expected=digests_in(plan.only, chunk), report=report)
    assert report.read().clean
    assert np.array_equal(pool[pages], data)


@on_cpu
@pytest.mark.parametrize("order", Order)
def test_heads_more_than_31_bits_apart(path: Path, vast: NDArray[np.uint8], order: Order) -> None:
    """A pool with its heads outermost: a page's rows are gigabytes apart."""
    strides = (4096, 64, 2 << 30, 1)
    pool = np.lib.stride_tricks.as_strided(vast, (3, 4, 3, 64), strides)
    data = np.random.default_rng(2).integers(0, 256, pool.shape, dtype=np.uint8)
    pool[:] = data
    like = path.layout([np.zeros((1, 1, 1, 1), np.uint8)])
    placed = path.put(pool if order is Order.NHD else pool.transpose(0, 2, 1, 3))
    layout = path.relayout(like, [placed], order)
    plan = plan_for(layout, 3)
    chunk = path.put(np.full(plan.only.payload_bytes, POISON, np.uint8))
    pack_chunk(layout, [2, 0, 1], chunk)
    want = data[[2, 0, 1]]
    want = want if order is Order.NHD else want.transpose(0, 2, 1, 3)
    assert np.array_equal(path.get(chunk), want.reshape(-1))
    pool[:] = 0
    unpack_chunk(layout, [2, 0, 1], chunk)
    assert np.array_equal(pool, data)


def test_seventy_thousand_pages(path: Path) -> None:
    """More than a grid's second axis holds."""
    pools = new_pools(Geometry(entries=1, pages=70_000, tokens=1, heads=1, row_bytes=32))
    layout = path.layout(pools)
    pages = np.random.default_rng(3).permutation(70_000)
    plan = plan_for(layout, pages.size)
    chunk = path.put(np.full(plan.only.payload_bytes, POISON, np.uint8))
    pack_chunk(layout, pages, chunk)
    assert np.array_equal(path.get(chunk), pools[0][pages].reshape(-1))


@given(divisor=st.integers(1, NUMERATOR_MAX), numerator=st.integers(0, NUMERATOR_MAX))
@settings(max_examples=examples(80, 300))
def test_division_by_multiplication_is_exact(divisor: int, numerator: int) -> None:
    factor, shift = division(divisor)
    assert factor < 1 << 32
    edges = {numerator, NUMERATOR_MAX, NUMERATOR_MAX // divisor * divisor}
    edges |= {edge - 1 for edge in edges if edge}
    for edge in edges:
        assert ((edge + 1) * factor >> 32) >> shift == edge // divisor


def test_division_refuses_numbers_past_its_limit() -> None:
    for divisor in (0, -1, NUMERATOR_MAX + 1):
        with pytest.raises(ValueError, match="divisor"):
            division(divisor)


@given(
    page_bytes=st.integers(1, 300).map(lambda n: 16 * n),
    pages=st.integers(1, 40), sections=st.integers(1, 5), digest=st.booleans(),
    even=st.booleans(),
)  # fmt: skip
def test_tiles_cover_every_unit_once(
    page_bytes: int, pages: int, sections: int, digest: bool, even: bool
) -> None:
    """Counted as the kernel does, over the programs' tile numbers."""
    table = Table(np.zeros((1, 14), np.int64), 16, 0, wide=False, page_bytes=page_bytes, even=even)
    variant = variant_for(
        table, from_pool=True, store=True, digest=int(digest), check=False, peers=False
    )
    tiling = tiling_for(variant, table, sections=sections, pages=pages)
    assert tiling.tiles == sections * tiling.page_tiles * tiling.segments
    page_units, seen = page_bytes // 16, np.zeros(pages * page_bytes // 16, int)
    for tile in range(tiling.page_tiles * tiling.segments):
        segment, page_tile = tile % tiling.segments, tile // tiling.segments
        unit = segment * variant.units + np.arange(variant.units)[None, :]
        position = page_tile * variant.pages + np.arange(variant.pages)[:, None]
        if variant.flat:
            unit = unit + page_tile * variant.units
            position, unit = unit // page_units, unit % page_units
        elif digest:
            unit = np.arange(page_units)[None, :]
        inside = (position < pages) & (unit < page_units)
        np.add.at(seen, (position * page_units + unit)[inside], 1)
    assert (seen == 1).all()


def test_no_tile_number_passes_31_bits() -> None:
    """Every program steps once past the last tile, by up to as many as there are."""
    table = Table(np.zeros((1, 14), np.int64), 16, 0, wide=False, page_bytes=16384, even=True)
    variant = variant_for(table, from_pool=True, store=True, digest=0, check=False, peers=False)
    most = tiling_for(variant, table, sections=65_535, pages=1 << 14)
    assert 2 * most.tiles - 1 <= NUMERATOR_MAX
    with pytest.raises(ValueError, match="ask for fewer"):
        tiling_for(variant, table, sections=65_535, pages=(1 << 14) + 1)
    # Nor does an atom's, though the last tile of a page reaches past the page's end.
    table = Table(np.zeros((1, 14), np.int64), 1, 0, wide=False, page_bytes=2**31 - 8, even=True)
    variant = variant_for(table, from_pool=True, store=True, digest=0, check=False, peers=False)
    with pytest.raises(ValueError, match="ask for fewer"):
        tiling_for(variant, table, sections=1, pages=1)


def test_the_narrowest_alignment_decides() -> None:
    """One pool two bytes off makes every access of the layout two bytes wide."""
    for shift, atom in ((0, 16), (8, 8), (4, 4), (2, 2), (1, 1)):
        base = np.zeros(2 * 256 + 32, np.uint8)
        start = -base.ctypes.data % 16 + shift
        pool = base[start : start + 512].reshape(2, 2, 2, 64)
        layout = PATHS["numpy"].layout([np.zeros((2, 2, 2, 64), np.uint8), pool])
        aligned = all(address % 16 == shift for address in list(layout.addresses())[1:])
        assert aligned
        assert table_of(layout, plan_for(layout, 1)).atom == atom
    layout = PATHS["numpy"].layout([np.zeros((2, 4, 3, 132), np.uint8)])
    sliced = plan_for(layout, 1, peers=[HeadRange(1, 2)])
    assert table_of(layout, sliced).atom == 4
    assert table_of(layout, sliced).depth == 1


PAGE_LISTS = st.lists(st.integers(0, 5), min_size=1, max_size=9)


@settings(
    max_examples=examples(8, 25), deadline=None,
    # The path is the same for all examples of a test.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    order=st.sampled_from(Order), tokens=st.integers(1, 5), heads=st.integers(1, 6),
    row_bytes=st.sampled_from([1, 2, 8, 20, 48, 128, 656]), pages=PAGE_LISTS, data=st.data(),
)  # fmt: skip
def test_any_layout_and_any_pages(
    path: Path, order: Order, tokens: int, heads: int, row_bytes: int, pages: list[int],
    data: st.DataObject,
) -> None:  # fmt: skip
    geometry = Geometry(2, pages=6, tokens=tokens, heads=heads, row_bytes=row_bytes, order=order)
    first = data.draw(st.integers(0, heads - 1))
    peer = HeadRange(first, data.draw(st.integers(1, heads - first)))
    pools = new_pools(geometry)
    layout = path.layout(pools, order)
    plan = plan_for(layout, len(pages), peers=[peer])
    chunk = path.put(np.full(plan.only.payload_bytes + 16, POISON, np.uint8))
    start = -_address(chunk) % 16
    target = chunk[start : start + plan.only.payload_bytes]
    pack_slices(layout, pages, [target], [peer])
    want = pack_reference(pools, order, pages, plan, plan.only)
    assert np.array_equal(path.get(target), want)
    around = path.get(chunk)
    assert (around[:start] == POISON).all()
    assert (around[start + target.shape[0] :] == POISON).all()

    once = list(dict.fromkeys(pages))
    plan = plan_for(layout, len(once), peers=[peer])
    source = np.random.default_rng(4).integers(0, 256, plan.only.payload_bytes, dtype=np.uint8)
    expected = [pool.copy() for pool in pools]
    unpack_slices(layout, once, [path.put(source)], [peer])
    unpack_reference(expected, order, once, plan, plan.only, source)
    for pool, want in zip(layout.pools, expected, strict=True):
        assert np.array_equal(path.get(pool), want)


def _address(chunk: object) -> int:
    assert hasattr(chunk, "data_ptr") or isinstance(chunk, np.ndarray)
    return int(chunk.ctypes.data if isinstance(chunk, np.ndarray) else chunk.data_ptr())
