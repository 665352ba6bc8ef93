"""What an engine that gathers has given up on: nothing reads the caller's bytes any more.

They may be pages, which belong to somebody else as soon as the outcome is known. A bytearray cannot
be emptied while anybody can still read it through a view.
"""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from pdproto.engine import tcp_sink
from pdproto.engine.contract import Address, Result
from pdproto.engine.frames import Frame, Kind
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import Copy, SharedSource
from pdproto.engine.source import Source
from pdproto.engine.tcp_source import TcpSource
from tests.engine.engines import finished
from tests.waiting import until

LENGTH = 64 << 20  # more than all sockets on its way hold


@pytest.fixture
def memory() -> Iterator[bytearray]:
    """The caller's; it is given up in the end."""
    yield (held := bytearray(LENGTH))
    held.clear()


def unread(memory: bytearray) -> bool:
    """Whether nobody has a view of it."""
    try:
        memory.append(0)
    except BufferError:
        return False
    return True


def has_begun(source: Source) -> bool:
    return any(posted.begun for line in list(source._lines.values())
               for posted in list(line.open.values()))


def test_over_tcp(memory: bytearray) -> None:
    with closing(TcpSource()) as source, socket.create_server(("127.0.0.1", 0)) as listening:
        where = f"127.0.0.1:{listening.getsockname()[1]}"
        source.post(Address(tcp_sink.ENGINE, where, 0, 0, LENGTH, b""), 0, [memory])
        with listening.accept()[0] as sink:
            sink.sendall(Frame(Kind.CHALLENGE, token=bytes(32)).encode())
            until(lambda: has_begun(source), "it begins")
            assert not unread(memory)
        (outcome,) = finished(source)
        assert outcome.result is Result.ERROR
        assert unread(memory)


def test_in_shared_memory(memory: bytearray, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a copy, which goes on a segment at a time."""
    step = Copy.step
    monkeypatch.setattr(Copy, "step", lambda copy: (
        copy.posted.ended or not copy.posted.begun) and step(copy))
    with closing(SharedSource()) as source:
        with closing(SharedSink()) as sink:
            lease = sink.lease("life", "p0", LENGTH)
            assert lease is not None
            source.post(lease.address, 0, [memory])
            until(lambda: has_begun(source), "it begins")
            assert not unread(memory)
        (outcome,) = finished(source)
        assert outcome.result is Result.ERROR
        until(lambda: unread(memory), "the copy that has ended is dropped")
