"""Pages as a target: every byte where it is to be used, no other byte touched, digests compared."""

from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdproto.engine.contract import Result
from pdproto.kernels.chunk import KVLayout, Order, register
from pdproto.pages.chunks import (
    chunk_bytes,
    chunk_offset,
    key_of,
    key_of_chunk,
    pack_pages,
)
from pdproto.pages.page_target import PagePlaces, PageTarget
from pdproto.runtime.errors import RemoteProtocolError
from tests.engine.engines import ENGINES, Pair, write
from tests.tiers import examples

KEY: Final = key_of("room 7", 3)
PAGES: Final = 12


def pools_of(seed: int, row_bytes: int = 24, gap: int = 0) -> list[NDArray[np.uint8]]:
    """Pools of two shapes, [page, token, head, byte]. gap: bytes between pages of the first."""
    rng = np.random.default_rng(seed)
    wide = rng.integers(0, 256, (PAGES, 3 * 2 * row_bytes + gap), np.uint8)
    first = wide[:, : 3 * 2 * row_bytes].reshape(PAGES, 3, 2, row_bytes) if not gap else (
        np.lib.stride_tricks.as_strided(
            wide, (PAGES, 3, 2, row_bytes), (wide.strides[0], 2 * row_bytes, row_bytes, 1)))
    return [first, *(rng.integers(0, 256, (PAGES, 3, 1, 7), np.uint8) for _ in range(2))]


def scatter(target: PageTarget, offset: int, data: NDArray[np.uint8]) -> None:
    """What an engine does with the bytes of a write."""
    at = 0
    for place in target.places(offset, data.size):
        place[:] = data[at : at + place.nbytes].data
        at += place.nbytes
    assert at == data.size


def send(target: PageTarget, ours: KVLayout, chunks: list[list[int]], key: int = KEY) -> None:
    first = 0
    for pages in chunks:
        offset = chunk_offset(ours, first)
        scatter(target, offset, pack_pages(ours, pages, key_of_chunk(key, offset)))
        first += len(pages)


@st.composite
def transfers(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Pages at the source, pages at the sink, and the sizes of the chunks."""
    count = draw(st.integers(0, PAGES))
    ours = draw(st.permutations(range(PAGES)))[:count]
    theirs = draw(st.permutations(range(PAGES)) | st.just(range(PAGES)))[:count]
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=3)))
    bounds = [0, *cuts, count]
    return list(ours), list(theirs), [b - a for a, b in pairwise(bounds)]


def cut(pages: list[int], chunks: list[int]) -> list[list[int]]:
    parts, first = [], 0
    for count in chunks:
        parts.append(pages[first : first + count])
        first += count
    return parts


@given(case=transfers(), row_bytes=st.sampled_from([1, 24, 62]), gap=st.sampled_from([0, 5]))
@settings(max_examples=examples(40, 150))
def test_every_byte_lands_in_its_page_and_no_other_is_touched(
    case: tuple[list[int], list[int], list[int]], row_bytes: int, gap: int
) -> None:
    ours, theirs, chunks = case
    from_pools, to_pools = pools_of(1, row_bytes), pools_of(2, row_bytes, gap)
    before = [pool.copy() for pool in to_pools]
    target = PagePlaces(register(to_pools)).target(theirs)
    send(target, register(from_pools), cut(ours, chunks))
    assert target.intact(chunks, KEY)
    for source, sink, old in zip(from_pools, to_pools, before, strict=True):
        old[theirs] = source[ours]
        np.testing.assert_array_equal(sink, old)


@given(place=st.integers(0, 1 << 30), bit=st.integers(0, 7))
@settings(max_examples=examples(30, 100))
def test_a_single_flipped_bit_is_found_where_it_lies(place: int, bit: int) -> None:
    to_pools = pools_of(2)
    theirs = [4, 0, 9]
    target = PagePlaces(register(to_pools)).target(theirs)
    send(target, register(pools_of(1)), [[1, 2], [3]])
    pool = to_pools[place % 3]
    page = theirs[place // 3 % 3]
    row = pool[page].reshape(-1)
    row[place // 9 % row.size] ^= 1 << bit
    assert not target.intact([2, 1], KEY)


def test_bytes_of_another_life_or_missing_bytes_are_not_intact() -> None:
    ours = register(pools_of(1))
    places = PagePlaces(register(pools_of(2)))
    target = places.target([4, 0, 9])
    assert not target.intact([3], KEY), "nothing has come"
    send(target, ours, [[1, 2]])
    assert target.intact([2], KEY)
    assert not target.intact([2, 1], KEY), "the last page has not come"
    assert not target.intact([1, 1], KEY), "the chunks were others"
    assert not target.intact([2], key_of("room 7", 2)), "the life is another"
    assert places.target([]).intact([0], KEY)


def test_the_pages_of_another_life_are_not_in_reach() -> None:
    """Whatever a source says that it writes: it is a chunk of its own pages, or dropped."""
    ours = register(pools_of(1))
    target = PagePlaces(register(pools_of(2))).target([4, 0])
    one = chunk_bytes(ours, 1)
    for offset, length in ((1, one), (0, one - 1), (0, one + 1), (one, chunk_bytes(ours, 2)),
                           (2 * one, one), (0, 3 * one), (0, 1)):
        with pytest.raises(RemoteProtocolError, match="are no chunk of 2 pages"):
            target.places(offset, length)
    assert list(target.places(one, 0)) == []


def test_pages_that_cannot_be_written_to_in_place_are_refused() -> None:
    wide = np.zeros((PAGES, 3, 4, 24), np.uint8)
    with pytest.raises(ValueError, match=r"pools\[1\]: the bytes of a page are not contiguous"):
        PagePlaces(register([np.zeros((PAGES, 3, 4, 24), np.uint8), wide[:, :, :2]]))
    places = PagePlaces(register([wide]))
    PagePlaces(register([wide], order=Order.HND))
    with pytest.raises(ValueError, match=f"page {PAGES} does not exist: the pools have {PAGES}"):
        places.target([PAGES])
    with pytest.raises(ValueError, match="more than once"):
        places.target([1, 1])


@pytest.mark.parametrize("engine", [ENGINES["tcp"]], ids=["tcp"])
def test_a_write_that_is_no_chunk_drops_its_source_and_touches_nothing(pair: Pair) -> None:
    pools: list[Any] = pools_of(2)
    before = [pool.copy() for pool in pools]
    target = PagePlaces(register(pools)).target([3, 5])
    lease = pair.sink.lease("life", "source", target.length, target)
    assert lease is not None
    outcome = write(pair.source, lease.address, bytes(target.length - 1))
    assert outcome.result is not Result.LANDED
    assert pair.sink.counts().dropped_peers == 1
    for pool, old in zip(pools, before, strict=True):
        np.testing.assert_array_equal(pool, old)
    data = pack_pages(register(pools_of(1)), [1, 2], KEY)
    assert write(pair.source, lease.address, data).result is Result.LANDED
    assert target.intact([2], KEY)
