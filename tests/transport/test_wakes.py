"""The loop sleeps when there is nothing to do, however the calls that wake it meet its turns, and
rests when there is always something to do.
"""

import os
import time
from typing import Final

import pytest

from pdproto.net import rests as resting
from pdproto.transport import event_loop
from tests.node.data_paths import cluster
from tests.waiting import until

STILL_S: Final = 0.2
TURNS_MAX: Final = 20  # meanwhile; a loop that does not sleep takes thousands
BUSY_TURNS: Final = 100
AHEAD_S: Final = 1.0  # the clock of a test, so that no rest of the loop before it was later
TURN_S: Final = 1 / 1024  # exact in binary; six of them are more than BUSY_S, and five less


def test_the_loop_sleeps_after_a_wake_that_came_when_its_request_was_taken(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread notes that it wakes the loop, and then writes to the file for which the loop waits.
    A turn between the two takes the request, and finds nothing in the file.
    """
    write = os.eventfd_write
    with cluster() as nodes:
        loop = nodes.prefills[0]._loop

        def write_late(file: int, count: int) -> None:
            write(file, count)  # the turn between the two
            until(lambda: not loop._awake)
            write(file, count)

        with monkeypatch.context() as patched:
            patched.setattr("pdproto.transport.event_loop.os.eventfd_write", write_late)
            loop.ask(lambda: None)
        turns = []
        take = loop._turn

        def counted(**told: bool) -> float:
            turns.append(told)
            return take(**told)

        monkeypatch.setattr(loop, "_turn", counted)
        time.sleep(STILL_S)
        assert len(turns) <= TURNS_MAX


def test_a_loop_that_is_always_busy_lets_other_threads_run(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns of a millisecond, one behind the other: it rests after each six."""
    rests: list[float] = []
    turns = 0
    with cluster() as nodes:
        loop = nodes.prefills[0]._loop
        take = loop._turn
        now = time.monotonic() + AHEAD_S

        def busy(**told: bool) -> float:
            nonlocal now, turns
            turns, now = turns + 1, now + TURN_S
            due = take(**told)
            loop._unread = turns < BUSY_TURNS
            return due

        with monkeypatch.context() as patched:
            patched.setattr(event_loop, "monotonic", lambda: now)
            patched.setattr(resting, "monotonic", lambda: now)
            patched.setattr(resting, "sleep", rests.append)
            patched.setattr(loop, "_turn", busy)
            loop.wake()
            until(lambda: turns >= BUSY_TURNS)
    assert len(rests) >= BUSY_TURNS // 6
    assert set(rests) == {resting.REST_S}
