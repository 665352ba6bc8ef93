"""The compiled copies at the sizes that they store past the cache, and at those below."""

from __future__ import annotations

from threading import current_thread

import numpy as np
import pytest
from numpy.typing import NDArray

from pdproto.kernels import host, native
from pdproto.kernels.chunk import (
    HeadRange,
    Launch,
    digests_in,
    new_report,
    pack_chunk,
    pack_slices,
    plan_for,
    register,
    unpack_slices,
)
from pdproto.kernels.digest import page_digests
from tests.kernels.pools import POISON, Geometry, new_pools

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


@pytest.mark.parametrize("threads", [2, 3, 16])
@pytest.mark.parametrize("peers", [None, (HeadRange(0, 1), HeadRange(1, 2))])
def test_threads_copy_the_same_bytes_and_digests(
    threads: int, peers: tuple[HeadRange, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of two geometries, so that a share begins within a part and ends in the next."""
    monkeypatch.setattr(native, "SHARED_BYTES_MIN", 0)
    pools = [pool for row, entries in ((24, 3), (64, 4)) for pool in new_pools(
        Geometry(entries=entries, pages=9, tokens=2, heads=3, row_bytes=row))]
    source = register(pools)
    pages = np.array([8, 0, 5, 3])
    plan = plan_for(source, pages.size, peers=peers)
    found = []
    for count in (1, threads):
        sinks = [np.zeros_like(pool) for pool in pools]
        sink = register(sinks)
        chunks = [np.zeros(peer.bytes, np.uint8) for peer in plan.peers]
        sums = [digests_in(peer, chunk) for peer, chunk in zip(plan.peers, chunks, strict=True)]
        launch, report = Launch(threads=count), new_report(sink)
        pack_slices(source, pages, chunks, peers, digests=sums, key=7, launch=launch)
        unpack_slices(sink, pages, chunks, peers, expected=sums, key=7, report=report,
                      launch=launch)
        assert report.read().clean
        found.append([*chunks, *sinks])
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)
    for stored, pool in zip(found[1][-len(pools):], pools, strict=True):
        assert np.array_equal(stored[pages], pool[pages])


def test_each_thread_takes_whole_entries_and_none_takes_two_shares(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = new_pools(Geometry(entries=7, pages=9, tokens=2, heads=3, row_bytes=24))
    layout = register(pools)
    plan = plan_for(layout, 1)
    for threads in range(1, 9):
        routes = host._found(layout, plan, plan.only)[2]
        shares = routes.shares(threads)
        assert len(shares) == min(threads, 7)
        assert [share.first for share in shares] == [0, *(share.last for share in shares[:-1])]
        assert shares[-1].last == 7
        assert [share.before for share in shares] == [144 * share.first for share in shares]
    taken: list[str] = []
    gather = native._library().kv_gather_parts
    monkeypatch.setattr(native, "SHARED_BYTES_MIN", 0)

    def gather_seen(*of: object) -> None:
        taken.append(current_thread().name)
        gather(*of)

    monkeypatch.setattr(native._library(), "kv_gather_parts", gather_seen)
    pack_chunk(layout, [4], np.zeros(plan.only.bytes, np.uint8), launch=Launch(threads=3))
    assert len(taken) == 3
    assert sum(name.startswith("pdproto-copy") for name in taken) == 2


def test_no_threads_are_refused() -> None:
    with pytest.raises(ValueError, match="launch: threads must be at least 1, got 0"):
        Launch(threads=0)
