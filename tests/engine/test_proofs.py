"""The data port over TCP: who holds the token of a lease proves it, and never sends it.

The listener between the two ends has all the bytes that a reader of the network has.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.engine.contract import Lease, Result
from pdproto.engine.frames import FRAME_BYTES, Frame, Kind, Mint, decode, proof
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.runtime.errors import RemoteProtocolError
from tests.engine.engines import write
from tests.waiting import ended, until

WRITES: Final = frozenset({Kind.WRITE})
LENGTH: Final = 100


@contextmanager
def overheard(endpoint: str, heard: dict[str, bytearray]) -> Iterator[str]:
    """An endpoint that passes one connection on to this one, and keeps what both ends say."""
    host, _, port = endpoint.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def run() -> None:
            source, _ = listener.accept()
            sink = socket.create_connection((host, int(port)))
            back = threading.Thread(target=carry, args=(sink, source, heard["sink"]))
            back.start()
            carry(source, sink, heard["source"])
            ended(back)
            sink.close()
            source.close()

        thread = threading.Thread(target=run)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        ended(thread)


def carry(one: socket.socket, other: socket.socket, kept: bytearray) -> None:
    with suppress(OSError):
        while data := one.recv(1 << 16):
            kept.extend(data)
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


def granted(sink: TcpSink) -> Lease:
    lease = sink.lease("life", "source", LENGTH)
    assert lease is not None
    return lease


@pytest.fixture
def sink() -> Iterator[TcpSink]:
    with closing(TcpSink()) as one:
        yield one


def listened(sink: TcpSink, lease: Lease) -> dict[str, bytearray]:
    """What both ends say in a write that lands."""
    heard = {"source": bytearray(), "sink": bytearray()}
    with overheard(lease.address.endpoint, heard) as endpoint, closing(TcpSource()) as source:
        address = msgspec.structs.replace(lease.address, endpoint=endpoint)
        assert write(source, address, b"\x07" * LENGTH).result is Result.LANDED
    assert sink.view(lease) == b"\x07" * LENGTH
    return heard


def is_refused(sink: TcpSink, lease: Lease, said: bytes) -> bool:
    """Whether the write of somebody who sends this on a connection of its own is refused."""
    host, _, port = lease.address.endpoint.rpartition(":")
    before = sink.leases.refused_writes
    with socket.create_connection((host, int(port)), timeout=20.0) as sock:
        sock.sendall(said)
        until(lambda: sink.leases.refused_writes > before, "the write to be refused")
    return bool(sink.view(lease) == b"\x07" * LENGTH)


def test_no_part_of_a_token_that_only_its_holder_has_is_sent(sink: TcpSink) -> None:
    lease = granted(sink)
    heard = listened(sink, lease)
    secret = lease.address.token[8:]
    for place in range(len(secret) - 3):
        assert secret[place:place + 4] not in heard["source"] + heard["sink"]


def test_a_write_that_was_overheard_cannot_be_repeated(sink: TcpSink) -> None:
    lease = granted(sink)
    heard = listened(sink, lease)
    assert is_refused(sink, lease, bytes(heard["source"]).replace(b"\x07" * LENGTH, bytes(LENGTH)))


def test_a_token_in_clear_is_no_proof(sink: TcpSink) -> None:
    lease = granted(sink)
    listened(sink, lease)
    clear = Frame(Kind.WRITE, 1, length=LENGTH, token=lease.address.token).encode()
    assert is_refused(sink, lease, clear)


@given(offset=st.integers(0, 99), length=st.integers(0, 99), number=st.integers(1, 99),
       changed=st.sampled_from(["write", "offset", "length", "challenge", "token"]))
def test_a_proof_is_of_one_frame_of_one_connection(
    offset: int, length: int, number: int, changed: str
) -> None:
    mint, challenge = Mint(), bytes(range(32))
    frame = Frame(Kind.WRITE, number, offset, length)
    shown = replace(frame, token=proof(frame, mint.token(5), challenge))
    assert mint.proven(decode(shown.encode(), WRITES), challenge) == 5
    if changed == "challenge":
        challenge = challenge[::-1]
    elif changed == "token":
        shown = replace(frame, token=proof(frame, Mint().token(5), challenge))
    else:
        shown = replace(shown, **{changed: getattr(shown, changed) + 1})
    with pytest.raises(RemoteProtocolError, match="has not granted"):
        mint.proven(decode(shown.encode(), WRITES), challenge)


def test_a_forged_address_fails_its_own_write_and_none_beside_it(sink: TcpSink) -> None:
    """A member may tell a source an address at another member's port, with a token of its own
    making. The writes for that other member run over the same connection.

    Seen red with the connection ended for such a token: the write behind it is in doubt.
    """
    lease = granted(sink)
    forged = msgspec.structs.replace(lease.address, token=bytes(8) + b"\1" * 24)
    with closing(TcpSource()) as source:
        posted = [source.post(address, 0, [memoryview(bytes([7]) * LENGTH)])
                  for address in (lease.address, forged, lease.address)]
        ended: dict[int, Result] = {}

        def have_ended() -> bool:
            ended.update({one.write: one.result for one in source.completed()})
            return len(ended) == len(posted)

        until(have_ended, "the writes to end")
        assert [ended[number] for number in posted] == [
            Result.LANDED, Result.REFUSED, Result.LANDED]
    assert sink.counts().dropped_peers == 0


def test_each_connection_has_a_challenge_of_its_own(sink: TcpSink) -> None:
    host, _, port = granted(sink).address.endpoint.rpartition(":")
    seen = set()
    for _ in range(5):
        with socket.create_connection((host, int(port)), timeout=20.0) as sock:
            seen.add(decode(sock.recv(FRAME_BYTES, socket.MSG_WAITALL),
                            frozenset({Kind.CHALLENGE})).token)
    assert len(seen) == 5
