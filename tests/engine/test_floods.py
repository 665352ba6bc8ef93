"""The data port over TCP under strangers and slow peers: writes land, and memory comes back."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from threading import Event
from typing import Final

import pytest

from pdproto.engine.contract import Result
from pdproto.engine.frames import VERSION, Frame, Kind
from pdproto.engine.sink import FRAMES_A_TURN
from pdproto.engine.tcp_sink import TcpLine, TcpSink
from pdproto.engine.tcp_source import TcpSource
from tests.engine.engines import write
from tests.engine.test_peers import dial, opening
from tests.transport.many_files import many_files
from tests.waiting import until

MANY: Final = 1_000
LENGTH: Final = 100


@pytest.fixture
def sink() -> Iterator[TcpSink]:
    with many_files(), closing(TcpSink(connections_max=100)) as one:
        yield one


def written(sink: TcpSink, source: TcpSource, life: str) -> Result:
    lease = sink.lease(life, "source", LENGTH)
    assert lease is not None
    return write(source, lease.address, bytes(LENGTH)).result


def test_a_thousand_connections_of_one_address_are_bounded_and_stop_no_write(
    sink: TcpSink, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor do they fill a disk: 900 and more that are dropped make 10 lines in the log."""
    with closing(TcpSource()) as source, ExitStack() as opened:
        assert written(sink, source, "before") is Result.LANDED
        lease = sink.lease("asked", "source", LENGTH)
        assert lease is not None
        for _ in range(MANY):
            opened.enter_context(dial(lease.address.endpoint))
        until(lambda: sink.counts().dropped_peers >= MANY - 100, "the bound to be kept")
        assert sink.counts().connections <= 100
        assert written(sink, source, "same connection") is Result.LANDED
        with closing(TcpSource()) as another:
            assert written(sink, another, "new connection") is Result.LANDED
    told = [message for message in caplog.messages if "dropping " in message]
    assert [line.rpartition("(")[2] for line in told] == [
        f"{2 ** power} so far)" for power in range(10)]


def test_frames_without_end_stop_no_other_connection(
    sink: TcpSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that writes nothing again and again: a turn of the engine reads few of its frames.
    """
    read, receive, sent = [], TcpLine.receive, Event()

    def counted(line: TcpLine) -> None:
        before = line._numbered
        receive(line)
        read.append(line._numbered - before)

    def held_up() -> None:
        sent.wait(20)

    monkeypatch.setattr(TcpLine, "receive", counted)
    lease = sink.lease("asked", "source", LENGTH)
    assert lease is not None
    with dial(lease.address.endpoint) as busy:
        assert busy.challenge.version == VERSION
        sink.loop.call(held_up)  # all frames come before the first is read
        for number in range(1, MANY + 1):
            busy.send(opening(lease, number, 0))
        sent.set()
        until(lambda: sum(read) == MANY, "all frames to be read")
        assert max(read) == FRAMES_A_TURN
        with closing(TcpSource()) as source:
            assert written(sink, source, "beside it") is Result.LANDED


def test_a_writer_that_stops_in_mid_write_holds_no_memory_and_no_other(sink: TcpSink) -> None:
    """Its fence needs no word of it, and its connection no turn of the others."""
    lease = sink.lease("slow", "source", LENGTH)
    assert lease is not None
    with dial(lease.address.endpoint) as slow, closing(TcpSource()) as source:
        slow.send(Frame(Kind.WRITE, 1, length=LENGTH, token=lease.address.token).encode())
        slow.sendall(Frame(Kind.SEGMENT, 1, length=LENGTH).encode() + bytes(LENGTH // 2))
        until(lambda: any(line._write is not None and line._write.left == LENGTH // 2
                          for line in sink.lines), "half of the write to come")
        assert written(sink, source, "another") is Result.LANDED
        ticket = sink.fence(lease)
        until(lambda: sink.fenced(ticket), "the fence")
        sink.release(lease)
        assert sink.counts().leases == 1  # of the other write


def test_a_stranger_that_writes_a_frame_byte_by_byte_makes_room(sink: TcpSink) -> None:
    with closing(TcpSource()) as source, ExitStack() as opened:
        lease = sink.lease("asked", "source", LENGTH)
        assert lease is not None
        for _ in range(100):
            slow = opened.enter_context(socket.socket())
            host, _, port = lease.address.endpoint.rpartition(":")
            slow.connect((host, int(port)))
            slow.sendall(b"pde2")
        until(lambda: sink.counts().connections == 100, "every place to be taken")
        assert written(sink, source, "after") is Result.LANDED
        assert sink.counts().dropped_peers == 1
