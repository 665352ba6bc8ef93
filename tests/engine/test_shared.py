"""What the shared memory engine has of a sink's memory, and for how long."""

import errno
import os
import socket
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from pdproto.engine.contract import Result
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import Copy, SharedSource
from tests.engine.engines import write
from tests.node.leftovers import opened
from tests.waiting import until

BYTES = 1 << 20


def test_a_copy_that_is_cut_short_lets_go_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not when somebody collects what points in a circle."""
    def shares() -> int:
        return sum("memfd:pdproto" in path for path in opened().values())

    monkeypatch.setattr(Copy, "step", lambda _: False)
    with closing(SharedSink()) as sink:
        lease = sink.lease("life", "source", BYTES)
        assert lease is not None
        before = shares()
        with closing(SharedSource()) as source:
            source.post(lease.address, 0, [np.zeros(BYTES, np.uint8)])
            until(lambda: shares() > before, "the sink's memory to be mapped")
        # The sink's thread closes a file when it has sent it.
        until(lambda: shares() <= before, "the sink's memory to be unmapped")


def test_a_sink_without_a_file_to_hand_out_refuses_that_write_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Seen red: the connection ended, and with it the writes of every other hand-over over it."""
    def none_left(_file: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with closing(SharedSink()) as sink, closing(SharedSource()) as source:
        one, other = (sink.lease(life, "source", BYTES) for life in ("one", "other"))
        assert one is not None
        assert other is not None
        data = np.ones(BYTES, np.uint8)
        assert write(source, one.address, data).result is Result.LANDED
        with monkeypatch.context() as patch:
            patch.setattr(os, "dup", none_left)
            assert write(source, other.address, data).result is Result.REFUSED
        assert sink.departed() == []
        assert sink.counts().connections == 1
        assert "cannot hand out staging memory: [Errno 24] Too many open files" in caplog.text
        assert write(source, one.address, data).result is Result.LANDED
        assert write(source, other.address, data).result is Result.LANDED


def test_a_source_without_room_for_a_file_gives_up_that_write_alone(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel leaves the file out. Seen red: the connection ended, with the writes of every
    other hand-over over it.
    """
    receive = socket.recv_fds

    def without_files(*arguments: Any) -> tuple[bytes, list[int], int, Any]:
        packet, files, flags, address = receive(*arguments)
        for file in files:
            os.close(file)
        return packet, [], flags | socket.MSG_CTRUNC, address

    with closing(SharedSink()) as sink, closing(SharedSource()) as source:
        one, other = (sink.lease(life, "source", BYTES) for life in ("one", "other"))
        assert one is not None
        assert other is not None
        data = np.ones(BYTES, np.uint8)
        assert write(source, one.address, data).result is Result.LANDED
        with monkeypatch.context() as patch:
            patch.setattr(socket, "recv_fds", without_files)
            refused = write(source, other.address, data)
        assert refused.result is Result.REFUSED
        assert "too many open files (ulimit -n)" in refused.reason
        assert sink.counts().connections == 1
        assert write(source, one.address, data).result is Result.LANDED
        assert write(source, other.address, data).result is Result.LANDED
