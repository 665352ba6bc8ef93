"""A sink that leases pages of a pool of its own, and no staging memory: for the contract's tests.

A page that a lease gave back is the first to be leased again, so that whoever writes late meets
the next life. The pages of a lease are scattered, and there are many more than one receive fills.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from pdproto.engine.contract import Lease, Target
from pdproto.engine.tcp_sink import TcpSink
from tests.engine.engines import ENGINES, Engine

POOL_BYTES: Final = 64 << 20
PAGE_BYTES: Final = 5_000
STEP: Final = 7  # between the pages of a lease


class Pages:
    """Some pages of a pool, one behind the other: a contract.Target."""

    def __init__(self, pool: np.ndarray, numbers: Sequence[int], length: int) -> None:
        self.numbers: Final = list(numbers)
        self._pool: Final = pool
        self._length: Final = length

    def places(self, offset: int, length: int) -> list[memoryview]:
        places = []
        while length:
            page, inside = divmod(offset, PAGE_BYTES)
            size = min(length, PAGE_BYTES - inside)
            row = self._pool[self.numbers[page]]
            places.append(memoryview(row[inside : inside + size]))
            offset, length = offset + size, length - size
        return places

    def bytes(self) -> np.ndarray:
        return self._pool[self.numbers].ravel()[: self._length]


class InPlaceSink(TcpSink):
    """The TCP engine's sink, where every lease is of pages."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        count = POOL_BYTES // PAGE_BYTES
        self._pool: Final = np.zeros((count, PAGE_BYTES), np.uint8)
        self._free: Final = [i for start in range(STEP) for i in range(start, count, STEP)]
        self.targets: Final[dict[int, Pages]] = {}

    def lease(
        self, life: Hashable, source: str, length: int, target: Target | None = None
    ) -> Lease | None:
        count = -(-length // PAGE_BYTES)
        pages = Pages(self._pool, self._free[:count], length)
        lease = super().lease(life, source, length, target or pages)
        if lease is not None:
            del self._free[:count]
            self.targets[lease.number] = pages
        return lease

    def view(self, lease: Lease) -> Any:
        """What has landed, as a test wants to see it; of a lease that is over, what TcpSink says.
        """
        if lease.number not in self.targets or self.leases._held[lease.number].fenced:
            return super().view(lease)
        return self.targets[lease.number].bytes().data

    def release(self, lease: Lease) -> None:
        super().release(lease)
        pages = self.targets.pop(lease.number, None)
        if pages is not None:
            self._free[:0] = pages.numbers


TCP: Final = ENGINES["tcp"]
IN_PLACE: Final = Engine(TCP.name, InPlaceSink, TCP.source, TCP.stop_midway)
