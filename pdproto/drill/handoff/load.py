"""The load of `pdproto handoff`: its requests, the bytes of their pages, and their aborts.

Everything follows from the seed and the room, so every process computes it by itself.
"""

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from math import gcd
from struct import Struct
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from pdproto.spec.handoff.optimistic_retracted import AT_ONCE_RETRACTED, RETRACTED

Pages = NDArray[np.uint8]

DICE: Final = Struct(">5I")
PHASES: Final = 64  # moments within `abort_within_s` at which an abort may come


@cache
def _words(count: int) -> NDArray[np.uint64]:
    """So many different words of 8 bytes."""
    return np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Topology:
    """Ranks by name. Each prefill rank holds some layers (pp), heads (tp) and pages (cp)."""

    pp: int
    tp: int
    cp: int

    @property
    def prefill(self) -> tuple[str, ...]:
        return tuple(f"prefill-{s}-{t}-{c}" for s in range(self.pp) for t in range(self.tp)
                     for c in range(self.cp))

    @property
    def decode(self) -> tuple[str, ...]:
        return tuple(f"decode-{t}" for t in range(self.tp))

    def sources(self, decode: str) -> tuple[str, ...]:
        """The prefill ranks that feed a decode rank: all stages and contexts of its heads."""
        tensor = decode.split("-")[1]
        return tuple(name for name in self.prefill if name.split("-")[2] == tensor)

    def share(self, source: str, pages: int) -> range:
        """The pages of a request that a prefill rank holds."""
        return range(int(source.split("-")[3]), pages, self.cp)


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One request. abort: the side that aborts it, and the seconds after it was opened."""

    room: int
    pages: int
    chunks: int
    abort: Literal["prefill", "decode"] | None
    abort_after_s: float

    def left(self, side: str, opened: float, now: float) -> bool:
        """Whether the client has left by now, and this side aborts the request."""
        return self.abort == side and now - opened > self.abort_after_s


@dataclass(frozen=True, slots=True)
class Load:
    """layers: pools of one prefill rank. page_bytes: of one page in one pool, a multiple of 8.
    page_tokens: of a page at prefill, and at decode. Unless both are 1, parts of pages are handed
    over: all other numbers of pages are of parts, and so is page_bytes.

    retries: of optimistic prefill; None if requests are run before their hand-over is opened.
    release_at_once: a pass without its bootstrap is released when it ends, as in SGLang #26780.
    force_retry: the share of requests that are run again in any case. forward_s: the time of the
    device for a chunk. publish_s: the time in which decode finds memory.
    faults: that every rank injects (node/faults.py).
    """

    seed: int
    requests: int
    layers: int
    page_bytes: int
    request_pages_max: int
    pool_pages: int
    abort_rate: float
    abort_within_s: float
    in_flight: int
    retries: int | None = None
    release_at_once: bool = False
    force_retry: float = 0.0
    forward_s: float = 0.0
    publish_s: float = 0.0
    page_tokens: tuple[int, int] = (1, 1)
    faults: str = ""

    @property
    def part_tokens(self) -> int:
        """The tokens of a part: as many as both page sizes are multiples of."""
        return gcd(*self.page_tokens)

    @property
    def prefill_system(self) -> str:
        """The system whose tables decide about the passes of a single prefill rank."""
        return (AT_ONCE_RETRACTED if self.release_at_once else RETRACTED).name

    def request(self, room: int) -> LoadRequest:
        dice = self._dice("request", room)
        pages = 1 + dice[0] % self.request_pages_max
        aborted = dice[1] / 2**32 < self.abort_rate
        side: Literal["prefill", "decode"] = "prefill" if dice[2] % 2 else "decode"
        after = dice[3] % PHASES / PHASES * self.abort_within_s
        return LoadRequest(
            room, pages, 1 + dice[4] % min(3, pages), side if aborted else None, after
        )

    def page(self, room: int, source: str, index: int) -> Pages:
        """The bytes of a page of a request in all pools of one source: uint8 [layer, byte]."""
        first = self._dice("page", room, source, index)[0]
        words = _words(self.layers * self.page_bytes // 8) ^ np.uint64(
            first << 32 | room & 0xFFFFFFFF)
        return words.view(np.uint8).reshape(self.layers, self.page_bytes)

    def metadata(self, room: int, source: str) -> bytes:
        """The metadata row that goes with the last pages."""
        return blake2b(repr((self.seed, room, source)).encode(), digest_size=64).digest()

    def _dice(self, *what: object) -> tuple[int, ...]:
        digest = blake2b(repr((self.seed, *what)).encode(), digest_size=20).digest()
        return DICE.unpack(digest)
