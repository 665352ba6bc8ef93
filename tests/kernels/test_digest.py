"""The digest is NH over the page's words; it finds every corruption that weak sums miss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdproto.kernels.digest import MULTIPLIER, page_digests

Bytes = NDArray[np.uint8]


def by_definition(page: bytes, key: int) -> int:
    """The docstring of `digest`, in Python integers."""
    padded = page + bytes(-len(page) % 8)
    total = key
    for word in range(len(padded) // 8):
        halves = [padded[8 * word : 8 * word + 4], padded[8 * word + 4 : 8 * word + 8]]
        product = 1
        for half, data in enumerate(halves):
            spread = (2 * word + half + 1) * MULTIPLIER % 2**32
            product *= (int.from_bytes(data, "little") + (spread ^ spread >> 15)) % 2**32
        total += product
    return total % 2**64


@given(page=st.binary(min_size=1, max_size=70), key=st.integers(0, 2**64 - 1))
def test_it_is_what_the_docstring_says(page: bytes, key: int) -> None:
    data = np.frombuffer(page, np.uint8).reshape(1, -1)
    assert int(page_digests(data, key)[0]) == by_definition(page, key)


def test_blocks_and_views_change_nothing() -> None:
    data = np.random.default_rng(1).integers(0, 256, (300, 1160), dtype=np.uint8)
    alone = [int(page_digests(data[page : page + 1])[0]) for page in range(300)]
    assert page_digests(data).tolist() == alone
    assert page_digests(data[:, 8:1000]).tolist() == [
        int(page_digests(data[page : page + 1, 8:1000].copy())[0]) for page in range(300)
    ]


def _flip(*bits: int) -> object:
    def damage(page: Bytes, generator: np.random.Generator) -> None:
        words = page.view("<u8")
        for position in generator.choice(words.size, len(bits), replace=False):
            words[position] ^= np.uint64(1) << np.uint64(bits[0])

    return damage


def _swap(page: Bytes, generator: np.random.Generator) -> None:
    words = page.view("<u8")
    one, other = generator.choice(words.size, 2, replace=False)
    words[[one, other]] = words[[other, one]]


def _zero(page: Bytes, generator: np.random.Generator) -> None:
    start = 128 * int(generator.integers(0, page.size // 128))
    page[start : start + 128] = 0


@pytest.mark.parametrize(
    "damage",
    [_flip(17), _flip(63, 63), _flip(31, 31), _flip(15, 15), _swap, _zero],
    ids=["one bit", "two of bit 63", "two of bit 31", "two of bit 15", "two words", "128 bytes"],
)
def test_each_class_of_corruption_is_found(damage: object) -> None:
    """400 trials a class on 8 KB pages; a 64-bit product sum misses one in about 2**32."""
    assert callable(damage)
    generator = np.random.default_rng(2)
    for _ in range(400):
        page = generator.integers(0, 256, 8192, dtype=np.uint8)
        before = page_digests(page.reshape(1, -1))
        damage(page, generator)
        assert page_digests(page.reshape(1, -1)) != before


def test_the_key_separates_lives() -> None:
    """A chunk that is intact but belongs to an older life fails: every page of it."""
    data = np.random.default_rng(3).integers(0, 256, (4, 64), dtype=np.uint8)
    assert (page_digests(data, 1) != page_digests(data, 2)).all()
