"""The digest is a sum of products that is bound to its place; it finds what weak sums miss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdproto.kernels.digest import MULTIPLIER, key_at, mixed, multipliers, page_digests

Bytes = NDArray[np.uint8]


def by_definition(page: bytes, key: int, entry: int, position: int) -> int:
    """The docstring of `digest`, in Python integers."""
    padded = page + bytes(-len(page) % 8)
    total = key + 0x9E3779B97F4A7C15 * (entry + 2**16 * position)
    for word in range(len(padded) // 8):
        halves = []
        for half in range(2):
            spread = (2 * word + half + 1) * MULTIPLIER % 2**32
            data = padded[8 * word + 4 * half : 8 * word + 4 * half + 4]
            halves.append((int.from_bytes(data, "little") + (spread ^ spread >> 15)) % 2**32)
        low, high = halves
        total += low * high + low + 2**32 * high
    total %= 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        total = (total ^ total >> shift) * factor % 2**64
    return total ^ total >> 31


@given(
    page=st.binary(min_size=1, max_size=70), key=st.integers(0, 2**64 - 1),
    entries=st.integers(1, 3), positions=st.integers(1, 3),
)  # fmt: skip
def test_the_digest_agrees_with_its_docstring(
    page: bytes, key: int, entries: int, positions: int
) -> None:
    data = np.tile(np.frombuffer(page, np.uint8), (entries * positions, 1))
    want = [by_definition(page, key, entry, position)
            for entry in range(entries) for position in range(positions)]  # fmt: skip
    assert page_digests(data, key, entries=entries).tolist() == want
    last = key_at(key, entry=entries - 1, position=positions - 1)
    assert page_digests(data[:1], last) == want[-1]


def test_blocks_and_views_change_nothing() -> None:
    data = np.random.default_rng(1).integers(0, 256, (300, 1160), dtype=np.uint8)

    def alone(pages: Bytes) -> list[int]:
        return [int(page_digests(page.reshape(1, -1).copy(), key_at(0, position=number))[0])
                for number, page in enumerate(pages)]  # fmt: skip

    assert page_digests(data).tolist() == alone(data)
    assert page_digests(data[:, 8:1000]).tolist() == alone(data[:, 8:1000])


@given(
    word=st.integers(0, 9), low=st.integers(0, 2**32 - 1), high=st.integers(0, 2**32 - 1),
    upper=st.booleans(), other=st.integers(1, 2**32 - 1), hidden=st.booleans(),
)  # fmt: skip
def test_no_half_of_a_word_hides_the_other(
    word: int, low: int, high: int, upper: bool, other: int, hidden: bool
) -> None:
    """With products alone, a half that its multiplier makes 0 hid every change of the other one."""
    page = np.zeros((1, 80), np.uint8)
    words = page.view("<u4")[0]
    words[2 * word : 2 * word + 2] = low, high
    if hidden:
        same = 2 * word + (not upper)
        words[same] = -int(multipliers(10)[same]) % 2**32
    before = page_digests(page)
    words[2 * word + upper] ^= np.uint32(other)
    assert page_digests(page) != before


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
    differences = page_digests(data, 2) - page_digests(data, 1)
    assert len(set(differences.tolist())) == 4, "the key was only added"


def test_mixing_is_one_to_one() -> None:
    """Each step can be undone, so unequal sums have unequal digests."""
    values = np.random.default_rng(4).integers(0, 2**64, 1000, np.uint64)
    found = mixed(values)
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        shifted = found >> np.uint64(shift)
        found = found ^ shifted ^ (shifted >> np.uint64(shift))
        found = found * np.uint64(pow(factor, -1, 2**64))
    assert np.array_equal(found, values)
