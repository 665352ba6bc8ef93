"""Pages from where they lie: the bytes of a packed chunk, through every engine."""

from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from pdproto.engine.contract import Result
from pdproto.kernels.chunk import register
from pdproto.pages.chunks import chunk_bytes, key_of, pack_pages, unpack_verified
from pdproto.pages.page_target import VIEW_BYTES_MIN, PagePlaces, chunk_views, places_in
from tests.engine.engines import Pair, finished

KEY: Final = key_of("room 7", 3)
PAGES: Final = 40


def pools_of(seed: int, page_bytes: int, entries: int = 3) -> list[NDArray[np.uint8]]:
    """[page, token, head, byte], each a pool of one entry."""
    generator = np.random.default_rng([seed, page_bytes])
    return [generator.integers(0, 256, (PAGES, 1, 1, page_bytes), np.uint8)
            for _ in range(entries)]


@pytest.mark.parametrize("pages", [[3], [4, 5, 6], [39, 0, 7, 8], [9, 9]], ids=str)
@pytest.mark.parametrize("page_bytes", [VIEW_BYTES_MIN, VIEW_BYTES_MIN + 1, 3])
def test_the_views_of_a_chunk_are_the_bytes_that_are_packed(
    page_bytes: int, pages: list[int]
) -> None:
    layout = register(pools_of(1, page_bytes))
    views = chunk_views(PagePlaces(layout), pages, KEY)
    together = b"".join(bytes(view) for view in views)
    assert together == pack_pages(layout, pages, KEY).tobytes()


def test_posted_pages_lie_in_the_pools() -> None:
    pools = pools_of(1, VIEW_BYTES_MIN)
    first, *_ = chunk_views(PagePlaces(register(pools)), [2, 3, 5], KEY)
    assert np.shares_memory(np.frombuffer(first, np.uint8), pools[0][2:4])


def test_a_page_that_there_is_not_is_refused() -> None:
    places = PagePlaces(register(pools_of(1, VIEW_BYTES_MIN)))
    with pytest.raises(ValueError, match=f"page {PAGES} does not exist: the pools have {PAGES}"):
        chunk_views(places, [0, PAGES], KEY)


def test_small_pages_and_pages_in_pieces_are_packed() -> None:
    large = pools_of(1, VIEW_BYTES_MIN)
    assert places_in(register(large)) is not None
    assert places_in(register([*large, *pools_of(1, VIEW_BYTES_MIN - 1)])) is None
    heads = [pool.reshape(PAGES, 4, 2, -1)[:, :, :1] for pool in pools_of(1, 4 * VIEW_BYTES_MIN)]
    assert places_in(register(heads)) is None


@pytest.mark.parametrize("page_bytes", [640, VIEW_BYTES_MIN])
def test_scattered_pages_arrive_as_one_chunk(pair: Pair, page_bytes: int) -> None:
    """In one write are more views than one segment has, and more bytes."""
    ours, theirs = pools_of(1, page_bytes, entries=16), pools_of(2, page_bytes, entries=16)
    source, sink = register(ours), register(theirs)
    pages, others = list(range(0, PAGES, 2)), list(range(PAGES - 1, 0, -2))
    lease = pair.sink.lease("life", "source", chunk_bytes(source, len(pages)))
    assert lease is not None
    pair.source.post(lease.address, 0, chunk_views(PagePlaces(source), pages, KEY))
    (outcome,) = finished(pair.source)
    assert outcome.result is Result.LANDED
    assert unpack_verified(sink, pair.sink.view(lease), others, KEY).clean
    for mine, right in zip(theirs, ours, strict=True):
        assert (mine[others] == right[pages]).all()
