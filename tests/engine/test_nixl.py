"""NIXL as it is: what its library does, and what the engine over it makes of that."""

import subprocess
import sys
import threading

import pytest

from pdproto.engine.nixl import NixlSource, NixlTransport, Progress
from tests.engine.engines import ENGINES, MISSING, Pair
from tests.engine.libraries import LENGTH, ends_well, killed_in_mid_write, unregistered_in_mid_write
from tests.waiting import until

needs_library = pytest.mark.skipif(bool(MISSING["nixl"]), reason=MISSING["nixl"] or "there")


@needs_library
@pytest.mark.parametrize("way", ["all", "tcp"])
def test_taking_memory_back_is_no_fence(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs lands wholly, and so does what begins later. Both are reported as done."""
    monkeypatch.setenv("UCX_TLS", way)
    found = unregistered_in_mid_write("nixl")
    assert found.landed == LENGTH
    assert found.ended
    assert found.again
    assert found.again_bytes == 4096


@needs_library
@pytest.mark.parametrize("way", ["all", "tcp"])
def test_a_sink_that_dies_in_mid_write_is_named(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCX_TLS", way)
    killed_in_mid_write("nixl")


@needs_library
def test_a_process_that_closes_nothing_ends_well() -> None:
    """UCX's module for EFA adapters, which spoils that, is left out."""
    ends_well("nixl")


@needs_library
@pytest.mark.parametrize("tries", [20, pytest.param(400, marks=pytest.mark.nightly)])
def test_a_sink_that_ends_while_a_source_connects_ends_no_source(tries: int) -> None:
    """UCX aborts the process then, unless it connects in the background."""
    command = [sys.executable, "-m", "tests.engine.sinks_that_end", str(tries)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "under way" not in done.stdout


@needs_library
def test_a_source_that_closes_in_mid_write_gives_the_library_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """See `nothing_is_left`, which is what fails: its sockets, its threads and its memory."""
    pair = Pair(ENGINES["nixl"])
    monkeypatch.setattr(NixlTransport, "ended", lambda *_: None)  # the library takes its time
    lease = pair.sink.lease("life", "source", 1 << 20)
    assert lease is not None
    source = NixlSource()
    source.post(lease.address, 0, [bytes(1 << 20)])
    until(lambda: any(move.handle for mover in source.movers for move in mover._moving),
          "the transfer to begin")
    source.close()
    pair.close()


def test_the_library_is_polled_only_while_a_source_may_write() -> None:
    before, steps = moving(), list[None]()
    progress = Progress(lambda: steps.append(None))
    assert not moving() - before, "no thread before the first write"
    progress.expect(1)
    progress.expect(1)
    until(lambda: len(steps) > 3, "steps")
    progress.expect(-2)
    until(lambda: quiet(steps), "the steps to end")
    progress.expect(1)
    so_far = len(steps)
    until(lambda: len(steps) > so_far, "steps again")
    assert len(moving() - before) == 1
    progress.close()
    progress.expect(1)
    assert not moving() - before


def moving() -> set[threading.Thread]:
    """The threads that move a library on, of whatever test."""
    return {thread for thread in threading.enumerate() if thread.name == "NIXL"}


def quiet(steps: list[None]) -> bool:
    """Whether the thread waits: a step would come many times in this long."""
    before = len(steps)
    threading.Event().wait(0.05)
    return len(steps) == before
