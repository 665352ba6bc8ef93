"""A server that sends a byte of its answer now and then holds nobody longer than one that is
silent: the registry's client, `pdproto node status`, and `pdproto probe`.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from threading import Event, Thread
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import pytest

from pdproto.cli import probe
from pdproto.registry.client import RegistryClient, UnreachableError
from pdproto.transport import node_status
from pdproto.transport.keys import new_secret, of_secret
from tests.waiting import ended

T = TypeVar("T")
KEYS: Final = of_secret(new_secret())
WAIT_S: Final = 0.3
BEFORE: Final = {  # what comes at once, and then one more byte again and again
    "status": b"", "headers": b"HTTP/1.1 200 OK\r\nX: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\nX: "}


@pytest.fixture(params=BEFORE)
def dripping(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Starts such a server, with keys or without. Returns its address."""
    left = Event()

    def answer(listening: socket.socket, tls: Any) -> None:
        with suppress(OSError):
            told, _ = listening.accept()
            with told if tls is None else tls.wrap_socket(told, server_side=True) as to:
                to.recv(1 << 16)
                to.sendall(BEFORE[request.param])
                while not left.wait(WAIT_S / 10):
                    to.sendall(b"1")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        def start(tls: Any = None) -> str:
            Thread(target=answer, args=(listening, tls), daemon=True).start()
            return f"127.0.0.1:{listening.getsockname()[1]}"

        yield start
        left.set()


def returned(call: Callable[[], T]) -> T:
    """Fails if it does not return."""
    told: list[T] = []
    calling = Thread(target=lambda: told.append(call()), daemon=True)
    calling.start()
    ended(calling)
    return told[0]


@pytest.mark.parametrize("keys", [None, KEYS], ids=["without keys", "with keys"])
def test_the_client_of_a_registry_waits_no_longer(
    dripping: Callable[..., str], keys: Any
) -> None:
    """Seen red with the answer of http.client, whose time-out begins anew with each byte."""
    address = dripping(None if keys is None else keys.server_tls())

    def look_up() -> str:
        with closing(RegistryClient(address, timeout_s=WAIT_S, keys=keys)) as client:
            with pytest.raises(UnreachableError) as error:
                client.look_up_all()
            return str(error.value)

    assert "TimeoutError" in str(returned(look_up))


def test_the_status_of_a_node_waits_no_longer(
    dripping: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_status, "TIMEOUT_S", WAIT_S)
    told = returned(lambda: node_status.look(dripping(), 1))
    assert "no answer: " in told.problem


def test_a_probe_waits_no_longer(
    dripping: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "ANSWER_S", WAIT_S)
    url = urlsplit(f"http://{dripping()}/health")
    status, told = returned(lambda: probe._answer(url, "GET", None))
    assert (status, "no answer: " in told) == (0, True)
