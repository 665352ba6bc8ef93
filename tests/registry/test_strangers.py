"""Clients of the registry that nobody invited: half requests, many connections, what is no name."""

import http.client
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from pdproto.registry import app as registry_app
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.finder import Finder
from pdproto.registry.registrar import Registrar
from pdproto.registry.wire import Rank, RefusedError
from tests.registry.served import prefill, sglang
from tests.waiting import ended, until

ROOT = Path(__file__).resolve().parents[2]
HALF = b"PUT /route HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{"


def test_b7_a_client_that_leaves_in_the_midst_of_a_body_is_no_error_of_the_server(
    caplog: pytest.LogCaptureFixture
) -> None:
    """It was counted as a 500, with a traceback in the log."""
    with RegistryServer() as server:
        with socket.create_connection((server.host, server.port)) as leaving:
            leaving.sendall(HALF)
        until(lambda: bool(server.app.answers))
        assert dict(server.app.answers) == {("PUT", "/route", 499): 1}
    assert caplog.records == []


def test_a_body_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_app, "BODY_S", 0.2)
    with (RegistryServer() as server,
          socket.create_connection((server.host, server.port), timeout=30.0) as slow):
        slow.sendall(HALF)
        assert slow.recv(1_000).startswith(b"HTTP/1.1 408 ")


NESTED = b'{"attn_tp_size":1,"attn_tp_rank":0,"rank_ip":"h","rank_port":1,"dsv41_spec_layout":%s}'
PUT = b"PUT /route HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
MALFORMED = {
    "no HTTP": (b"\0\r\n\r\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "a compressed body": (
        PUT + b"Content-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnot gzip", 415),
    "an encoding that needs a package": (
        PUT + b"Content-Encoding: br\r\nContent-Length: 8\r\n\r\nnot brot", 415),
    "a piece without a length": (
        PUT + b"Transfer-Encoding: chunked\r\n\r\n3\r\n{{{\r\nlength\r\n", 400),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_gets_its_status_and_no_line_of_log(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that was called compressed got a 500, and each of them a traceback in the log."""
    said, status = MALFORMED[name]
    with (RegistryServer() as server,
          socket.create_connection((server.host, server.port), timeout=30.0) as call):
        call.sendall(said)
        assert call.recv(1_000).split()[1] == b"%d" % status
    assert caplog.records == []


def test_an_error_of_the_server_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with RegistryServer() as server:
        monkeypatch.setattr(server.app.registry, "directory", lambda **_: 1 // 0)
        assert sglang(server, "GET", "/ranks")[0] == 500
    (record,) = caplog.records
    assert "ZeroDivisionError" in (record.exc_text or "")


def test_a_layout_that_is_nested_too_deeply_is_refused() -> None:
    """Near the depth at which Python stops, a layout was read, and not compared: a 500."""
    with RegistryServer() as server:
        for levels in range(900, 1_000):
            for inner in (b"", b"7"):
                layout = b"[" * levels + inner + b"]" * levels
                assert sglang(server, "PUT", "/route", NESTED % layout)[0] == 400


@pytest.mark.parametrize("host", ["10.0.0.1\0", "10.0.0.1\r\nX: y", "10.0.0.1\n", "a host", "é"])
def test_b7_a_malformed_host_is_no_rank_ip(host: str) -> None:
    """It is given to whoever looks the rank up, and stands in their logs."""
    with RegistryServer() as server:
        status, reason = sglang(server, "PUT", "/route", {
            "attn_tp_size": 1, "attn_tp_rank": 0, "rank_ip": host, "rank_port": 1})
        assert status == 400
        assert "rank_ip" in reason


@pytest.mark.parametrize("host", ["10.0.0.1", "fd00::1", "fe80::1%eth0", "prefill-0.pd_a.local"])
def test_every_host_is_a_rank_ip(host: str) -> None:
    with RegistryServer() as server:
        assert sglang(server, "PUT", "/route", {
            "attn_tp_size": 1, "attn_tp_rank": 0, "rank_ip": host, "rank_port": 1})[0] == 200


def test_b7_slow_clients_do_not_take_all_files(tmp_path: Path) -> None:
    """300 clients that say half a request, at a registry that may open 256 files: who says a whole
    one is answered. It stopped, and wrote a megabyte of log a second.
    """
    errors = tmp_path / "errors"
    with errors.open("wb") as log, subprocess.Popen(
        ["bash", "-c", 'ulimit -n 256; exec "$0" -m pdproto.cli.main registry --port 0',
         sys.executable], cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
    ) as serving:
        try:
            assert serving.stdout is not None
            host, port = serving.stdout.readline().strip().rpartition("/")[2].split(":")
            with ExitStack() as opened:
                for _ in range(300):
                    slow = opened.enter_context(
                        socket.create_connection((host, int(port)), timeout=30.0))
                    slow.sendall(HALF)
                for _ in range(20):
                    asking = http.client.HTTPConnection(host, int(port), timeout=30.0)
                    asking.request("GET", "/health")
                    assert asking.getresponse().status == 503  # no rank has registered
                    asking.close()
        finally:
            serving.send_signal(signal.SIGTERM)
            assert serving.wait(30) == 0
    assert errors.read_text() == ""


class Theirs(BaseHTTPRequestHandler):
    """SGLang's bootstrap server, as far as it knows our routes: ranks register, and that is all."""

    registered = 0

    def do_PUT(self) -> None:
        type(self).registered += 1
        self._answer(200, b"OK")

    def do_POST(self) -> None:
        self._answer(404, b"404: Not Found")

    def do_GET(self) -> None:
        self._answer(404, b"404: Not Found")

    def _answer(self, status: int, body: bytes) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def another_kind() -> Iterator[str]:
    Theirs.registered = 0
    with HTTPServer(("127.0.0.1", 0), Theirs) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            ended(thread)


def test_b7_at_a_registry_of_another_kind_a_rank_registers_once() -> None:
    """Signs of life are unknown there. It registered again for each, and was counted each time."""
    reasons: list[str] = []
    with another_kind() as address:
        keeping = Registrar(address, prefill(of=1), sign_of_life_s=0.02, retry_s=0.02,
                            on_refused=reasons.append)
        keeping.start()
        try:
            until(lambda: bool(reasons) or Theirs.registered > 1)
        finally:
            keeping.stop(goodbye=False)
        assert Theirs.registered == 1
        (reason,) = reasons
        assert reason == (f"registry at {address}: it has no list of ranks, so it is not "
                          f"pdproto's: start `pdproto registry` there")


def test_b7_a_finder_says_that_a_registry_is_of_another_kind() -> None:
    """It said "404: Not Found", without end."""
    with another_kind() as address:
        finding = Finder(address, "d0", [Rank(0, 0, 0, 0)], retry_s=0.02)
        finding.start()
        try:
            until(lambda: bool(finding.problem))
        finally:
            finding.stop()
        assert finding.problem.endswith("it is not pdproto's: start `pdproto registry` there")
        client = RegistryClient(address)
        with pytest.raises(RefusedError, match="not pdproto's"):
            client.look_up_all()
        client.close()
