"""A registry with keys under strangers: it stays true, open to its own clients, and small.

What a stranger says before any rank has registered; old certificates; a thousand connections.
"""

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from typing import Final

import pytest

from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient, UnreachableError
from pdproto.registry.wire import RefusedError, Registration
from pdproto.transport import files
from pdproto.transport import keys as keys_module
from pdproto.transport.keys import Keys, new_secret, of_secret
from tests.registry.served import prefill
from tests.registry.test_keys import asked, tls_with
from tests.transport.many_files import many_files
from tests.waiting import until

SECRET: Final = new_secret()
KEYS: Final = of_secret(SECRET)
FEW: Final = 40
MANY: Final = 1_000


def is_told(server: RegistryServer, keys: Keys | None, registration: Registration) -> bool:
    """Whether the registry takes the registration of a client with these keys."""
    with closing(RegistryClient(server.address, keys=keys)) as client:
        try:
            client.register(registration)
        except UnreachableError:
            return False
        return True


@pytest.mark.parametrize("keys", [None, KEYS], ids=["without keys", "with keys"])
def test_a_missing_rank_is_played_only_without_keys(keys: Keys | None) -> None:
    with RegistryServer(keys=keys) as server:
        assert is_told(server, keys, prefill(0))
        assert is_told(server, None, prefill(1, rank_ip="10.66.66.66")) is (keys is None)
        assert server.app.registry.ready is (keys is None)


@pytest.mark.parametrize("keys", [None, KEYS], ids=["without keys", "with keys"])
def test_a_false_topology_is_registered_first_only_without_keys(keys: Keys | None) -> None:
    """Where it works, the true ranks are refused."""
    with RegistryServer(keys=keys) as server:
        assert is_told(server, None, prefill(0, of=7, rank_ip="10.66.66.66")) is (keys is None)
        if keys is None:
            with pytest.raises(RefusedError, match="attn_tp_size"):
                is_told(server, keys, prefill(0))
        else:
            assert is_told(server, keys, prefill(0))


@pytest.fixture
def expired(monkeypatch: pytest.MonkeyPatch) -> Keys:
    """Keys from the secret of the cluster, with a certificate whose time is over."""
    with monkeypatch.context() as patch:
        patch.setattr(keys_module, "ENDS", datetime(2001, 1, 1))
        return of_secret(SECRET)


def test_an_expired_certificate_is_no_key(expired: Keys) -> None:
    """Our own do not expire, but an operator may sign others with the same key."""
    with RegistryServer(keys=KEYS) as server:
        with pytest.raises((OSError, http.client.HTTPException)):
            asked(server, "register a later incarnation", tls_with(expired))
        assert server.app.registry.present_ranks == 0
    with RegistryServer(keys=expired) as server:
        assert not is_told(server, KEYS, prefill(0))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server keeps few connections, and this process may open enough to pass that."""
    monkeypatch.setattr(files, "PORT_CONNECTIONS_MAX", FEW)
    with many_files():
        yield


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02"], ids=["silent", "half a greeting"])
def test_a_thousand_half_handshakes_of_one_address_stop_no_client(said: bytes) -> None:
    with RegistryServer(keys=KEYS) as server, ExitStack() as opened:
        for _ in range(MANY):
            call = opened.enter_context(
                socket.create_connection((server.host, server.port), timeout=30.0))
            call.sendall(said)
        assert is_told(server, KEYS, prefill(0))
        until(lambda: server.closed_connections >= MANY - FEW)


@pytest.mark.usefixtures("few")
def test_connections_that_have_ended_are_forgotten() -> None:
    """Each was kept, with some kilobytes, until as many were open at a time as a server keeps."""
    with RegistryServer() as server:
        for _ in range(5 * FEW):
            with closing(http.client.HTTPConnection(server.host, server.port)) as call:
                call.request("GET", "/health")
                call.getresponse().read()
        assert len(server._heard) <= 2 * FEW + 1
