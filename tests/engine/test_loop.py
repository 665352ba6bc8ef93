"""The thread of an engine lets other threads of its process run, however much its peers send."""

import os
from typing import Final

import pytest

from pdproto.engine.loop import READ, Loop
from pdproto.net import rests as resting
from tests.waiting import until

EVENTS: Final = 100
EVENT_S: Final = 1 / 1024  # exact in binary; six of them are more than BUSY_S, and five less


def test_a_thread_that_always_has_something_to_serve_rests(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """A millisecond for each event of a file: it rests after each six."""
    now, served, rests = 0.0, 0, list[float]()
    monkeypatch.setattr(resting, "monotonic", lambda: now)
    monkeypatch.setattr(resting, "sleep", rests.append)
    loop = Loop("a loop", work=lambda: False, end=lambda: None)
    ready = os.eventfd(1)  # readable until it is read

    def serve(_events: int) -> None:
        nonlocal now, served
        now, served = now + EVENT_S, served + 1
        if served == EVENTS:
            loop.forget(ready)

    loop.watch(ready, READ, serve)
    loop.start()
    until(lambda: served == EVENTS, "the events to be served")
    loop.close()
    os.close(ready)
    assert len(rests) >= EVENTS // 6
    assert set(rests) == {resting.REST_S}
