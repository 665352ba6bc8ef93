"""The CPU path: it copies rows of the pools as bytes, for every element type.

A copy takes rows of equal length from computed row numbers, or puts them there. copy.c does it
where it was compiled (native.py), else numpy. `np.take` into the chunk with mode="clip" and
`pool[rows] = chunk` are the two forms of numpy that run near the speed of memcpy. "clip" never
clips here, because page numbers are checked before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels import native
from pdproto.kernels.digest import BLOCK_BYTES, key_at, page_digests
from pdproto.kernels.layout import EntryGroup, KVLayout, Order
from pdproto.kernels.plan import ChunkPart, ChunkPlan, PeerPlan
from pdproto.kernels.report import HostReport

Bytes = NDArray[np.uint8]
Index = NDArray[np.int64]

# Up to this many rows, one call for all entries beats one call per entry; beyond it, the row
# numbers themselves would leave the cache.
JOINED_ROWS_MAX: Final = 16_384

# Up to this many bytes, pages of all entries are gathered first and digested by one call.
GATHERED_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Route:
    """The places of the rows of one part: row r of page p of a pool is p * page_rows + pattern[r].

    `pools` are uint8 [row, byte]. Where the pools are evenly spaced, `joined` spans them all and
    entry e starts at row `entry_starts[e]`; the bytes between pools are never touched.
    """

    pattern: Index
    page_rows: int
    pools: tuple[Bytes, ...]
    joined: Bytes | None
    entry_starts: Index  # [entry, 1]
    compiled: native.NativeRoute

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return int(self.pools[0].shape[1])

    @property
    def whole_pages(self) -> bool:
        """Whether a page is one row and pages are adjacent, so that row numbers are pages."""
        return self.page_rows == 1 and self.pattern.size == 1


_Found = tuple[tuple[ChunkPart, ...], tuple[Route, ...], native.NativeRoutes]
_Known = dict[tuple[int, bool], _Found]
_ROUTES: Final[WeakKeyDictionary[KVLayout, _Known]] = WeakKeyDictionary()


def _memory(address: int, rows: int, row_bytes: int) -> Bytes:
    """View memory that a layout keeps alive."""
    block = (ctypes.c_uint8 * (rows * row_bytes)).from_address(address)
    return np.frombuffer(memoryview(block), np.uint8).reshape(rows, row_bytes)


def _pattern(group: EntryGroup, part: ChunkPart, order: Order) -> tuple[int, Index]:
    """The row length in bytes and the byte offset of every row of a page, in chunk order."""
    geometry = group.geometry
    axes = [(part.tokens, geometry.token_stride), (part.heads.count, geometry.head_stride)]
    if order is Order.HND:
        axes.reverse()
    run = geometry.shape.row_bytes
    while axes and (axes[-1][0] == 1 or axes[-1][1] == run):
        run *= axes.pop()[0]
    first = part.heads.first * geometry.head_stride
    # A slice may start inside a run of its pool, which then counts in shorter rows.
    length = gcd(run, first, geometry.page_stride, *(stride for _, stride in axes))
    offsets = np.array([first], np.int64)
    for count, stride in axes:
        offsets = (offsets[:, None] + np.arange(count, dtype=np.int64) * stride).ravel()
    within = np.arange(0, run, length, dtype=np.int64)
    return length, (offsets[:, None] + within).ravel()


def _spacing(group: EntryGroup) -> int:
    """Bytes from one pool to the next, or 0 where pools are not evenly spaced upwards."""
    spacings = {b - a for a, b in pairwise(group.addresses)}
    (spacing,) = spacings if len(spacings) == 1 else (0,)
    return max(spacing, 0)


def _route(layout: KVLayout, group: EntryGroup, part: ChunkPart, order: Order) -> Route:
    length, offsets = _pattern(group, part, order)
    extent = group.geometry.extent(layout.pages)
    spacing = _spacing(group)
    joined = None
    if spacing and spacing % length == 0:
        span = (group.entries - 1) * spacing + extent
        joined = _memory(group.addresses[0], span // length, length)
    pattern, page_rows = offsets // length, group.geometry.page_stride // length
    pools = tuple(_memory(at, extent // length, length) for at in group.addresses)
    return Route(
        pattern=pattern,
        page_rows=page_rows,
        pools=pools,
        joined=joined,
        entry_starts=np.arange(group.entries, dtype=np.int64)[:, None] * (spacing // length),
        compiled=native.NativeRoute(pools, pattern, page_rows),
    )


def routes_of(layout: KVLayout, plan: ChunkPlan, peer: PeerPlan) -> tuple[Route, ...]:
    """The routes of one peer's parts."""
    return _found(layout, plan, peer)[1]


