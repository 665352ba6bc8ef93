"""The slope test of `python -m lab soak`: a leak is found, and jumps and warm-up are none."""

from collections.abc import Callable
from random import Random

import pytest

from lab.soak.memory import LIMIT, SAMPLES_MAX, SPAN, WARM_UP, Growth, MemoryWatch, Series
from pdproto.runtime.limits import USED_ROOMS_MAX

MIB = 1 << 20
STEP = 5_000  # hand-overs between two samples


def series(resident: Callable[[int], float], last: int = WARM_UP + 2 * SPAN) -> Series:
    """The series of a process with so many bytes after so many hand-overs."""
    found = Series("decode")
    for handoffs in range(0, last + 1, STEP):
        found.add(handoffs, round(resident(handoffs)))
    return found


def test_the_warm_up_fills_the_table_of_used_rooms() -> None:
    assert 2 * WARM_UP >= 3 * USED_ROOMS_MAX


def test_the_smallest_leak_of_python_is_above_the_limit() -> None:
    """One number of each hand-over, kept in a set. Memory comes in pages, and a rest adds noise."""
    dice = Random(0)  # noqa: S311 - no secret
    slope = series(lambda n: 80 * MIB + 58 * n + dice.randrange(-4, 5) * 4096).slope
    assert slope is not None
    assert slope > LIMIT


@pytest.mark.parametrize("resident", [
    lambda _: 80 * MIB,
    lambda n: (80 + 30 * min(1.0, n / WARM_UP)) * MIB,  # pools are touched
    lambda n: (80 + 2 * (n > WARM_UP + SPAN)) * MIB,  # two more arenas
    lambda n: 80 * MIB - 100 * n,
], ids=["flat", "warm-up", "jump", "falling"])
def test_memory_without_a_leak_is_below_the_limit(resident: Callable[[int], float]) -> None:
    slope = series(resident).slope
    assert slope is not None
    assert slope < LIMIT


@pytest.mark.parametrize("last", [0, WARM_UP, WARM_UP + SPAN - STEP])
def test_a_short_series_is_not_judged(last: int) -> None:
    assert series(lambda n: 1000 * n, last).slope is None


def test_few_samples_are_not_judged() -> None:
    short = Series("decode")
    for handoffs in range(WARM_UP, WARM_UP + 3 * SPAN + 1, SPAN):
        short.add(handoffs, 1000 * handoffs)
    assert short.slope is None


def test_a_long_series_is_thinned_and_keeps_its_slope() -> None:
    long = series(lambda n: 80 * MIB + 100 * n, STEP * 5 * SAMPLES_MAX)
    assert len(long.samples) <= SAMPLES_MAX
    assert long.slope == pytest.approx(100_000)


def test_processes_that_have_ended_are_judged_once() -> None:
    watch, growth = MemoryWatch(0), dict[str, Growth]()
    for handoffs in range(0, WARM_UP + SPAN + 1, STEP):
        watch.sample("decode", "decode-0#1", handoffs, 1000 * handoffs)
        watch.sample("decode", "decode-1#2", handoffs, 80 * MIB)
        watch.sample("router", "the router", handoffs, 80 * MIB)
    (line,) = watch.keep({"the router"}, growth)
    assert line == ("decode-0#1: its memory grows by 1,000,000 bytes per 1,000 hand-overs "
                    f"(48,000 is the limit), over {SPAN:,} hand-overs")
    assert growth == {"decode": Growth(series=2, worst=1e6, handoffs=2 * SPAN)}
    assert watch.keep({"the router"}, growth) == []
    assert watch.keep((), growth) == []
    assert growth["router"] == Growth(series=1, worst=0.0, handoffs=SPAN)
