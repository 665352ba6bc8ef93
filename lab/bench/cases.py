"""The cases of `python -m lab bench`, each with the bytes to copy and a goal for the speed.

A goal is a fraction of the speed of a device copy of the same bytes. Both are timed alternately in
the same run. Goals were set before the first measurement, and are not changed afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pdproto.kernels.plan import HeadRange, Scale


class Operation(Enum):
    """The operation of a case on its pages."""

    PACK = "pack"
    UNPACK = "unpack"
    DIGEST_PACK = "pack and digest"
    VERIFY_UNPACK = "unpack and verify"
    DIGEST_CHUNK = "digest a chunk"
    CAST = "pack as fp8"
    UNCAST = "unpack fp8"


class Listing(Enum):
    """The order in which a case lists the pages of its pools."""

    RANDOM = "random"
    IDENTITY = "identity"
    REVERSED = "reversed"
    RUNS = "runs of 8"
    REPEATS = "random with repeats"  # only for packing: two chunk pages cannot be unpacked into one


RUN: Final = 8


@dataclass(frozen=True, slots=True)
class Case:
    """Some pages of one model's cache: sizes in tokens, heads and bytes.

    Pools start `base_bytes` past an aligned address, and have `pool_bytes` each at least.
    """

    name: str
    operation: Operation
    entries: int
    page_tokens: int
    heads: int
    row_bytes: int
    tokens: int
    goal: float
    peers: tuple[HeadRange, ...] | None = None
    scale: Scale | None = None
    listing: Listing = Listing.RANDOM
    index_bits: int = 32
    base_bytes: int = 0
    pool_bytes: int = 0

    @property
    def title(self) -> str:
        """The operation and the name."""
        return f"{self.operation.value}: {self.name}"

    @property
    def unpacks(self) -> bool:
        """Whether the operation writes from chunks to pages."""
        return self.operation in {Operation.UNPACK, Operation.VERIFY_UNPACK, Operation.UNCAST}

    @property
    def pages(self) -> int:
        """Pages of one chunk in each entry."""
        return max(1, self.tokens // self.page_tokens)

    @property
    def page_bytes(self) -> int:
        """Bytes of a page in one entry."""
        return self.page_tokens * self.heads * self.row_bytes

    @property
    def sent_heads(self) -> int:
        """Heads that are sent, to all peers together."""
        return self.heads if self.peers is None else sum(peer.count for peer in self.peers)

    @property
    def payload_bytes(self) -> int:
        """Bytes of pages that are moved, at the pools' precision."""
        return self.entries * self.pages * self.page_tokens * self.sent_heads * self.row_bytes

    @property
    def traffic_bytes(self) -> float:
        """The least number of bytes read and written, for the rate."""
        if self.operation is Operation.DIGEST_CHUNK:
            return self.payload_bytes
        return self.payload_bytes * (1.5 if self.scale else 2)


EIGHTH: Final = (HeadRange(3, 1),)
QUARTER: Final = (HeadRange(2, 2),)
HALF: Final = (HeadRange(4, 4),)
THREE_OF_TWELVE: Final = (HeadRange(6, 3),)
EIGHT: Final = tuple(HeadRange(head, 1) for head in range(8))
FOUR: Final = tuple(HeadRange(2 * head, 2) for head in range(4))