def _found(layout: KVLayout, plan: ChunkPlan, peer: PeerPlan) -> _Found:
    """Parts and their routes, also for copy.c; the first call computes them."""
    known = _ROUTES.setdefault(layout, {})
    # All chunks of a kind share one object of parts, and this dictionary keeps it: its id is
    # unique.
    key = (id(peer.parts), plan.order is Order.NHD)
    found = known.get(key)
    if found is None:
        pairs = zip(layout.groups, peer.parts, strict=True)
        routes = tuple(_route(layout, group, part, plan.order) for group, part in pairs)
        compiled = native.NativeRoutes([route.compiled for route in routes])
        found = known[key] = (peer.parts, routes, compiled)
    return found


def rows_of(route: Route, pages: Index) -> Index:
    """The row numbers of pages, in chunk order."""
    if route.whole_pages:
        return pages + route.pattern[0] if route.pattern[0] else pages
    return (pages[:, None] * route.page_rows + route.pattern).ravel()


def _joined_rows(route: Route, rows: Index) -> Index | None:
    """Row numbers over all entries, or None if a copy for each entry is faster."""
    if route.joined is None or len(route.pools) * rows.size > JOINED_ROWS_MAX:
        return None
    return (route.entry_starts + rows).ravel()


def _run_start(rows: Index) -> int | None:
    """The first row if the rows are consecutive, so that a plain copy is enough; else None."""
    start = int(rows[0])
    if int(rows[-1]) - start != rows.size - 1 or not (np.diff(rows) == 1).all():
        return None
    return start


def gather(
    route: Route, pages: Index, target: Bytes, key: int | None = None
) -> NDArray[np.uint64] | None:
    """Copy pages into `target`, the part's contiguous uint8 bytes. Returns their digests, uint64
    [entry * page], unless `key`, that of the part's first page, is None.
    """
    _gather(route, pages, target)
    if key is None:
        return None
    entries = len(route.pools)
    return page_digests(target.reshape(entries * pages.size, -1), key, entries=entries)


def _gather(route: Route, pages: Index, target: Bytes) -> None:
    rows = rows_of(route, pages)
    joined = _joined_rows(route, rows)
    if joined is not None and route.joined is not None:
        out = target.reshape(-1, route.row_bytes)
        np.take(route.joined, joined, axis=0, out=out, mode="clip")
        return
    shaped = target.reshape(len(route.pools), rows.size, route.row_bytes)
    start = _run_start(rows)
    for pool, out in zip(route.pools, shaped, strict=True):
        if start is not None:
            out[...] = pool[start : start + rows.size]
        else:
            np.take(pool, rows, axis=0, out=out, mode="clip")


def scatter(
    route: Route, pages: Index, source: Bytes, key: int | None = None
) -> NDArray[np.uint64] | None:
    """Copy `source`, the part's contiguous uint8 bytes, into pages. No page may repeat. Returns the
    digests of what the pages then hold, uint64 [entry * page], unless `key` is None, as `gather`.
    """
    _scatter(route, pages, source)
    return None if key is None else pool_digests(route, pages, key)


def _scatter(route: Route, pages: Index, source: Bytes) -> None:
    rows = rows_of(route, pages)
    joined = _joined_rows(route, rows)
    if joined is not None and route.joined is not None:
        route.joined[joined] = source.reshape(-1, route.row_bytes)
        return
    shaped = source.reshape(len(route.pools), rows.size, route.row_bytes)
    start = _run_start(rows)
    for pool, data in zip(route.pools, shaped, strict=True):
        if start is not None:
            pool[start : start + rows.size] = data
        else:
            pool[rows] = data


def part_bytes(chunk: Bytes, peer: PeerPlan, part: ChunkPart) -> Bytes:
    """The bytes of one part of a chunk."""
    start = peer.pages * part.prefix_bytes
    return chunk[start : start + peer.pages * part.entries * part.page_bytes]


def part_key(key: int, part: ChunkPart) -> int:
    """The key of the first page of a part's first entry."""
    return key_at(key, entry=part.first)


