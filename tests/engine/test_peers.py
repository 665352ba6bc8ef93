"""Whatever a peer sends: it is dropped, named and counted, and the others do not notice."""

import errno
import logging
import mmap
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.engine.board import new_board
from pdproto.engine.contract import Address, EngineBusy, EngineError, Lease, Result
from pdproto.engine.frames import (
    FRAME_BYTES,
    OLDEST,
    VERSION,
    Frame,
    Kind,
    Mint,
    challenge,
    decode,
    proof,
)
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.sink import Line, Sink
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.runtime.errors import RemoteProtocolError
from tests.engine.engines import ENGINES, LOCAL, Engine, Pair, finished, write
from tests.tiers import examples
from tests.waiting import ended, until

MAGIC: Final = b"pde%d" % VERSION
SHARED, TCP = ENGINES["shared-memory"], ENGINES["tcp"]


class Dialled(socket.socket):
    """Over TCP it sends a proof in place of each token."""

    first: Frame | None = None

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]  # only bytes
        if self.family == socket.AF_INET and len(data) == FRAME_BYTES and data[4] == Kind.WRITE:
            data = self.proven(decode(data, frozenset({Kind.WRITE})))
        return super().send(data, flags)

    def proven(self, frame: Frame) -> bytes:
        plain = replace(frame, token=b"")
        return replace(plain, token=proof(plain, frame.token, self.challenge.token)).encode()

    @property
    def challenge(self) -> Frame:
        """The sink's first frame, which this reads unless it has."""
        if self.first is None:
            told = self.recv(FRAME_BYTES, socket.MSG_WAITALL)
            self.first = decode(told, frozenset({Kind.CHALLENGE}))
        return self.first


