"""The cases of `pdproto bench kernels`: what is copied, and how fast it should be.

A goal is a fraction of the device copy of the same bytes, timed in the same run in turns with
the case. Goals were set before the first measurement; what came of them is a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from pdproto.kernels.plan import HeadRange, Scale


class Operation(Enum):
    """What a case does with its pages."""

    PACK = "pack"
    UNPACK = "unpack"
    DIGEST_PACK = "pack and digest"
    VERIFY_UNPACK = "unpack and verify"
    DIGEST_CHUNK = "digest a chunk"
    CAST = "pack as fp8"
    UNCAST = "unpack fp8"


@dataclass(frozen=True, slots=True)
class Case:
    """Some pages of one model's cache: sizes in tokens, heads and bytes, pages in random order."""

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

    @property
    def pages(self) -> int:
        return max(1, self.tokens // self.page_tokens)

    @property
    def page_bytes(self) -> int:
        return self.page_tokens * self.heads * self.row_bytes

    @property
    def sent_heads(self) -> int:
        return self.heads if self.peers is None else sum(peer.count for peer in self.peers)

    @property
    def payload_bytes(self) -> int:
        """Bytes of pages that are moved, at the pools' precision."""
        return self.entries * self.pages * self.page_tokens * self.sent_heads * self.row_bytes

    @property
    def traffic_bytes(self) -> float:
        """Bytes read and written at least: what the time is divided into."""
        if self.operation is Operation.DIGEST_CHUNK:
            return self.payload_bytes
        return self.payload_bytes * (1.5 if self.scale else 2)


EIGHTH: Final = (HeadRange(3, 1),)
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

SMALL: Final = (
    Case("1 page, one head (655 KB)", Operation.PACK, 160, 16, 1, 256, 16, 0.0),
    Case("1 page, eight heads (5.2 MB)", Operation.PACK, 160, 16, 8, 256, 16, 0.0),
)
SMALL_GOALS_US: Final = (4.5, 7.0)
"""Device time of one small chunk, in a graph."""
