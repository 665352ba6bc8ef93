"""What is told of a rank of `python -m lab soak`."""

from typing import Any

import pytest

from lab.soak.cluster import SoakProcess
from lab.soak.rank import violations
from pdproto.drill.children import Child

CLEAN = dict.fromkeys(("slow_turns", "longest_turn_seconds", "turn_errors", "refused_calls",
                       "spoilt_chunks", "refused_frames", "handoffs_opened"), 0.0)


def test_numbers_that_must_be_zero_are_told() -> None:
    assert violations(CLEAN | {"handoffs_opened": 5.0}) == {}
    assert violations(CLEAN | {"spoilt_chunks": 2.0}) == {"spoilt_chunks": 2.0}


def test_slow_turns_are_told_with_the_time_of_the_longest() -> None:
    slow = CLEAN | {"slow_turns": 3.0, "longest_turn_seconds": 0.0123}
    assert violations(slow) == {"slow turns, the longest of 12.3 ms": 3.0}


@pytest.mark.parametrize(("state", "told"), [
    ({"ready": False, "open": {7}}, "has not begun"),
    ({"open": {9, 7}, "leaves": True}, "has not ended 2 hand-overs, the first of room 7"),
    ({"leaves": True}, "has not drained"),
    ({}, ""),
])
def test_a_rank_that_is_not_at_rest_is_told_with_the_reason(
    state: dict[str, Any], told: str
) -> None:
    nothing: Any = None
    child = Child("decode-0", nothing, nothing)
    rank = SoakProcess(child, "decode-0#1", "", **{"ready": True} | state)
    assert rank.undone == told
