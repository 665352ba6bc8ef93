"""The compiled copies at the sizes that they store past the cache, and at those below."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pdproto.kernels import native
from pdproto.kernels.digest import page_digests
from tests.kernels.pools import POISON

PAST_THE_CACHE: int = (8 << 20) + 1  # CACHED_MAX of copy.c, and a byte
KEY = 12345
ZONE = 4096
ROWS_MAX = 1 << 18  # more rows, of fewer bytes, show nothing that those do not
SIZES = [
    (total, row_bytes)
    for total in (4_096, PAST_THE_CACHE)
    for row_bytes in (1, 7, 24, 64, 100, 656, 1_152, 4_104, 32_768)
    if total <= row_bytes * ROWS_MAX
]

pytestmark = pytest.mark.skipif(not native.available(), reason="copy.c was not compiled")


def _between_zones(size: int, offset: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """So many bytes, so far from the start of a line, and all the memory around them."""
    whole = np.full(size + 2 * ZONE + 64, POISON, np.uint8)
    first = ZONE + (-whole.ctypes.data % 64) + offset
    return whole[first:first + size], whole


@pytest.mark.parametrize(("total", "row_bytes"), SIZES)
@pytest.mark.parametrize("offset", [0, 1, 8, 16, 60])
def test_every_row_and_no_other_byte_is_copied(total: int, row_bytes: int, offset: int) -> None:
    count = -(-total // row_bytes)
    random = np.random.default_rng(row_bytes + offset)
    pages = random.permutation(count + 3)[:count].astype(np.int64)
    chunk, around_chunk = _between_zones(count * row_bytes, offset)
    pool, around_pool = _between_zones((count + 3) * row_bytes, offset)
    pool[...] = random.integers(0, 256, pool.size, np.uint8)
    rows = pool.reshape(-1, row_bytes)
    routes = native.NativeRoutes([native.NativeRoute((rows,), np.zeros(1, np.int64), 1)])
    for digests in (None, np.empty(count, np.uint64)):
        chunk[...] = POISON
        native.gather(routes, pages, chunk, digests, KEY)
        assert np.array_equal(chunk.reshape(-1, row_bytes), rows[pages])
        if digests is not None:
            assert np.array_equal(digests, page_digests(rows[pages], KEY))
    wanted = random.integers(0, 256, chunk.size, np.uint8)
    chunk[...] = wanted
    for digests in (None, np.empty(count, np.uint64)):
        rows[...] = POISON
        native.scatter(routes, pages, chunk, digests, KEY)
        assert np.array_equal(rows[pages], wanted.reshape(-1, row_bytes))
        untouched = np.setdiff1d(np.arange(count + 3), pages)
        assert (rows[untouched] == POISON).all()
        if digests is not None:
            assert np.array_equal(digests, page_digests(wanted.reshape(-1, row_bytes), KEY))
    for part, around in ((chunk, around_chunk), (pool, around_pool)):
        part[...] = POISON
        assert (around == POISON).all(), "a byte beside what was to be written"


@pytest.mark.parametrize("row_bytes", [12, 64, 1_000])
def test_pages_of_several_rows_past_the_cache(row_bytes: int) -> None:
    """A digest is of a page as it lies in the chunk, whose words may begin in one row and end in
    the next.
    """
    pattern = np.array([5, 1, 2], np.int64)  # of the rows of a page, in the order of the chunk
    count = -(-PAST_THE_CACHE // (3 * row_bytes))
    pool, _ = _between_zones(6 * row_bytes * count, 0)
    random = np.random.default_rng(row_bytes)
    pool[...] = random.integers(0, 256, pool.size, np.uint8)
    rows = pool.reshape(count, 6, row_bytes)
    one = native.NativeRoute((rows.reshape(-1, row_bytes),), pattern, 6)
    routes = native.NativeRoutes([one])
    pages = random.permutation(count).astype(np.int64)
    wanted = rows[pages][:, pattern].reshape(count, -1)
    chunk, digests = np.empty(wanted.size, np.uint8), np.empty(count, np.uint64)
    native.gather(routes, pages, chunk, digests, KEY)
    assert np.array_equal(chunk.reshape(wanted.shape), wanted)
    assert np.array_equal(digests, page_digests(wanted, KEY))
    rows[...] = 0
    digests[...] = 0
    native.scatter(routes, pages, chunk, digests, KEY)
    assert np.array_equal(rows[pages][:, pattern].reshape(count, -1), wanted)
    assert np.array_equal(digests, page_digests(wanted, KEY))
