"""Pages through a lease: clean when nothing was touched, spoilt by a single bit."""

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.engine.contract import Result
from pdproto.kernels.chunk import plan_for, register
from pdproto.pages.chunks import chunk_bytes, key_of, key_of_chunk, pack_pages, unpack_verified
from tests.engine.engines import Pair, write
from tests.kernels.pools import Geometry, new_pools
from tests.tiers import examples

GEOMETRY: Final = Geometry(entries=3, pages=8, tokens=4, heads=2, row_bytes=62)
PAGES: Final = [5, 0, 7]
KEY: Final = key_of("room 7", 3)


def pools_of(seed: int) -> tuple[list[Any], Any]:
    pools = new_pools(GEOMETRY, seed)
    return pools, register(pools)


def test_pages_go_through_an_engine(pair: Pair) -> None:
    pools, source = pools_of(1)
    others, target = pools_of(2)
    length = chunk_bytes(source, len(PAGES))
    lease = pair.sink.lease("life", "source", 2 * length)
    assert lease is not None
    for position in range(2):
        payload = pack_pages(source, PAGES, KEY + position)
        assert write(pair.source, lease.address, payload, position * length).result is Result.LANDED
    for position in range(2):
        view = pair.sink.view(lease)[position * length :]
        assert unpack_verified(target, view, [1, 2, 3], KEY + position).clean
        for pool, other in zip(pools, others, strict=True):
            np.testing.assert_array_equal(other[[1, 2, 3]], pool[PAGES])


@given(place=st.integers(0, 1 << 30), bit=st.integers(0, 7))
@settings(max_examples=examples(60, 200))
def test_a_single_flipped_bit_is_found_in_its_page(place: int, bit: int) -> None:
    """In the payload or in the digests: what lies between them is nobody's."""
    _, source = pools_of(1)
    _, target = pools_of(2)
    plan = plan_for(source, len(PAGES)).only
    payload = pack_pages(source, PAGES, KEY)
    meaningful = plan.payload_bytes + plan.bytes - plan.digest_offset
    place %= meaningful
    inside = place < plan.payload_bytes
    payload[place if inside else place - plan.payload_bytes + plan.digest_offset] ^= 1 << bit
    outcome = unpack_verified(target, payload, PAGES, KEY)
    assert not outcome.clean
    starts = [
        plan.offset(entry, page) for entry in range(plan.entries) for page in range(len(PAGES))
    ]
    entry_and_page = (
        sum(start <= place for start in starts) - 1 if inside else (place - plan.payload_bytes) // 8
    )
    assert outcome.mismatched == (entry_and_page % len(PAGES),)


def test_chunks_of_a_life_that_changed_places_are_spoilt() -> None:
    """Each is whole, and of this life: only its place is another's."""
    _, source = pools_of(1)
    chunks = [pack_pages(source, PAGES, key_of_chunk(KEY, first)) for first in (0, len(PAGES))]
    for first, chunk in zip((0, len(PAGES)), chunks, strict=True):
        key = key_of_chunk(KEY, first)
        assert unpack_verified(source, chunk, PAGES, key).clean
        other = chunks[first == 0]
        assert unpack_verified(source, other, PAGES, key).mismatched == (0, 1, 2)


def test_the_bytes_of_another_life_are_spoilt() -> None:
    _, source = pools_of(1)
    payload = pack_pages(source, PAGES, key_of("room 7", 2))
    assert unpack_verified(source, payload, PAGES, KEY).mismatched == (0, 1, 2)


def test_memory_that_nobody_wrote_is_spoilt(pair: Pair) -> None:
    _, target = pools_of(2)
    lease = pair.sink.lease("life", "source", chunk_bytes(target, len(PAGES)))
    assert lease is not None
    assert not unpack_verified(target, pair.sink.view(lease), PAGES, KEY).clean


def test_keys_tell_lives_apart() -> None:
    keys = {key_of(*life) for life in ((1, 2), (12,), ("1", 2), (1, 3), (2, 1), ())}
    assert len(keys) == 6
    assert all(0 <= key < 1 << 64 for key in keys)


def test_no_pages_are_clean() -> None:
    _, layout = pools_of(1)
    assert unpack_verified(layout, pack_pages(layout, [], KEY), [], KEY).clean


def test_bad_arguments_of_pack_and_unpack_are_refused() -> None:
    _, layout = pools_of(1)
    with pytest.raises(ValueError, match="page 8 does not exist: the pools have 8"):
        pack_pages(layout, [8], KEY)
    with pytest.raises(ValueError, match=r"into: .* bytes needed, got 7"):
        pack_pages(layout, [1], KEY, into=np.empty(7, np.uint8))
    with pytest.raises(ValueError, match="bytes needed, got 5"):
        unpack_verified(layout, bytes(5), [1], KEY)
    with pytest.raises(ValueError, match="more than once"):
        unpack_verified(layout, pack_pages(layout, [1, 1], KEY), [1, 1], KEY)
