"""The page digest: 64 bits over the bytes of one page of one entry, as they lie in the chunk.

Word i of a page is its bytes 8i to 8i + 7, little endian, the last one padded with zeros. With the
multipliers k of `multipliers`, and modulo 2^64,

    lo   = (lower half of word i + k_2i) mod 2^32
    hi   = (upper half of word i + k_2i+1) mod 2^32
    sum  = the sum of lo * hi + lo + 2^32 hi  over all words
    digest = mix(sum + key + PLACE * (entry + 2^16 position))

where `entry` counts the pools of the layout, `position` the pages of the chunk, and `mix` is the
one-to-one function of `mixed`. A term is (lo + 2^32) (hi + 1), less a constant: neither factor is
ever 0, so no half hides the other.

Always found, whatever the data:
  * any change within one aligned group of 4 bytes, so every flipped bit and every wrong byte;
  * a page that is whole but comes with the digest of another page, entry or key, such as pages
    that changed places together with their digests, or a chunk of an older hand-over. (Of two
    keys: at the same place always; elsewhere, keys that are hashes collide once in 2^64 pairs.)

Found unless the sums happen to agree: all other changes, such as stale or damaged bytes in several
words. For data that does not depend on the multipliers, sums agree with probability 2^-64. This is
no bound for chosen data: the multipliers are fixed, so an attacker can make two pages with one sum.

Not found: errors from before the digest was taken, and a wrong page that holds the same bytes as
the right one. The digest does not resist an attacker.

`key` is any number that both ends derive from the life of the hand-over. `key_at` makes the key of
a later chunk, so that two chunks that changed places are found as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

MULTIPLIER: Final = 0x9E3779B1  # 2**32 over the golden ratio, odd
PLACE: Final = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio, odd
POSITION: Final = 1 << 16  # more than entries of a layout
KEY_MASK: Final = (1 << 64) - 1
# A block and its temporaries stay in a core's second-level cache.
BLOCK_BYTES: Final = 1 << 16

# The constants of splitmix64: shift, multiply, shift, multiply, shift. Each step is one to one.
_SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFF_FFFF)


@lru_cache(maxsize=64)
def multipliers(words: int) -> NDArray[np.uint32]:
    """k_0 to k_(2 words - 1): a multiplicative mix of the index, folded once."""
    spread = np.arange(1, 2 * words + 1, dtype=np.uint32) * np.uint32(MULTIPLIER)
    mixed: NDArray[np.uint32] = spread ^ (spread >> np.uint32(15))
    mixed.flags.writeable = False
    return mixed


def key_at(key: int, *, entry: int = 0, position: int = 0) -> int:
    """The key that gives the page at (0, 0) the digest that `key` gives it at this place."""
    return (key + PLACE * (entry + POSITION * position)) & KEY_MASK


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix` of every value: one to one."""
    first, second, last = _SHIFTS
    values = (values ^ (values >> first)) * _FACTORS[0]
    values = (values ^ (values >> second)) * _FACTORS[1]
    return values ^ (values >> last)


def _words(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """[page, byte] as [page, half word], padded with zeros to whole 8-byte words."""
    pages, length = data.shape
    if length % 8 or not data.flags.c_contiguous:
        padded = np.zeros((pages, -(-length // 8) * 8), np.uint8)
        padded[:, :length] = data
        data = padded
    return data.view("<u4")


def page_digests(
    data: NDArray[np.uint8], key: int = 0, *, entries: int = 1
) -> NDArray[np.uint64]:
    """Return uint64 [entry * position] for `data`, uint8 [entry * position, byte].

    This is the definition, in numpy: the digest on any device equals it. Entries and positions
    begin at 0; for others, use `key_at`.
    """
    rows, length = data.shape
    sums = np.empty(rows, np.uint64)
    k = multipliers(-(-length // 8))
    step = max(1, min(rows, BLOCK_BYTES // max(length, 1)))
    # Made once: fresh temporaries for every block would cost more than the arithmetic.
    mix = np.empty((step, k.size), np.uint32)
    high = np.empty((step, k.size // 2), np.uint64)
    for start in range(0, rows, step):
        words = _words(data[start : start + step])
        halves, above = mix[: len(words)], high[: len(words)]
        np.add(words, k, out=halves)
        low = halves.view(np.uint64)
        linear = np.add.reduce(low, axis=1)
        np.right_shift(low, _HALF, out=above)
        np.bitwise_and(low, _LOW, out=low)
        block = sums[start : start + step]
        np.einsum("ij,ij->i", low, above, out=block)
        block += linear
    position = np.arange(rows // entries, dtype=np.uint64) * np.uint64(POSITION)
    place = (position + np.arange(entries, dtype=np.uint64)[:, None]) * np.uint64(PLACE)
    return mixed(sums + place.ravel() + np.uint64(key & KEY_MASK))
