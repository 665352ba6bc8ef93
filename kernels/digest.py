"""The page digest: 64 bits over the bytes of one page of one entry, as they lie in the chunk.

Word i of a page is its bytes 8i to 8i + 7, little endian, the last one padded with zeros. With
lo and hi its two halves, and k the multipliers of `multipliers`,

    digest = key + sum over i of ((lo_i + k_2i) mod 2^32) * ((hi_i + k_2i+1) mod 2^32)   mod 2^64

which is the NH hash with a fixed key schedule. It depends on the position of a word in the page
but on no address, and it is one multiplication per 8 bytes. Sums and positional sums modulo
2^64 lose pairs of flipped sign bits; a product does not. It finds damage and stale bytes; it
does not resist an adversary. `key` is any number both ends derive from the life of the
hand-over, so that a whole chunk written late for an older life fails as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

MULTIPLIER: Final = 0x9E3779B1  # 2**32 over the golden ratio, odd
KEY_MASK: Final = (1 << 64) - 1
# A block and its temporaries stay in a core's second-level cache.
BLOCK_BYTES: Final = 1 << 16

_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFF_FFFF)


@lru_cache(maxsize=64)
def multipliers(words: int) -> NDArray[np.uint32]:
    """k_0 to k_(2 words - 1): a multiplicative mix of the index, folded once."""
    spread = np.arange(1, 2 * words + 1, dtype=np.uint32) * np.uint32(MULTIPLIER)
    mixed: NDArray[np.uint32] = spread ^ (spread >> np.uint32(15))
    mixed.flags.writeable = False
    return mixed


def _words(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """[page, byte] as [page, half word], padded with zeros to whole 8-byte words."""
    pages, length = data.shape
    if length % 8 or not data.flags.c_contiguous:
        padded = np.zeros((pages, -(-length // 8) * 8), np.uint8)
        padded[:, :length] = data
        data = padded
    return data.view("<u4")


def page_digests(data: NDArray[np.uint8], key: int = 0) -> NDArray[np.uint64]:
    """Return uint64 [page] for `data`, uint8 [page, byte]: the definition, in numpy.

    Every other form of the digest, on any device, equals this one.
    """
    pages, length = data.shape
    digests = np.empty(pages, np.uint64)
    k = multipliers(-(-length // 8))
    step = max(1, min(pages, BLOCK_BYTES // max(length, 1)))
    # Made once: fresh temporaries for every block would cost more than the arithmetic.
    mixed = np.empty((step, k.size), np.uint32)
    high = np.empty((step, k.size // 2), np.uint64)
    for start in range(0, pages, step):
        words = _words(data[start : start + step])
        halves, above = mixed[: len(words)], high[: len(words)]
        np.add(words, k, out=halves)
        low = halves.view(np.uint64)
        np.right_shift(low, _HALF, out=above)
        np.bitwise_and(low, _LOW, out=low)
        np.einsum("ij,ij->i", low, above, out=digests[start : start + step])
    digests += np.uint64(key & KEY_MASK)
    return digests