# name, operation, entries, tokens of a page, heads, row bytes, tokens, goal
CASES: Final = (
    Case("32 KiB pages", Operation.PACK, 160, 16, 8, 256, 8192, 0.95),
    Case("128 KiB pages", Operation.PACK, 160, 64, 8, 256, 8192, 0.95),
    Case("4 KiB pages", Operation.PACK, 160, 16, 1, 256, 8192, 0.93),
    Case("2 KiB pages of one token", Operation.PACK, 160, 1, 8, 256, 4096, 0.90),
    Case("256 B pages of one token", Operation.PACK, 160, 1, 1, 256, 8192, 0.85),
    Case("MLA 1152 B, page 64", Operation.PACK, 61, 64, 1, 1152, 8192, 0.95),
    Case("MLA 1152 B, page 1", Operation.PACK, 61, 1, 1, 1152, 8192, 0.88),
    Case("MLA 656 B, page 64", Operation.PACK, 61, 64, 1, 656, 8192, 0.93),
    Case("MLA 656 B, page 1", Operation.PACK, 61, 1, 1, 656, 8192, 0.80),
    Case("32k tokens, 32 KiB pages", Operation.PACK, 160, 16, 8, 256, 32768, 0.95),
    Case("one head of eight", Operation.PACK, 160, 16, 8, 256, 8192, 0.85, EIGHTH),
    Case("split 8 heads to 8 peers", Operation.PACK, 160, 16, 8, 256, 8192, 0.92, EIGHT),
    Case("32 KiB pages", Operation.UNPACK, 160, 16, 8, 256, 8192, 0.93),
    Case("4 KiB pages", Operation.UNPACK, 160, 16, 1, 256, 8192, 0.93),
    Case("merge 4 writers", Operation.UNPACK, 160, 16, 8, 256, 8192, 0.88, FOUR),
    Case("32 KiB pages", Operation.DIGEST_PACK, 160, 16, 8, 256, 8192, 0.92),
    Case("4 KiB pages", Operation.DIGEST_PACK, 160, 16, 1, 256, 8192, 0.92),
    Case("MLA 656 B, page 64", Operation.DIGEST_PACK, 61, 64, 1, 656, 8192, 0.92),
    Case("2 KiB pages of one token", Operation.DIGEST_PACK, 160, 1, 8, 256, 4096, 0.90),
    Case("32 KiB pages", Operation.VERIFY_UNPACK, 160, 16, 8, 256, 8192, 0.92),
    Case("4 KiB pages", Operation.VERIFY_UNPACK, 160, 16, 1, 256, 8192, 0.92),
    Case("32 KiB pages", Operation.DIGEST_CHUNK, 160, 16, 8, 256, 8192, 0.90),
    Case("static scale", Operation.CAST, 160, 16, 8, 256, 8192, 0.88, None, Scale.STATIC),
    Case("scale per page", Operation.CAST, 160, 16, 8, 256, 8192, 0.82, None, Scale.PAGE),
    Case("scale per head", Operation.CAST, 160, 16, 8, 256, 8192, 0.82, None, Scale.PAGE_HEAD),
    Case("scale per page", Operation.UNCAST, 160, 16, 8, 256, 8192, 0.88, None, Scale.PAGE),
)


def _listed(listing: Listing) -> Case:
    name = f"32 KiB pages, {listing.value}"
    return Case(name, Operation.PACK, 160, 16, 8, 256, 8192, 0.95, listing=listing)


def _astray(base_bytes: int) -> Case:
    name = f"32 KiB pages, pools {base_bytes} bytes off"
    return Case(name, Operation.PACK, 160, 16, 8, 256, 2048, 0.0, base_bytes=base_bytes)


MORE: Final = (
    _listed(Listing.IDENTITY),
    _listed(Listing.REVERSED),
    _listed(Listing.RUNS),
    _listed(Listing.REPEATS),
    Case("32 KiB pages, 64-bit page numbers", Operation.PACK, 160, 16, 8, 256, 8192, 0.95,
         index_bits=64),
    Case("32 KiB pages, 128 tokens", Operation.PACK, 160, 16, 8, 256, 128, 0.0),
    Case("32 KiB pages, 1k tokens", Operation.PACK, 160, 16, 8, 256, 1024, 0.95),
    Case("16 KiB pages, 96 entries", Operation.PACK, 96, 16, 4, 256, 8192, 0.95),
    Case("16 KiB pages, 188 entries", Operation.PACK, 188, 16, 4, 256, 8192, 0.95),
    Case("two heads of eight", Operation.PACK, 160, 16, 8, 256, 8192, 0.85, QUARTER),
    Case("four heads of eight", Operation.PACK, 160, 16, 8, 256, 8192, 0.85, HALF),
    Case("three heads of twelve", Operation.PACK, 160, 16, 12, 256, 8192, 0.85, THREE_OF_TWELVE),
    _astray(2),
    _astray(4),
    _astray(8),
    Case("70,000 pages of one token, 1152 B", Operation.PACK, 16, 1, 1, 1152, 70_000, 0.88),
    Case("pools beyond 2**32 bytes", Operation.PACK, 2, 16, 8, 256, 61_440, 0.95,
         pool_bytes=5 << 30),
)  # fmt: skip
"""Cases for errors and slow paths: other page lists, counts, slices, addresses, limits."""


SMALL: Final = (
    Case("1 page, one head (655 KB)", Operation.PACK, 160, 16, 1, 256, 16, 0.0),
    Case("1 page, eight heads (5.2 MB)", Operation.PACK, 160, 16, 8, 256, 16, 0.0),
)
SMALL_GOALS_US: Final = (4.5, 7.0)
"""Device time of one small chunk, in a graph."""

ENQUEUE_GOAL_US: Final = 15
COMPLETION_GOAL_US: Final = 25
"""Host time of a call on a warm layout; time from a call to its event on an idle GPU, one page."""

COUNT_GOALS: Final = {"kernels": "1", "copies to the device from pinned memory": "at most 1"}
"""The operations that one chunk may enqueue, for all entries and all peers; of other kinds, none.
"""

BUDGET_GOALS: Final = {8: 0.25, 32: 1.0}
"""Payload in TB/s under a limit of thread blocks: limit -> rate."""

WIRE: Final = 0.1
SLOWDOWN_GOAL: Final = 0.02
"""TB/s of two 400 Gbit/s network cards, and the share of speed that a matrix product may lose."""