def dial(endpoint: str) -> Dialled:
    """A plain connection to a sink of either kind, that holds few answers."""
    if endpoint.startswith("@"):
        sock = Dialled(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect("\0" + endpoint[1:])
    else:
        host, _, port = endpoint.rpartition(":")
        sock = Dialled()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect((host, int(port)))
    sock.settimeout(20)
    return sock


def hangs_up(sock: socket.socket) -> None:
    """Wait until the sink has closed the connection, whatever it said before."""
    with suppress(ConnectionError):
        while sock.recv(1 << 16):
            pass
    sock.close()


def grant(pair: Pair, length: int = 100) -> Lease:
    lease = pair.sink.lease("life", "source", length)
    assert lease is not None
    return lease


def opening(lease: Lease, number: int = 1, length: int = 100) -> bytes:
    return Frame(Kind.WRITE, number, length=length, token=lease.address.token).encode()


def before(frame: bytes) -> bytes:
    """The frame as the version before wrote it: the magic says which one."""
    return b"pde%d" % (VERSION - 1) + frame[4:]


OLDER: Final = (f"version: the peer's data port speaks {VERSION - 1}, and this one {VERSION}: want "
                f"releases of pdproto that follow one another")


# Sinks.


def bad_packets(lease: Lease) -> dict[str, list[bytes]]:
    """What ends a connection at its last packet, for either kind of sink, and what is said."""
    return {
        "frame begins with": [bytes(FRAME_BYTES)],
        "frame begins with b'pdeX', want": [b"pdeX" + Frame(Kind.SEGMENT, 1).encode()[4:]],
        OLDER: [before(Frame(Kind.SEGMENT, 1).encode())],
        "frame of kind 99": [opening(lease)[:4] + b"\x63" + opening(lease)[5:]],
        "frame of kind 6": [Frame(Kind.LANDED, 1).encode()],
        "at 0 of a lease of 100": [opening(lease, length=101)],
        "write 0 after write 0": [opening(lease, 0)],
        "write 3 after write 3": [opening(lease, 3, 0), opening(lease, 3, 0)],
    }


def test_a_peer_is_dropped_for_malformed_messages(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    lease = grant(pair)
    for count, (said, packets) in enumerate(bad_packets(lease).items(), start=1):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            sock = dial(lease.address.endpoint)
            for packet in packets:
                sock.send(packet)
            hangs_up(sock)
        assert said in caplog.text
        assert pair.sink.counts().dropped_peers == count
        assert write(pair.source, lease.address, bytes(100)).result is Result.LANDED
    assert pair.sink.counts().connections == 1


@pytest.mark.parametrize("engine", [TCP], ids=["tcp"])
def test_segments_that_are_not_of_a_write_drop_their_peer(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    lease = grant(pair)
    cases: dict[str, list[int | Frame]] = {
        "segment of write 1, which has not begun": [Frame(Kind.SEGMENT, 1, length=1)],
        "segment of write 2": [1, Frame(Kind.SEGMENT, 2, length=1)],
        "segment of 101 bytes, write 1 has 100 to come": [1, Frame(Kind.SEGMENT, 1, length=101)],
        "segment of 0 bytes": [1, Frame(Kind.SEGMENT, 1, length=0)],
        "write 2 begins inside 1": [1, 2],
    }
    for said, frames in cases.items():
        sock = dial(lease.address.endpoint)
        for frame in frames:
            sock.send(opening(lease, frame) if isinstance(frame, int) else frame.encode())
        hangs_up(sock)
        assert said in caplog.text
        assert "source at 127.0.0.1" in caplog.text or frames[0] != 1


@pytest.mark.parametrize("engine", LOCAL.values(), ids=LOCAL)
def test_answers_to_nothing_drop_their_peer(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    lease = grant(pair)
    cases = {
        "frame: 3 bytes": b"abc",
        f"frame: {FRAME_BYTES + 1} bytes": opening(lease) + b"x",
        "frame of kind 3, want one of": Frame(Kind.COPIED, 1).encode(),
        "region 7 is reported as unmapped, but was not": Frame(Kind.DROPPED, region=7).encode(),
    }
    for said, packet in cases.items():
        sock = dial(lease.address.endpoint)
        sock.send(packet)
        hangs_up(sock)
        assert said in caplog.text


def test_a_peer_that_goes_in_the_middle_of_a_frame_is_no_trouble(pair: Pair) -> None:
    lease = grant(pair)
    sock = dial(lease.address.endpoint)
    assert sock.challenge.version == VERSION  # what is not read turns its departure into an error
    sock.send(opening(lease))
    sock.send(Frame(Kind.SEGMENT, 1, length=90).encode()[:10])
    sock.close()
    until(pair.sink.departed, "the departure")
    assert write(pair.source, lease.address, bytes(100)).result is Result.LANDED


def test_any_bytes_leave_the_others_alone(pair: Pair) -> None:
    lease = grant(pair)
    real = st.sampled_from([opening(lease), Frame(Kind.SEGMENT, 1, length=50).encode(), MAGIC])

    @given(pieces=st.lists(st.binary(max_size=200) | real, max_size=6))
    @settings(max_examples=examples(20, 60))
    def for_any(pieces: list[bytes]) -> None:
        sock = dial(lease.address.endpoint)
        with suppress(ConnectionError):
            for piece in pieces:
                sock.send(piece)
        sock.close()
        assert write(pair.source, lease.address, bytes(100)).result is Result.LANDED

    for_any()
    until(lambda: pair.sink.counts().connections == 1, "the connections to end")


def test_peers_that_say_nothing_make_room_for_those_that_do(engine: Engine) -> None:
    sink, source = engine.sink(connections_max=3), engine.source()
    lease = sink.lease("life", "source", 100)
    assert lease is not None
    silent = [dial(lease.address.endpoint) for _ in range(10)]
    assert write(source, lease.address, bytes(100)).result is Result.LANDED
    assert sink.counts().connections <= 3
    for sock in silent:
        sock.close()
    source.close()
    sink.close()


def test_a_sink_that_is_full_of_known_peers_takes_no_more(engine: Engine) -> None:
    sink, source = engine.sink(connections_max=1), engine.source()
    lease = sink.lease("life", "source", 100)
    assert lease is not None
    assert write(source, lease.address, bytes(100)).result is Result.LANDED
    hangs_up(dial(lease.address.endpoint))
    assert sink.counts().dropped_peers == 1
    assert write(source, lease.address, bytes(100)).result is Result.LANDED
    source.close()
    sink.close()


def refusals(pair: Pair, count: int) -> Iterator[bytes]:
    """Writes of nothing to a lease that is over: each is answered, and costs nothing else."""
    lease = grant(pair)
    pair.sink.release(lease)
    for number in range(1, count + 1):
        yield opening(lease, number, 0)


def test_answers_wait_for_a_peer_that_reads_late(pair: Pair) -> None:
    """More than its socket holds, and fewer than are kept for it."""
    with dial(grant(pair).address.endpoint) as sock:
        assert sock.challenge.version == VERSION
        line = only_line(pair)
        # A kernel whose buffers are full takes nothing more from the peer, until the peer reads.
        writes = threading.Thread(target=send_all, args=(sock, refusals(pair, 3_000)))
        writes.start()
        until(lambda: line.outbox, "answers to wait")
        for number in range(1, 3_001):
            answer = b""
            while len(answer) < FRAME_BYTES:
                answer += sock.recv(FRAME_BYTES - len(answer))
            assert decode(answer, frozenset({Kind.REFUSED})).write == number
        ended(writes)
    assert pair.sink.counts().refused_writes == 3_000


def send_all(sock: Dialled, packets: Iterator[bytes]) -> None:
    for packet in packets:
        sock.send(packet)


def only_line(pair: Pair) -> Line:
    """The sink's end of its only connection, whose kernel holds few answers."""
    sink = pair.sink
    assert isinstance(sink, Sink)
    until(lambda: sink.lines, "the peer to be accepted")
    line: Line = sink.lines[0]
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return line


def test_a_peer_that_never_reads_is_dropped(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pdproto.engine.sink.UNREAD_ANSWERS_MAX", 10)
    with dial(grant(pair).address.endpoint) as sock:
        # A kernel whose buffers are full for long also drops what says that there is room the other
        # way, and lets a peer wait for many seconds.
        only_line(pair)
        with suppress(ConnectionError):
            send_all(sock, refusals(pair, 1_000_000))
            pytest.fail("a million answers were kept for it")
    until(lambda: pair.sink.counts().dropped_peers == 1, "the peer to be dropped")
    assert "it has left 10 answers unread" in caplog.text
    assert write(pair.source, grant(pair).address, bytes(100)).result is Result.LANDED


def test_a_sink_out_of_files_lasts(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lease = grant(pair)
    assert write(pair.source, lease.address, bytes(100)).result is Result.LANDED

    def none_left(_listener: socket.socket) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "accept", none_left)
        sock = dial(lease.address.endpoint)
        until(lambda: "cannot accept a peer" in caplog.text, "the sink to say so")
    until(lambda: pair.sink.counts().connections == 2, "the peer to be accepted after all")
    assert write(pair.source, lease.address, bytes(100)).result is Result.LANDED
    sock.close()


@pytest.mark.parametrize("engine", LOCAL.values(), ids=LOCAL)
def test_another_user_is_not_served(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lease = grant(pair)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    hangs_up(dial(lease.address.endpoint))
    assert "belongs to another user" in caplog.text
    assert pair.sink.counts().dropped_peers == 1


def test_a_system_without_memory_is_said(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    piece_bytes = pair.engine.piece_bytes

    def none_left(*_arguments: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", none_left)
        patch.setattr(mmap, "mmap", none_left)
        with pytest.raises(EngineBusy, match=f"no staging memory of {piece_bytes} bytes"):
            pair.sink.lease("life", "source", 100)
    assert write(pair.source, grant(pair).address, bytes(100)).result is Result.LANDED
    assert pair.sink.counts().leased_bytes == piece_bytes


def test_a_port_in_use_is_said() -> None:
    sink = TcpSink()
    port = int(sink.leases.endpoint.rpartition(":")[2])
    with pytest.raises(EngineError, match=f"cannot listen on 127.0.0.1 port {port}"):
        TcpSink(port=port)
    sink.close()


# Sources.


@contextmanager
def pretender(
    engine: Engine, answers: list[bytes], first: Frame | None = None
) -> Iterator[tuple[Address, list[bytes]]]:
    """Something that listens like a sink, and answers the first peer's first bytes with these.

    first: its first frame, if not that of a sink. Yields its address, and a list of those bytes.
    """
    heard: list[bytes] = []
    if engine.is_local:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        name = f"pdproto-pretender-{os.getpid()}"  # all processes of a machine share these names
        listener.bind(f"\0{name}")
        endpoint = f"@{name}"
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
    listener.listen()

    def answer() -> None:
        sock, _ = listener.accept()
        with suppress(ConnectionError):
            frame = (first or challenge(bytes(32))).encode()
            if engine.is_local:
                _, board = new_board()
                socket.send_fds(sock, [frame], [board])
                os.close(board)
            else:
                sock.send(frame)
            heard.append(sock.recv(1 << 20))
            for packet in answers:
                sock.send(packet)
            while sock.recv(1 << 20):
                pass
        sock.close()

    thread = threading.Thread(target=answer)
    thread.start()
    yield Address(engine.name, endpoint, 1, 0, 4096, bytes(32)), heard
    ended(thread)
    listener.close()


BAD_ANSWERS: Final = {
    "nonsense": bytes(FRAME_BYTES),
    "of a source": Frame(Kind.WRITE, 1).encode(),
    "to nothing": Frame(Kind.LANDED, 7).encode(),
    "of the version before": before(Frame(Kind.LANDED, 1).encode()),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_a_sink_that_answers_nonsense_is_left(engine: Engine, case: str) -> None:
    source = engine.source()
    with pretender(engine, [BAD_ANSWERS[case]]) as (address, _):
        source.post(address, 0, [np.zeros(4096, np.uint8)])
        (outcome,) = finished(source)
    assert outcome.result is not Result.LANDED
    assert address.endpoint in outcome.reason
    assert (OLDER in outcome.reason) is (case == "of the version before")
    pair = Pair(engine)
    assert write(source, grant(pair).address, bytes(100)).result is Result.LANDED
    source.close()
    pair.close()


def test_memory_is_granted_with_the_memory() -> None:
    source = SharedSource()
    granted = Frame(Kind.GRANTED, 1, length=4096, region=1).encode()
    with pretender(SHARED, [granted]) as (address, _):
        outcome = write(source, address, bytes(4096))
        source.close()
    assert outcome.result is Result.REFUSED
    assert "its file has not come" in outcome.reason


@pytest.mark.parametrize("endpoint", ["nowhere", "127.0.0.1:x", "127.0.0.1:99999", "@gone", ":1"])
def test_an_endpoint_that_is_none_refuses_its_writes(engine: Engine, endpoint: str) -> None:
    source = engine.source()
    address = Address(engine.name, endpoint, 1, 0, 10, bytes(32))
    source.connect(address)
    outcome = write(source, address, bytes(10))
    assert outcome.result is Result.REFUSED
    assert endpoint in outcome.reason
    source.close()


# Frames.


@given(data=st.binary(min_size=FRAME_BYTES - 1, max_size=FRAME_BYTES + 1), good=st.booleans())
def test_any_bytes_are_a_frame_or_a_remote_error(data: bytes, good: bool) -> None:
    told = (MAGIC + data[4:]) if good else data
    with suppress(RemoteProtocolError):
        frame = decode(told, frozenset(Kind))
        assert frame.encode()[8:] == told[8:]


@given(
    kind=st.sampled_from(Kind),
    numbers=st.lists(st.integers(0, (1 << 64) - 1), min_size=4, max_size=4),
    token=st.binary(min_size=32, max_size=32),
)
def test_frames_travel(kind: Kind, numbers: list[int], token: bytes) -> None:
    write, offset, length, region = numbers
    frame = Frame(kind, write, offset, length, region, token, oldest=OLDEST)
    assert decode(frame.encode(), frozenset({kind})) == frame


@given(number=st.integers(0, 1 << 40), place=st.integers(0, 31), bit=st.integers(0, 7))
def test_a_token_with_a_flipped_bit_was_never_granted(number: int, place: int, bit: int) -> None:
    mint = Mint()
    token = bytearray(mint.token(number))
    assert mint.number(bytes(token)) == number
    token[place] ^= 1 << bit
    with pytest.raises(RemoteProtocolError, match="has not granted"):
        mint.number(bytes(token))


def test_sinks_listen_on_other_addresses() -> None:
    sink = TcpSink(host="127.0.0.2", advertised="127.0.0.2")
    source = TcpSource()
    lease = sink.lease("life", "source", 10)
    assert lease is not None
    assert lease.address.endpoint.startswith("127.0.0.2:")
    assert write(source, lease.address, bytes(10)).result is Result.LANDED
    source.close()
    sink.close()


def test_a_mistake_of_ours_is_loud(caplog: pytest.LogCaptureFixture) -> None:
    sink = SharedSink()

    def mistake() -> None:
        raise ZeroDivisionError("of ours")

    sink.loop.call(mistake)
    until(lambda: "has failed" in caplog.text, "the failure to be logged")
    with pytest.raises(EngineError, match="of ours"):
        sink.lease("life", "source", 1)
    sink.close()
