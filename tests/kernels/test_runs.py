"""Runs of pages say what the list says, with as few runs as possible."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.kernels.chunk import coalesce_runs


def test_an_example() -> None:
    assert coalesce_runs([7, 8, 9, 3, 2, 3]).tolist() == [[7, 0, 3], [3, 3, 1], [2, 4, 2]]
    assert coalesce_runs([]).shape == (0, 3)


@given(st.lists(st.integers(0, 6), max_size=12))
def test_runs_spell_the_list_and_cannot_be_joined(pages: list[int]) -> None:
    runs = coalesce_runs(np.array(pages, np.int64)).tolist()
    assert [first + k for first, _, length in runs for k in range(length)] == pages
    assert [position for _, position, _ in runs] == [
        sum(length for *_, length in runs[:index]) for index in range(len(runs))
    ]
    for before, after in pairwise(runs):
        assert before[0] + before[2] != after[0]


def test_only_lists() -> None:
    with pytest.raises(ValueError, match="one axis"):
        coalesce_runs(np.zeros((2, 2), np.int64))