def pool_digests(route: Route, pages: Index, key: int) -> NDArray[np.uint64]:
    """Digest pages where they lie in the pools: uint64 [entry * page]."""
    entries, page_bytes = len(route.pools), route.pattern.size * route.row_bytes
    total = entries * pages.size * page_bytes
    if total <= GATHERED_BYTES_MAX:
        scratch = np.empty(total, np.uint8)
        _gather(route, pages, scratch)
        return page_digests(scratch.reshape(-1, page_bytes), key, entries=entries)
    digests = np.empty((entries, pages.size), np.uint64)
    step = max(1, BLOCK_BYTES // page_bytes)
    for start in range(0, pages.size, step):
        rows = rows_of(route, pages[start : start + step])
        scratch = np.empty((rows.size, route.row_bytes), np.uint8)
        for entry, pool in enumerate(route.pools):
            np.take(pool, rows, axis=0, out=scratch, mode="clip")
            here = key_at(key, entry=entry, position=start)
            block = page_digests(scratch.reshape(-1, page_bytes), here)
            digests[entry, start : start + step] = block
    return digests.ravel()


def pack(
    layout: KVLayout,
    plan: ChunkPlan,
    pages: Index,
    chunks: Sequence[Bytes],
    digests: Sequence[NDArray[np.uint64] | None],
    key: int,
    threads: int = 1,
) -> None:
    """Fill one chunk per peer, then its digests, taken of the bytes in the chunk.

    threads: of copy.c; numpy uses one.
    """
    for peer, chunk, out in zip(plan.peers, chunks, digests, strict=True):
        if native.available():
            native.gather(_found(layout, plan, peer)[2], pages, chunk, out, key, threads)
            continue
        for part, route in zip(peer.parts, routes_of(layout, plan, peer), strict=True):
            data = part_bytes(chunk, peer, part)
            block = gather(route, pages, data, None if out is None else part_key(key, part))
            if out is not None and block is not None:
                first = part.first * peer.pages
                out[first : first + block.size] = block


def unpack(
    layout: KVLayout,
    plan: ChunkPlan,
    pages: Index,
    chunks: Sequence[Bytes],
    expected: Sequence[NDArray[np.uint64] | None],
    report: HostReport | None,
    key: int,
    threads: int = 1,
) -> None:
    """Store chunks into pages, and digest the bytes of the pages, not those of the chunk.

    A late writer can change a chunk between its check and the copy. It cannot change the pages:
    only this process writes them.
    """
    for peer, chunk, wanted in zip(plan.peers, chunks, expected, strict=True):
        if native.available():
            sums = None if wanted is None else np.empty(wanted.size, np.uint64)
            native.scatter(_found(layout, plan, peer)[2], pages, chunk, sums, key, threads)
            _compare(sums, wanted, report, peer.pages)
            continue
        for part, route in zip(peer.parts, routes_of(layout, plan, peer), strict=True):
            data = part_bytes(chunk, peer, part)
            stored = scatter(route, pages, data, None if wanted is None else part_key(key, part))
            if wanted is not None and stored is not None:
                first = part.first * peer.pages
                _compare(stored, wanted[first : first + stored.size], report, peer.pages)


def _compare(
    stored: NDArray[np.uint64] | None, wanted: NDArray[np.uint64] | None,
    report: HostReport | None, pages: int,
) -> None:  # fmt: skip
    """Mark the pages whose digests, [entry * page], differ from the expected ones."""
    if stored is None or wanted is None or report is None:
        return
    differs = np.flatnonzero(stored != wanted)
    if differs.size:
        report.mark(differs % pages)


def digest_pages(
    layout: KVLayout, plan: ChunkPlan, pages: Index, digests: NDArray[np.uint64], key: int
) -> None:
    """Digest pages in the pools, as if packed for the one peer of `plan`."""
    if native.available():
        native.digest(_found(layout, plan, plan.only)[2], pages, digests, key)
        return
    for part, route in zip(plan.only.parts, routes_of(layout, plan, plan.only), strict=True):
        block = pool_digests(route, pages, part_key(key, part))
        first = part.first * plan.pages
        digests[first : first + block.size] = block


def digest_chunk(peer: PeerPlan, chunk: Bytes, digests: NDArray[np.uint64], key: int) -> None:
    """Digest the pages of a chunk."""
    if not peer.pages:
        return
    routes, one_row = [], np.zeros(1, np.int64)
    for part in peer.parts:
        data = part_bytes(chunk, peer, part).reshape(-1, part.page_bytes)
        if native.available():
            pools = tuple(np.split(data, part.entries))
            routes.append(native.NativeRoute(pools, one_row, 1))
            continue
        first = part.first * peer.pages
        sums = page_digests(data, part_key(key, part), entries=part.entries)
        digests[first : first + len(data)] = sums
    if routes:
        pages = np.arange(peer.pages, dtype=np.int64)
        native.digest(native.NativeRoutes(routes), pages, digests, key)
