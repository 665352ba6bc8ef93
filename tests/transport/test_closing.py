"""`close()` of a node, from wherever it is called: it completes, and nothing is left."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Final

import numpy as np
import pytest

from pdproto import DecodeNode, KVPoll, PrefillNode, SinkPages, SourcePages
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import open_sink, open_source
from pdproto.runtime.errors import LocalProtocolError
from tests.node.leftovers import opened
from tests.waiting import PATIENCE_S, ended, until

NEEDED = 6  # threads: of the engine, those that ZeroMQ is asked for, and of the loop


def source(engine: str = "tcp") -> SourcePages:
    return SourcePages([np.zeros((4, 1, 1, 64), np.uint8)], open_source(engine))


def sink(engine: str = "tcp") -> SinkPages:
    return SinkPages({"p": [np.zeros((4, 1, 1, 64), np.uint8)]}, open_sink(engine))


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    threads, files = threading.active_count(), opened()
    yield
    until(lambda: threading.active_count() <= threads, lambda: str(threading.enumerate()))
    until(lambda: len(opened()) <= len(files), lambda: str(opened().items() - files.items()))


Closer = Callable[[PrefillNode], None]


def in_a_watcher(node: PrefillNode) -> None:
    with suppress(LocalProtocolError):  # it may be closed already
        node.open(7, watcher=lambda _: node.close()).abort()


def in_on_released(node: PrefillNode) -> None:
    node.open(7, on_released=node.close).abort()


def in_many_threads(node: PrefillNode) -> None:
    threads = [threading.Thread(target=node.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        ended(thread)


@pytest.mark.parametrize("close", [in_a_watcher, in_on_released, in_many_threads])
@pytest.mark.parametrize("engine", ["shm", "tcp"])
def test_a_node_closes_wherever_close_is_called(close: Closer, engine: str) -> None:
    """Seen red with a loop that joins its own thread: a thread, sockets and 18 files are left."""
    node = PrefillNode("p", source(engine))
    close(node)
    until(lambda: node.health() == "node p is closed")
    node.close()
    with pytest.raises(LocalProtocolError, match="node p is closed"):
        node.open(8)


def test_a_close_that_was_interrupted_goes_on_when_it_is_called_again(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while `close` waits. Seen red with a second call that returns at once."""
    path = sink()
    node = DecodeNode("d", path)
    blocked, released = threading.Event(), threading.Event()
    close = path.close

    def close_slowly() -> None:
        blocked.set()
        released.wait(PATIENCE_S)
        close()

    monkeypatch.setattr(path, "close", close_slowly)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            node.close()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert blocked.is_set()
    again = threading.Thread(target=node.close)
    again.start()
    assert again.is_alive()
    released.set()
    ended(again)


def test_the_steps_of_closing_behind_one_that_fails_are_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The data path raises; sockets, files and the thread are closed all the same."""
    path = sink()
    node = DecodeNode("d", path)
    close = path.close

    def close_and_fail() -> None:
        close()
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(path, "close", close_and_fail)
    node.close()
    assert "the device is gone" in caplog.text


@pytest.mark.parametrize("left", range(8))
def test_a_node_that_finds_no_thread_leaves_nothing(
    left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many threads can start; then none can. Each construction that fails is an OSError, or an
    EngineError of the engine, that names the limit.

    Seen red with ZeroMQ asked first, and with no clean-up: the engine's thread and files are left.
    """
    start, started = threading.Thread.start, iter(range(left))

    def start_or_not(thread: threading.Thread) -> None:
        if next(started, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched, ExitStack() as refused:
        patched.setattr(threading.Thread, "start", start_or_not)
        if left < NEEDED:
            refused.enter_context(pytest.raises((OSError, EngineError), match="RLIMIT_NPROC"))
        node = PrefillNode("p", source())
    if left >= NEEDED:
        node.close()


LAST: Final = """
import numpy as np
from pdproto import PrefillNode, SourcePages
from pdproto.engine.engines import open_sink, open_source
from pdproto.registry.app import RegistryServer

class Owner:
    def __init__(self):
        self.owned = {made}
    def __del__(self):
        self.owned.close()

owner = Owner()
"""


@pytest.mark.parametrize("made", [
    "PrefillNode('p', SourcePages([np.zeros((8, 1, 1, 64), np.uint8)], open_source('tcp')))",
    "open_source('shm')", "open_sink('tcp')", "RegistryServer()",
])
def test_a_program_ends_whose_last_object_closes_what_it_owns(made: str) -> None:
    """The interpreter runs no other thread any more when it takes the objects of a module away."""
    subprocess.run([sys.executable, "-c", LAST.format(made=made)], timeout=PATIENCE_S, check=True)


def test_a_hand_over_ends_with_the_node_that_closes_in_its_watcher() -> None:
    prefill, decode = PrefillNode("p", source()), DecodeNode("d", sink())

    prefill.open(7, watcher=lambda sender: (
        prefill.close() if sender.poll() is KVPoll.WAITING_FOR_INPUT else None))
    received = decode.open(7, {"p": prefill.endpoint}, pages=[1])
    until(lambda: received.poll() is KVPoll.FAILED)
    assert "p" in (received.failure or "")
    decode.close()
