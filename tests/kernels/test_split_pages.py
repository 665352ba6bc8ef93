"""Pools of different page sizes hold the same tokens after a hand-over, on every path."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdproto.kernels.chunk import (
    HeadRange,
    Order,
    digests_in,
    new_report,
    pack_chunk,
    pack_slices,
    plan_for,
    register,
    split_pages,
    unpack_chunk,
    unpack_slices,
)
from tests.kernels.paths import Path
from tests.kernels.pools import Guarded

KEY = 77


@dataclass(frozen=True, slots=True)
class End:
    """The pools of one end, and the pages of a request, in order. paired: K and V interleaved.
    padded: there is room for another token behind each page.
    """

    tokens: int
    order: Order
    paired: bool
    pages: tuple[int, ...]
    padded: bool = False

    def pools(self, heads: int, row_bytes: int, seed: int) -> list[Any]:
        """Two pools of random bytes, of 8 pages each."""
        room = self.tokens + self.padded
        axes = (room, heads) if self.order is Order.NHD else (heads, room)
        whole = np.random.default_rng(seed).integers(
            0, 256, (8, 2, *axes, row_bytes), dtype=np.uint8)
        halves = [whole[:, half] if self.paired else whole[:, half].copy() for half in range(2)]
        if self.order is Order.NHD:
            return [half[:, :self.tokens] for half in halves]
        return [half[:, :, :self.tokens] for half in halves]

    def by_token(self, pool: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes of the request's tokens, [token, head, byte]."""
        pages = pool[list(self.pages)]
        pages = pages if self.order is Order.NHD else pages.swapaxes(1, 2)
        return pages.reshape(-1, *pages.shape[2:])


@st.composite
def ends(draw: st.DrawFn, tokens: int, parts: int) -> End:
    """An end whose pages have `parts` parts of `tokens` tokens, for at least 6 parts."""
    count = -(-6 // parts)
    pages = draw(st.permutations(range(8)))[:count]
    return End(tokens * parts, draw(st.sampled_from(Order)), draw(st.booleans()), tuple(pages),
               draw(st.booleans()))


@st.composite
def hand_overs(draw: st.DrawFn) -> tuple[int, End, End]:
    """A number of tokens, and two ends whose pages are multiples of it."""
    tokens = draw(st.sampled_from((1, 2, 4)))
    source, sink = (draw(ends(tokens, draw(st.sampled_from((1, 2, 3, 4))))) for _ in range(2))
    return tokens, source, sink


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture],
          deadline=None)
@given(between=hand_overs(), heads=st.sampled_from((1, 2, 3)),
       row_bytes=st.sampled_from((2, 16, 48)), filled=st.integers(1, 6))
def test_the_same_tokens_arrive(
    path: Path, between: tuple[int, End, End], heads: int, row_bytes: int, filled: int
) -> None:
    """filled: the parts that are handed over; the sink's last page may get only some."""
    tokens, source, sink = between
    pools, other = source.pools(heads, row_bytes, 1), sink.pools(heads, row_bytes, 2)
    theirs = split_pages(path.layout(pools, source.order), tokens)
    ours = split_pages(path.layout(other, sink.order), tokens)
    plan = plan_for(theirs.layout, filled).only
    guarded = Guarded.of(plan.bytes)
    memory = path.put(guarded.memory)
    chunk = guarded.within(memory)
    pack_chunk(theirs.layout, theirs.numbers(list(source.pages))[:filled], chunk,
               digests=digests_in(plan, chunk), key=KEY)
    report = new_report(ours.layout)
    before = [path.get(pool).copy() for pool in ours.pages.pools]
    unpack_chunk(ours.layout, ours.numbers(list(sink.pages))[:filled], chunk, order=source.order,
                 expected=digests_in(plan, chunk), key=KEY, report=report)
    assert report.read().clean
    guarded.memory[:] = path.get(memory)
    guarded.check_red_zones()
    count = filled * tokens
    for pool, old, back in zip(pools, before, ours.pages.pools, strict=True):
        new = path.get(back)
        assert np.array_equal(sink.by_token(new)[:count], source.by_token(pool)[:count])
        assert np.array_equal(sink.by_token(new)[count:], sink.by_token(old)[count:])
        left = [page for page in range(8) if page not in sink.pages]
        assert np.array_equal(new[left], old[left])


@pytest.mark.parametrize("order", Order)
def test_slices_of_parts_arrive_at_every_peer(path: Path, order: Order) -> None:
    """Two peers with pages of 6 tokens get half of the heads of pages of 4 tokens."""
    source = End(4, order, True, (5, 1, 2))
    pools, tokens = source.pools(4, 32, 3), gcd(4, 6)
    theirs = split_pages(path.layout(pools, order), tokens)
    heads = (HeadRange(0, 2), HeadRange(2, 2))
    numbers = theirs.numbers(source.pages)
    plan = plan_for(theirs.layout, len(numbers), peers=heads)
    chunks = [path.put(np.zeros(peer.bytes, np.uint8)) for peer in plan.peers]
    pack_slices(theirs.layout, numbers, chunks, heads)
    for half, chunk in zip(heads, chunks, strict=True):
        sink = End(6, order, False, (7, 0))
        ours = split_pages(path.layout(sink.pools(2, 32, 4), order), tokens)
        unpack_slices(ours.layout, ours.numbers(sink.pages), [chunk], None)
        for pool, back in zip(pools, ours.pages.pools, strict=True):
            sent = source.by_token(pool)[:, half.first:half.first + 2]
            assert np.array_equal(sink.by_token(path.get(back)), sent)


def test_a_damaged_part_is_named(path: Path) -> None:
    source, sink = End(4, Order.NHD, False, (1, 2)), End(8, Order.NHD, False, (3,))
    theirs = split_pages(path.layout(source.pools(2, 16, 1)), 4)
    ours = split_pages(path.layout(sink.pools(2, 16, 2)), 4)
    plan = plan_for(theirs.layout, 2).only
    chunk = path.put(np.zeros(plan.bytes, np.uint8))
    pack_chunk(theirs.layout, theirs.numbers([1, 2]), chunk, digests=digests_in(plan, chunk))
    chunk[plan.offset(1, 1) + 3] ^= 1
    report = new_report(ours.layout)
    unpack_chunk(ours.layout, ours.numbers([3]), chunk, expected=digests_in(plan, chunk),
                 report=report)
    assert report.read().mismatched == (1,)


def test_what_cannot_be_split_is_refused() -> None:
    pool, latent = np.zeros((4, 6, 2, 16), np.uint8), np.zeros((4, 4, 1, 16), np.uint8)
    with pytest.raises(ValueError, match="a page of 6 tokens has no parts of 4"):
        split_pages(register([pool]), 4)
    with pytest.raises(ValueError, match="tokens: the pools have pages of different sizes"):
        split_pages(register([pool, latent]), 2)
    with pytest.raises(ValueError, match=r"pages\[1\]: page 4 does not exist"):
        split_pages(register([pool]), 2).numbers([1, 4])
    assert split_pages(register([pool]), 6).numbers([2]).tolist() == [2]
