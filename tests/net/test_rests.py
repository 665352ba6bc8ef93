"""A thread that serves files rests when it has been busy for long, and not when it has waited."""

import pytest

from pdproto.net import rests
from pdproto.net.rests import BUSY_S, REST_S, Rests


class Clock:
    """A clock that tests move, and that a rest moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.rests = 10.0, 0
        monkeypatch.setattr(rests, "monotonic", lambda: self.now)
        monkeypatch.setattr(rests, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.rests += 1


@pytest.mark.parametrize(("waited", "rested"), [(0.0, 1), (REST_S / 2, 1), (REST_S * 2, 0)])
def test_a_wait_for_files_is_a_rest(
    monkeypatch: pytest.MonkeyPatch, waited: float, rested: int
) -> None:
    clock = Clock(monkeypatch)
    thread = Rests()
    clock.now += BUSY_S * 2  # of work
    thread.ask()
    clock.now += waited
    thread.take()
    assert clock.rests == rested
    for _ in range(3):  # it has just rested
        thread.ask()
        thread.take()
    assert clock.rests == rested
