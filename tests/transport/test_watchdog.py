"""The cost of a loop's turns: what is counted as slow, and which part is blamed."""

import logging

import pytest

from pdproto.transport import watchdog
from pdproto.transport.watchdog import Watchdog


class Clocks:
    """The time, and the processor time of the thread, in seconds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = self.used = 1.0
        patch.setattr(watchdog, "monotonic", lambda: self.now)
        patch.setattr(watchdog, "thread_time", lambda: self.used)

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.used += seconds

    def wait(self, seconds: float) -> None:
        self.now += seconds


def test_a_slow_turn_is_told_with_its_longest_part(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the wait between two turns nor the turn before is a part of it."""
    clocks, dog = Clocks(monkeypatch), Watchdog("p0")
    with caplog.at_level(logging.WARNING):
        for first, second in ((0.005, 0.045), (0.048, 0.003)):
            dog.begin("requests")
            clocks.work(first)
            dog.part("messages")
            clocks.work(second)
            dog.end()
            clocks.wait(60.0)
    assert dog.slow == 1
    assert dog.longest_s == pytest.approx(0.051)
    assert "took 51.0 ms of processor time, the longest part 'requests' in 48.0 ms" in caplog.text


def test_a_long_wait_for_the_interpreter_is_no_work_of_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks, dog = Clocks(monkeypatch), Watchdog("p0")
    for _ in range(3):
        dog.begin("requests")
        clocks.work(0.020)
        dog.end()
        clocks.wait(8.0)
        clocks.used += 0.040
    assert (dog.slow, dog.longest_s) == (0, 0.0)


def test_a_turn_that_waits_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, dog = Clocks(monkeypatch), Watchdog("p0")
    clocks.work(5.0)  # before the first turn
    dog.begin("requests")
    clocks.wait(2.0)
    assert not dog.has_time
    dog.end()
    assert (dog.slow, dog.longest_s) == (0, 0.0)


def test_a_turn_whose_parts_use_all_their_time_ends_within_5_ms(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a part that began just in time had 2 ms of its own: 5.7 ms."""
    for before in (0.0, 0.0009, 0.0019, 0.0021):
        clocks, dog = Clocks(monkeypatch), Watchdog("p0")
        dog.begin("requests")
        dog.end()
        began = clocks.now
        dog.begin("requests")
        clocks.work(before)
        for part in range(9):
            dog.part(str(part))
            while dog.has_time:
                clocks.work(0.000_01)
        assert clocks.now - began < 0.005
