"""The log tells of a mistake that a peer repeats ever less often."""

from pdproto.runtime.limits import TOLD_MAX
from pdproto.runtime.repeats import Repeats


def test_each_mistake_is_told_at_once_and_then_ever_less_often() -> None:
    repeats = Repeats()
    told = [repeats.told(text) for _ in range(9) for text in ("one", "another")]
    assert [count for count in told if count] == [1, 1, 2, 2, 4, 4, 8, 8]


def test_mistakes_past_the_limit_are_told_together() -> None:
    """A peer that makes ever new ones costs no more memory, and no more lines."""
    repeats = Repeats()
    assert all(repeats.told(f"mistake {number}") == 1 for number in range(TOLD_MAX))
    told = [repeats.told(f"new mistake {number}") for number in range(1_000)]
    assert [count for count in told if count] == [2 ** power for power in range(10)]
    assert repeats.told("mistake 0") == 2
