"""A clock that counts work, for tests that bound what a loop does in one turn.

The watchdog of a loop (transport/watchdog.py) ends a part of a turn, and reports a long turn, by
its clock. With this clock it does both by the number of functions that the loop's thread has
called. That number depends on the program alone, neither on the machine nor on its load.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest

from pdproto.transport import watchdog

CALL_S: Final = 2e-7  # so a part of a turn is over after 10,000 calls
SLOW_CALLS: Final = 50_000  # in one turn


@contextmanager
def clock_counts_work() -> Iterator[Counter[int]]:
    """For the watchdogs of all threads that start in here. Yields the calls of each thread so far.
    """
    calls: Counter[int] = Counter()  # by thread

    def count(_frame: FrameType, event: str, _about: Any) -> None:
        if event in ("call", "c_call"):
            calls[threading.get_ident()] += 1

    def clock() -> float:
        return calls[threading.get_ident()] * CALL_S

    before = threading.getprofile()
    threading.setprofile(count)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(watchdog, "SLOW_S", SLOW_CALLS * CALL_S)
            patch.setattr(watchdog, "thread_time", clock)
            patch.setattr(watchdog, "monotonic", clock)
            yield calls
    finally:
        threading.setprofile(before)


def assert_no_slow_turn(name: str, dog: watchdog.Watchdog) -> None:
    """No turn of the loop has done more than its share. name: of the node."""
    calls = round(dog.longest_s / CALL_S)
    assert dog.slow == 0, f"{name}: {calls:,} calls in one turn, more than {SLOW_CALLS:,}"
