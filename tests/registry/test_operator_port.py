"""The operator's port of a registry: Prometheus has no keys, and scrapes one that has some."""

import http.client
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from pdproto.registry import operator_port
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.operator_port import RegistryOperatorPort, serve_registry_operator
from pdproto.transport.http_server import HttpServer
from pdproto.transport.keys import new_secret, of_secret
from pdproto.transport.settings import Settings, SettingsError
from tests.registry.served import prefill
from tests.registry.test_serve import started
from tests.waiting import until

KEYS = of_secret(new_secret())


def get(port: HttpServer | str, path: str, method: str = "GET") -> tuple[int, str]:
    address = port if isinstance(port, str) else port.address
    with closing(http.client.HTTPConnection(address, timeout=30.0)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer(keys=KEYS) as running:
        yield running


@pytest.fixture
def port(server: RegistryServer) -> Iterator[RegistryOperatorPort]:
    with RegistryOperatorPort(server) as running:
        yield running


def register(server: RegistryServer, rank: int = 0) -> None:
    with closing(RegistryClient(server.address, keys=KEYS)) as client:
        client.register(prefill(rank))


def test_a_registry_with_keys_is_scraped_without_them(
    server: RegistryServer, port: RegistryOperatorPort
) -> None:
    register(server)
    status, text = get(port, "/metrics")
    assert status == 200
    assert "pdproto_registry_ranks 1.0" in text
    assert 'pdproto_registry_requests_total{method="PUT",route="/route",status="200"} 1.0' in text


def test_it_is_alive_before_it_is_ready(
    server: RegistryServer, port: RegistryOperatorPort
) -> None:
    """To restart a registry that waits for its ranks would help nobody."""
    assert get(port, "/ready") == (503, "no rank has registered")
    assert get(port, "/health") == (200, "OK")
    register(server)
    assert get(port, "/ready")[0] == 503
    register(server, 1)
    assert get(port, "/ready") == (200, "OK")


def test_a_loop_that_stands_still_is_not_alive(
    server: RegistryServer, port: RegistryOperatorPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_port, "LOOP_S", 0.3)
    over = threading.Event()

    async def stand() -> None:
        over.wait(30.0)

    standing = server.run(stand())
    try:
        for path in ("/health", "/ready", "/metrics"):
            assert get(port, path) == (503, "the registry's loop has not answered for 0.3 s")
    finally:
        over.set()
    standing.result(30.0)
    assert get(port, "/health") == (200, "OK")


def test_a_registry_that_is_closed_says_so() -> None:
    server = RegistryServer(keys=KEYS)
    with RegistryOperatorPort(server) as port:
        assert get(port, "/health") == (503, "the registry does not run")
        with server:
            assert get(port, "/health") == (200, "OK")
        assert get(port, "/health") == (503, "the registry does not run")


@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/ranks"), ("GET", "/route"), ("PUT", "/route"), ("DELETE", "/route"),
    ("POST", "/register_dp_rank"), ("POST", "/query_dp_ranks"), ("POST", "/metrics")])
def test_it_tells_no_address_and_changes_nothing(
    server: RegistryServer, port: RegistryOperatorPort, method: str, path: str
) -> None:
    register(server)
    assert get(port, path, method)[0] in (404, 405)
    assert "10.0.0.1" not in get(port, "/metrics")[1] + get(port, "/ready")[1]
    assert server.app.registry.present_ranks == 1


def test_none_is_open_unless_the_settings_name_it(server: RegistryServer) -> None:
    assert serve_registry_operator(server, Settings()) is None
    opened = serve_registry_operator(server, Settings(registry_operator="127.0.0.1:0"))
    assert opened is not None
    try:
        assert get(opened, "/health") == (200, "OK")
    finally:
        opened.stop()
    with pytest.raises(SettingsError, match="registry_operator=here: "):
        Settings(registry_operator="here")


def test_the_verb_opens_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with started("--port", "0", "--operator", address) as serving:
        assert serving.stdout is not None
        serving.stdout.readline()
        try:
            assert get(address, "/health") == (200, "OK")
        finally:
            serving.send_signal(signal.SIGTERM)
        _, errors = serving.communicate(timeout=30)
        assert (serving.returncode, errors) == (0, "")


def test_a_port_in_use_ends_the_verb_in_one_line(port: RegistryOperatorPort) -> None:
    with started("--port", "0", "--operator", port.address) as serving:
        _, errors = serving.communicate(timeout=30)
        assert serving.returncode == 2
        assert errors.startswith(f"pdproto: operator's port of the registry at {port.address}: ")
        assert errors.count("\n") == 1


def test_questions_count_as_no_requests_to_the_registry(
    server: RegistryServer, port: RegistryOperatorPort
) -> None:
    for _ in range(3):
        get(port, "/metrics")
    until(lambda: server.app.answers.total() == 0)
