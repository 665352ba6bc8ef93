"""The copies of host.py in C: copy.c takes the digest of a page while the page is in the cache.
setup.py compiles it if there is a C compiler; `available` says whether it did.

The caller has checked every page number: copy.c checks none. No call holds Python's global lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, partial
from importlib.util import find_spec
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels.digest import KEY_MASK, key_at, multipliers

Bytes = NDArray[np.uint8]
Index = NDArray[np.int64]
Digests = NDArray[np.uint64]

_pointer: Final = ctypes.c_void_p

SHARED_BYTES_MIN: Final = 1 << 20
"""Bytes of a chunk from which several threads copy it: to wake one takes as long as a few KiB."""


class NativeRoute(ctypes.Structure):
    """The places of the rows of one part, as copy.c reads them. It keeps its arrays alive."""

    _fields_ = (
        ("pools", _pointer), ("entries", ctypes.c_uint64), ("pattern", _pointer),
        ("rows", ctypes.c_uint64), ("row_bytes", ctypes.c_uint64), ("page_rows", ctypes.c_uint64),
    )

    def __init__(self, pools: tuple[Bytes, ...], pattern: Index, page_rows: int) -> None:
        self._pools: Final = np.array([pool.ctypes.data for pool in pools], np.uint64)
        self._arrays: Final = pools
        self._pattern: Final = pattern
        super().__init__(
            self._pools.ctypes.data, len(pools), pattern.ctypes.data, pattern.size,
            pools[0].shape[1], page_rows,
        )  # fmt: skip

    @property
    def page_bytes(self) -> int:
        """The bytes of a page of this part."""
        return int(self.rows * self.row_bytes)

    def of(self, first: int, last: int) -> NativeRoute:
        """The route of the entries from `first` up to `last`."""
        return NativeRoute(self._arrays[first:last], self._pattern, self.page_rows)


class NativeRoutes:
    """The routes of consecutive parts, side by side: one call copies all of them."""

    def __init__(self, routes: Sequence[NativeRoute]) -> None:
        self._routes: Final = tuple(routes)  # with the arrays that they point at
        self._shares: Final[dict[int, tuple[Share, ...]]] = {}
        self.count: Final = len(routes)
        self.array: Final = (NativeRoute * len(routes))(*routes)
        self.page_bytes: Final = max(route.page_bytes for route in routes)
        self.all_bytes: Final = sum(route.entries * route.page_bytes for route in routes)

    def shares(self, threads: int) -> tuple[Share, ...]:
        """The entries in order, cut into as many shares of about as many bytes, or into fewer."""
        shares = self._shares.get(threads)
        if shares is None:
            shares = self._shares[threads] = tuple(self._cut(threads))
        return shares

    def _cut(self, threads: int) -> Iterator[Share]:
        each = -(-self.all_bytes // threads)
        share: list[NativeRoute] = []
        begin = begin_entry = entry = done = 0
        for route in self._routes:
            first = 0
            for last in range(1, route.entries + 1):
                entry, done = entry + 1, done + route.page_bytes
                if done < each * (begin // each + 1) and done < self.all_bytes:
                    continue
                share.append(route.of(first, last))
                yield Share(NativeRoutes(share), begin_entry, entry, begin)
                share, first, begin, begin_entry = [], last, done, entry
            if first < route.entries:
                share.append(route.of(first, route.entries))


class Share(NamedTuple):
    """The entries that one thread copies. before: bytes of a page of all entries before them."""

    routes: NativeRoutes
    first: int
    last: int
    before: int


class _Digest(ctypes.Structure):
    _fields_ = (
        ("multipliers", _pointer), ("key", ctypes.c_uint64), ("scratch", _pointer),
        ("digests", _pointer),
    )


@cache
def available() -> bool:
    """Whether the copies were compiled when the package was installed."""
    spec = find_spec("pdproto.kernels._copy")
    return spec is not None and spec.origin is not None


def gather(
    routes: NativeRoutes, pages: Index, target: Bytes, digests: Digests | None, key: int,
    threads: int = 1,
) -> None:  # fmt: skip
    """Copy pages into `target`, contiguous uint8.

    digests: uint64 [entry * page] for the digests of the pages, or None for none. threads: that
    copy entries at one time, the caller's among them.
    """
    if _together(gather, routes, pages, target, digests, key, threads):
        return
    told = _Told(routes, pages, digests, key)
    _library().kv_gather_parts(
        routes.array, routes.count, told.pages, pages.size, target.ctypes.data, told.digest)


def scatter(
    routes: NativeRoutes, pages: Index, source: Bytes, digests: Digests | None, key: int,
    threads: int = 1,
) -> None:  # fmt: skip
    """Copy contiguous uint8 `source` into pages. All else is as in `gather`; the digests are those
    of the stored pages.
    """
    if _together(scatter, routes, pages, source, digests, key, threads):
        return
    told = _Told(routes, pages, digests, key)
    _library().kv_scatter_parts(
        routes.array, routes.count, told.pages, pages.size, source.ctypes.data, told.digest)


def digest(routes: NativeRoutes, pages: Index, digests: Digests, key: int) -> None:
    """Digest pages where they lie, into uint64 [entry * page]."""
    told = _Told(routes, pages, digests, key)
    _library().kv_digest_parts(routes.array, routes.count, told.pages, pages.size, told.digest)


def _together(
    copy: Callable[..., None], routes: NativeRoutes, pages: Index, chunk: Bytes,
    digests: Digests | None, key: int, threads: int,
) -> bool:  # fmt: skip
    """Copy the shares of several threads at one time. False if one thread is enough."""
    if threads == 1 or routes.all_bytes * pages.size < SHARED_BYTES_MIN:
        return False
    count, calls = pages.size, []
    for share in routes.shares(threads):
        sums = None if digests is None else digests[share.first * count : share.last * count]
        calls.append(partial(
            copy, share.routes, pages, chunk[share.before * count :], sums,
            key_at(key, entry=share.first),
        ))  # fmt: skip
    others = [_workers(threads - 1).submit(call) for call in calls[1:]]
    try:
        calls[0]()
    finally:
        wait(others)
    for other in others:
        other.result()
    return True


@cache
def _workers(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "pdproto-copy")


class _Told:
    """The other arguments of a call, kept until it returns."""

    def __init__(
        self, routes: NativeRoutes, pages: Index, digests: Digests | None, key: int
    ) -> None:
        self._pages: Final = np.ascontiguousarray(pages)
        self.pages: Final = self._pages.ctypes.data
        form = _Digest()
        if digests is not None:
            self._scratch: Final = np.empty(routes.page_bytes, np.uint8)
            self._multipliers: Final = multipliers(-(-routes.page_bytes // 8))
            form = _Digest(
                self._multipliers.ctypes.data, key & KEY_MASK, self._scratch.ctypes.data,
                digests.ctypes.data)
        self.digest: Final = ctypes.byref(form)


@cache
def _library() -> ctypes.CDLL:
    spec = find_spec("pdproto.kernels._copy")
    if spec is None or spec.origin is None:
        raise ImportError("copy.c was not compiled: install a C compiler, then pdproto again")
    library = ctypes.CDLL(spec.origin)
    size = ctypes.c_uint64
    for name, arguments in {
        "kv_gather_parts": (_pointer, size, _pointer, size, _pointer, _pointer),
        "kv_scatter_parts": (_pointer, size, _pointer, size, _pointer, _pointer),
        "kv_digest_parts": (_pointer, size, _pointer, size, _pointer),
    }.items():
        function = getattr(library, name)
        function.restype, function.argtypes = None, arguments
    return library
