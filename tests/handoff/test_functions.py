"""The functions that every rank computes by itself."""

from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.runtime.sample import retry_is_forced
from pdproto.spec.handoff.functions import data_parallel_rank, page_count, passes


@given(st.integers(0, 1 << 63), st.integers(1, 64))
def test_a_room_belongs_to_one_rank(room: int, ranks: int) -> None:
    rank = data_parallel_rank(room, ranks)
    assert 0 <= rank < ranks
    assert data_parallel_rank(room + ranks, ranks) == rank


def test_m5_5_the_sample_is_the_first_eight_bytes_of_sha_256() -> None:
    """sha256("abc") begins with ba7816bf 8f01cfea (FIPS 180-2, appendix B.1)."""
    sample = 0xBA7816BF8F01CFEA
    assert sha256(b"abc").hexdigest().startswith("ba7816bf8f01cfea")
    just_above = (sample + 4096) / 2**64
    just_below = (sample - 4096) / 2**64
    assert retry_is_forced("abc", just_above)
    assert not retry_is_forced("abc", just_below)


@given(st.text())
def test_m5_5_never_and_always(request: str) -> None:
    assert not retry_is_forced(request, 0.0)
    assert retry_is_forced(request, 1.0)


@given(st.text(), st.floats(0, 1), st.floats(0, 1))
def test_m5_5_a_higher_probability_forces_no_fewer(request: str, one: float, two: float) -> None:
    assert retry_is_forced(request, max(one, two)) >= retry_is_forced(request, min(one, two))


def test_m5_2_n_retries_are_n_plus_one_passes_and_0_is_off() -> None:
    assert [passes(retries) for retries in range(4)] == [0, 2, 3, 4]


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 12))
def test_pages_hold_the_tokens_and_none_is_idle(tokens: int, page_size: int) -> None:
    pages = page_count(tokens, page_size)
    assert pages * page_size >= tokens > (pages - 1) * page_size


@pytest.mark.parametrize("bad", [
    lambda: data_parallel_rank(-1, 2), lambda: data_parallel_rank(1, 0),
    lambda: retry_is_forced("r", 1.5), lambda: retry_is_forced("r", float("nan")),
    lambda: passes(-1), lambda: page_count(-1, 16), lambda: page_count(1, 0),
])
def test_values_out_of_range_are_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="want"):
        bad()
