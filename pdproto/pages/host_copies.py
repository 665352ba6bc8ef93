"""Copies between pools and buffers in host memory. Each is done when the call returns."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from pdproto.kernels.chunk import KVLayout, Launch
from pdproto.pages.chunks import chunk_bytes, host_only, pack_pages, unpack_verified
from pdproto.pages.copies import LAYOUTS_KEPT, Bytes, Spares, Staged, Unpacked
from pdproto.pages.device import DeviceEvent
from pdproto.pages.page_target import PagePlaces, chunk_views, places_in


class HostCopies:
    """See Copies. gathers: the engine writes large pages from the pool, without a copy.

    threads: that copy a large chunk, if copy.c is compiled.
    """

    pin: Final = None
    shares: Final = None
    broken: Final = None

    def __init__(self, *, gathers: bool = False, threads: int = 1) -> None:
        self._launch: Final = Launch(threads=threads)
        self._buffers: Final[Spares[Bytes]] = Spares()
        self._places: Final[Callable[[KVLayout], PagePlaces | None]] = (
            lru_cache(LAYOUTS_KEPT)(places_in) if gathers else lambda _: None)

    def warm(self, layout: KVLayout) -> None:
        """See Copies: nothing is compiled."""
        host_only(layout)

    def begin_thread(self) -> None:
        """See Copies."""

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See Copies: the pages are in memory when they are handed over."""
        return tuple(pages)

    def pack(
        self, layout: KVLayout, pages: Sequence[int], key: int, head: bytes = b"",
        after: DeviceEvent | None = None,  # noqa: ARG002 - see `mark`
    ) -> Staged:
        """See Copies."""
        length = len(head) + chunk_bytes(layout, len(pages))
        places = self._places(layout)
        if places is not None and pages:
            return Staged([head, *chunk_views(places, pages, key)], length)
        buffer = self._buffers.take(length, lambda: np.empty(length, np.uint8))
        buffer[:len(head)] = np.frombuffer(head, np.uint8)
        if pages:
            pack_pages(layout, pages, key, buffer[len(head):], self._launch)
        return Staged([buffer], length, keep=lambda: self._buffers.keep(length, buffer))

    def stage(self, head: bytes) -> Staged:
        """See Copies."""
        return Staged([head], len(head))

    def landed(self, view: Any) -> Bytes:
        """See Copies."""
        return np.frombuffer(view, np.uint8)

    def fetch(self, landed: Bytes) -> Bytes:
        """See Copies."""
        return landed

    def unpack(
        self, layout: KVLayout, landed: Bytes, pages: Sequence[int], key: int,
        after: DeviceEvent | None = None,  # noqa: ARG002 - see `mark`
    ) -> Unpacked:
        """See Copies."""
        clean = unpack_verified(layout, landed, pages, key, self._launch).clean
        return Unpacked(lambda: clean)
