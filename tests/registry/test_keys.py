"""A registry with keys: clients of its cluster are served, and nobody else.

Each attempt of a stranger is made without keys too, where it succeeds: it is a real one.
"""

import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import msgspec
import pytest

from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient, UnreachableError
from pdproto.registry.finder import Finder
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Rank, Registration
from pdproto.transport import http_server
from pdproto.transport.keys import Keys, new_secret, of_secret
from tests.registry.served import prefill
from tests.waiting import until

KEYS: Final = of_secret(new_secret())
LATER: Final = 1 << 60
ALONE: Final = {"dp": 0, "cp": 0, "tp": 0, "pp": 0}


def registered(registration: Registration) -> Any:
    return msgspec.to_builtins(registration)


ATTEMPTS: Final[dict[str, tuple[str, str, Any]]] = {
    "read all addresses": ("GET", "/ranks", None),
    "read one address": ("GET", "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=0"
                                "&target_pp_rank=0", None),
    "deregister a rank": ("DELETE", "/route", {**ALONE, "incarnation": 1}),
    "replace an address": ("PUT", "/route", registered(
        prefill(of=1, run=2, rank_ip="10.66.66.66"))),
    "register a later incarnation": ("PUT", "/route", registered(prefill(of=1, run=LATER))),
    "answer for a rank": ("POST", "/keepalive", {**ALONE, "incarnation": 1}),
    "list a room": ("POST", "/register_dp_rank", {"bootstrap_room": 1, "dp_rank": 0}),
    "fill memory with rooms": ("POST", "/query_dp_ranks", {"bootstrap_rooms": [*range(16_384)]}),
    "strike a room out": ("POST", "/retire_dp_rank", {"bootstrap_room": 1, "dp_rank": 0}),
    "read metrics": ("GET", "/metrics", None),
}


def tls_with(keys: Keys) -> ssl.SSLContext:
    """Of a client that takes any server, and shows the certificate of these keys."""
    context = keys.client_tls()
    context.verify_mode = ssl.CERT_NONE
    return context


def no_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


STRANGERS: Final[dict[str, Callable[[], ssl.SSLContext | None]]] = {
    "plain HTTP": lambda: None,
    "no certificate": no_certificate,
    "the certificate of another cluster": lambda: tls_with(of_secret(new_secret())),
}


def asked(server: RegistryServer, attempt: str, tls: ssl.SSLContext | None) -> int:
    """The status of the answer. OSError or HTTPException: there is none."""
    method, path, body = ATTEMPTS[attempt]
    where = server.host, server.port
    speaking = (http.client.HTTPConnection(*where, timeout=30.0) if tls is None else
                http.client.HTTPSConnection(*where, timeout=30.0, context=tls))
    with closing(speaking):
        speaking.request(method, path, None if body is None else json.dumps(body))
        return speaking.getresponse().status


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with (RegistryServer(keys=KEYS) as running,
          closing(RegistryClient(running.address, keys=KEYS)) as client):
        client.register(prefill(of=1))
        yield running


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_without_keys_a_stranger_can(attempt: str) -> None:
    with RegistryServer() as server:
        with closing(RegistryClient(server.address)) as client:
            client.register(prefill(of=1))
        assert asked(server, attempt, None) == 200


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_with_keys_a_stranger_has_no_answer(
    server: RegistryServer, attempt: str, stranger: str
) -> None:
    before = server.app.answers.total()
    with pytest.raises((OSError, http.client.HTTPException)):
        asked(server, attempt, STRANGERS[stranger]())
    assert server.app.answers.total() == before
    with closing(RegistryClient(server.address, keys=KEYS)) as client:
        (rank,) = client.look_up_all().ranks
    assert (rank.address.rank_ip, rank.address.incarnation) == ("10.0.0.1", 1)
    assert server.app.registry.open_rooms == 0


def test_a_client_takes_no_server_without_the_keys() -> None:
    """A stranger that has the registry's address could name ranks of its own."""
    for other in (None, of_secret(new_secret())):
        with (RegistryServer(keys=other) as server,
              closing(RegistryClient(server.address, keys=KEYS)) as client,
              pytest.raises(UnreachableError, match="not the same keys")):
            client.register(prefill(of=1))


def test_a_client_without_keys_gets_a_hint(server: RegistryServer) -> None:
    with (closing(RegistryClient(server.address)) as client,
          pytest.raises(UnreachableError, match="if the registry has keys, set PDPROTO_KEYS")):
        client.look_up_all()


def test_a_rank_registers_and_is_found_by_its_keys() -> None:
    with RegistryServer(keys=KEYS) as server:
        rank = Registrar(server.address, prefill(of=1), retry_s=0.05, keys=KEYS)
        finding = Finder(server.address, "d0", [Rank(0, 0, 0, 0)], retry_s=0.05, keys=KEYS)
        rank.start()
        finding.start()
        try:
            until(lambda: finding.found is not None)
        finally:
            finding.stop()
            rank.stop()
        assert not server.app.registry.present_ranks


def test_half_a_handshake_does_not_hold_a_file(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_server, "HANDSHAKE_S", 0.3)
    with (RegistryServer(keys=KEYS) as server,
          socket.create_connection((server.host, server.port), timeout=30.0) as silent):
        assert silent.recv(1) == b""
    assert caplog.records == []
