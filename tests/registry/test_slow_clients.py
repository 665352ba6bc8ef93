"""Clients of the registry that read or write slowly: bounded, counted, and nobody else waits."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from time import sleep
from typing import Final

import pytest

from pdproto.registry import app as registry_app
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.transport import http_server
from pdproto.transport.http_server import PIECE
from pdproto.transport.keys import Keys, new_secret, of_secret
from tests.registry.served import prefill
from tests.waiting import PATIENCE_S, until

KEYS: Final = of_secret(new_secret())
ASK: Final = b"GET /ranks HTTP/1.1\r\nHost: here\r\n\r\n"
LAYOUT: Final = 900_000  # characters, so that each answer has about as many bytes
ANSWERS: Final = 30  # more bytes than both sockets hold
CLIENTS: Final = 8


@pytest.fixture(params=[None, KEYS], ids=["without keys", "with keys"])
def server(request: pytest.FixtureRequest) -> Iterator[RegistryServer]:
    """A registry with large answers."""
    with RegistryServer(keys=request.param) as running:
        with closing(RegistryClient(running.address, keys=request.param)) as client:
            client.register(prefill(of=1, dsv41_spec_layout="x" * LAYOUT))
        yield running


def asking(server: RegistryServer, opened: ExitStack, answers: int = ANSWERS) -> socket.socket:
    """A client that has asked for large answers and reads none."""
    slow = opened.enter_context(socket.socket())
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    slow.settimeout(PATIENCE_S)
    slow.connect((server.host, server.port))
    if keys_of(server) is not None:
        slow = opened.enter_context(KEYS.client_tls().wrap_socket(slow))
    slow.sendall(ASK * answers)
    return slow


def keys_of(server: RegistryServer) -> Keys | None:
    return None if server._tls is None else KEYS


def look_up(server: RegistryServer) -> None:
    """Another client gets its answer meanwhile."""
    with closing(RegistryClient(server.address, keys=keys_of(server))) as client:
        assert len(client.look_up_all().ranks) == 1


def test_a_client_that_does_not_read_is_disconnected_and_counted(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_server, "ANSWER_S", 0.5)
    with ExitStack() as opened:
        slow = asking(server, opened)
        look_up(server)
        until(lambda: server.unread_answers == 1)
        with suppress(OSError):  # a reset, or an end
            while slow.recv(1 << 20):
                pass
    look_up(server)
    metrics = b"".join(line for line in asked_metrics(server) if b"unread" in line)
    assert b"pdproto_registry_unread_answers_total 1.0" in metrics
    assert caplog.records == []


def asked_metrics(server: RegistryServer) -> list[bytes]:
    where = server.host, server.port
    asking = (http.client.HTTPConnection(*where) if keys_of(server) is None else
              http.client.HTTPSConnection(*where, context=KEYS.client_tls()))
    with closing(asking):
        asking.request("GET", "/metrics")
        return asking.getresponse().read().splitlines()


def test_unread_answers_take_bounded_memory(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Three answers may wait; a connection holds only pieces of its own."""
    most = 3 * (LAYOUT + 10_000)
    monkeypatch.setattr(http_server, "UNREAD_BYTES_MAX", most)
    with ExitStack() as opened:
        for _ in range(CLIENTS):
            asking(server, opened)
        until(lambda: server.unread_answers == CLIENTS - 3)
        assert 2 * LAYOUT < sum(server._unread.values()) <= most
        for connection in list(server._unread):
            assert connection.transport is not None
            assert connection.transport.get_write_buffer_size() <= 3 * PIECE
        look_up(server)  # and ends the one that waits for longest, if its own answer has to wait
    assert caplog.records == []


def test_a_client_that_reads_slowly_gets_its_whole_answer(server: RegistryServer) -> None:
    with ExitStack() as opened:
        slow = asking(server, opened, answers=1)
        got = b""
        while len(got) < LAYOUT:
            got += slow.recv(1 << 16)
            sleep(0.001)
    assert got.startswith(b"HTTP/1.1 200 OK\r\n")
    assert server.unread_answers == 0


@pytest.mark.parametrize(("begun", "answer"), [
    (b"GET /health HTTP/1.1\r\nX: ", b""),
    (b"PUT /route HTTP/1.1\r\nHost: here\r\nContent-Length: 100000\r\n\r\n", b"HTTP/1.1 408 "),
], ids=["head", "body"])
def test_a_request_that_never_comes_whole_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, begun: bytes, answer: bytes
) -> None:
    """It goes on by a byte now and then."""
    monkeypatch.setattr(http_server, "IDLE_S", 0.3)
    monkeypatch.setattr(registry_app, "BODY_S", 0.3)
    with (RegistryServer() as server,
          socket.create_connection((server.host, server.port), timeout=0.02) as slow):
        slow.sendall(begun)
        got: bytes | None = None
        for _ in range(round(PATIENCE_S / 0.02)):
            with suppress(TimeoutError):
                got = slow.recv(1_000)
                break
            slow.sendall(b"x")
        assert got is not None
        assert got[:len(answer)] == answer
