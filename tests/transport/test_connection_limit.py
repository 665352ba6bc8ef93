"""Connections that a stranger opens to the control port: they take neither files nor time for long.

A node has the keys of its cluster, so that none of them completes its handshake.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Final

import pytest
import zmq

from pdproto.node.link import place_of
from pdproto.transport import files, sockets
from pdproto.transport.connection_limit import ConnectionLimit
from tests.node.data_paths import Cluster
from tests.transport.many_files import many_files
from tests.transport.test_strangers import KEYS, hand_over, speaking
from tests.waiting import until

FEW: Final = 40  # connections that a node of these tests accepts
MANY: Final = 1_000
SOON_S: Final = 10.0  # ZeroMQ itself ends a handshake after 30 s
GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03"  # the beginning of ZeroMQ's
WHOLE_GREETING: Final = b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(47)
HELLO: Final = b"\x04\xc8\x05HELLO\x01\x00" + bytes(192)  # of CURVE, as long as a real one


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A node accepts few connections, and this process may open enough to pass that."""
    monkeypatch.setattr(files, "PORT_CONNECTIONS_MAX", FEW)
    with many_files():
        yield


def dialled(nodes: Cluster, opened: ExitStack, count: int, said: bytes) -> list[socket.socket]:
    """So many connections to the prefill node, each of which says this and then nothing more."""
    there = place_of(nodes.prefills[0].endpoint)
    calls = [opened.enter_context(socket.create_connection(there, timeout=30.0))
             for _ in range(count)]
    for call in calls:
        call.sendall(said)
    return calls


def is_ended(call: socket.socket) -> bool:
    """Whether the node has closed the connection, whatever it said before."""
    call.setblocking(False)
    try:
        while call.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("said", [b"", GREETING], ids=["silent", "half a greeting"])
def test_a_thousand_connections_of_a_stranger_do_not_take_the_files(said: bytes) -> None:
    """They took all, and no node could call another any more."""
    with speaking(KEYS.curve) as (nodes, opened):
        prefill, files = nodes.prefills[0], len(os.listdir("/proc/self/fd"))
        dialled(nodes, opened, MANY, said)
        until(lambda: prefill.metrics.read()["ended_connections"] >= MANY - FEW)
        until(lambda: prefill.metrics.read()["accepted_connections"] <= FEW)
        until(lambda: len(os.listdir("/proc/self/fd")) <= files + MANY + FEW)
        for room in range(2, 12):
            hand_over(nodes, room)
        assert not prefill.lost_peers()


@pytest.mark.usefixtures("few")
def test_the_oldest_without_a_handshake_makes_room() -> None:
    """So a peer that calls now has time for its handshake."""
    with speaking(KEYS.curve) as (nodes, opened):
        calls = dialled(nodes, opened, FEW + 2, b"")
        until(lambda: is_ended(calls[0]))
        assert not is_ended(calls[-1])


@pytest.mark.parametrize("said", [b"", GREETING], ids=["silent", "half a greeting"])
def test_a_handshake_that_is_not_completed_ends(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "HANDSHAKE_S", 0.3)
    with speaking(KEYS.curve) as (nodes, opened):
        (call,) = dialled(nodes, opened, 1, said)
        call.settimeout(SOON_S)
        with suppress(ConnectionError):
            while call.recv(1 << 16):
                pass
        until(lambda: nodes.prefills[0].metrics.read()["accepted_connections"] == 1)


def test_a_stranger_that_writes_slowly_has_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not keep the connection: the time is for the whole handshake."""
    monkeypatch.setattr(sockets, "HANDSHAKE_S", 0.3)
    with speaking(KEYS.curve) as (nodes, opened):
        (call,) = dialled(nodes, opened, 1, b"")
        ends = time.monotonic() + SOON_S
        for byte in WHOLE_GREETING + HELLO:
            if is_ended(call):
                return
            assert time.monotonic() < ends
            with suppress(ConnectionError):
                call.send(bytes([byte]))
            time.sleep(0.05)


def test_a_file_that_is_no_longer_the_connection_is_left_alone() -> None:
    """ZeroMQ closes a file, and the process opens another under its number."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    ours, theirs = socket.socketpair()
    with context, context.socket(zmq.ROUTER) as router, ours, theirs:
        router.bind("tcp://127.0.0.1:0")
        with closing(ConnectionLimit(router)) as limit:
            limit._begun[ours.fileno()] = (("127.0.0.1", 1), ("127.0.0.1", 2))
            limit._end_one()
            assert limit.ended == 0
        theirs.sendall(b"alive")
        assert ours.recv(5) == b"alive"
