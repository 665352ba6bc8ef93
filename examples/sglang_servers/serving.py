"""Handles of servers that `preloaded` forks, of the router, and their orderly end."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from examples.sglang_servers import without_gpu

HOST: Final = "127.0.0.1"
START_S: Final = 240.0  # a loaded machine imports SGLang in 60 s
NOISE: Final = ("server_args=", '" 200 OK', "batch, #")
LOG_TAIL: Final = 12  # lines of a server's log that an error shows


class ServerError(Exception):
    """A server did not start, or died: with the end of its log."""


PORTS: Final = range(21_000, 32_000, 23)  # outgoing connections take those from 32768 on


def free_port() -> int:
    """A port that nobody listens on; by chance, so that another run beside this one takes others.

    They lie apart: under data parallelism a server takes those from 233 above its own, too.
    """
    for port in random.sample(PORTS, len(PORTS)):
        if port not in _GIVEN:
            with socket.socket() as probe, suppress(OSError):
                probe.bind((HOST, port))
                _GIVEN.add(port)
                return port
    raise ServerError(f"no free port in {PORTS}")


_GIVEN: Final[set[int]] = set()


@dataclass
class Server:
    """A server of SGLang, or a router: leader of a session in which all its processes are."""

    name: str
    pid: int
    port: int
    log: Path
    argv: Sequence[str] = ()
    bootstrap: int | None = None
    health: str = "/health"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def is_alive(self) -> bool:
        with suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    def get(self, path: str, seconds: float = 5.0) -> Any:
        """JSON, or text where it is none. Raises OSError."""
        with urllib.request.urlopen(self.url + path, timeout=seconds) as answer:  # noqa: S310
            text = answer.read().decode()
        with suppress(ValueError):
            return json.loads(text)
        return text

    def post(self, path: str, body: Mapping[str, Any], seconds: float = 60.0) -> Any:
        """JSON. Raises OSError, HTTPError with the body read into its `msg` among them."""
        request = urllib.request.Request(  # noqa: S310 - our own address
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310
            return json.loads(answer.read())

    def wait_healthy(self, seconds: float = START_S) -> None:
        """Raises ServerError."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.is_alive():
                raise ServerError(f"{self.name} died: {self.tail()}")
            with suppress(OSError):
                self.get(self.health)
                return
            time.sleep(0.1)
        raise ServerError(f"{self.name} is not healthy after {seconds:.0f} s: {self.tail()}")

    def signal_all(self, number: signal.Signals) -> None:
        """To every process of its session."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def signal_leader(self, number: signal.Signals) -> None:
        """To its first process only."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """As `kill -9` of every process, and wait until the port is free again."""
        self.signal_all(signal.SIGKILL)
        end = time.monotonic() + 10.0
        while self.processes() and time.monotonic() < end:
            time.sleep(0.02)

    def processes(self) -> list[int]:
        """Of the session, zombies left out."""
        return [pid for pid in _pids() if _session(pid) == self.pid]

    def schedulers(self) -> list[int]:
        return [pid for pid in self.processes() if b"sglang::scheduler" in _command(pid)]

    def held(self) -> list[dict[str, Any]]:
        """What SGLang says of its queues, rank by rank."""
        with suppress(OSError, KeyError):
            return list(self.get("/v1/loads?include=all")["loads"])
        return []

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        told = [line[:300] for line in lines
                if line.strip() and not any(noise in line for noise in NOISE)]
        return f"{self.log}\n  " + "\n  ".join(told[-LOG_TAIL:])


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _session(pid: int) -> int | None:
    with suppress(OSError, IndexError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(rest[2]) if state not in "ZX" else None
    return None


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@dataclass
class Servers:
    """A context: servers that were started through it have ended when it is left.

    folder: for logs.
    """

    folder: Path
    started: list[Server] = field(default_factory=list)
    _preloaded: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "preloaded.log").open("a") as log:
            self._preloaded = subprocess.Popen(
                [sys.executable, "-m", "examples.sglang_servers.preloaded"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1,
                env=os.environ | without_gpu.ENVIRONMENT)
        self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in reversed(self.started):
            server.kill()
        if self._preloaded is not None:
            pipe(self._preloaded.stdin).close()
            self._preloaded.wait(30)
            pipe(self._preloaded.stdout).close()

    def start(self, name: str, model: Path, flags: Sequence[str] = (), *, port: int | None = None,
              env: Mapping[str, str] | None = None, bootstrap: int | None = None) -> Server:
        """Returns at once: see Server.wait_healthy."""
        port = free_port() if port is None else port
        argv = ["--model-path", str(model), *without_gpu.FLAGS, "--host", HOST,
                "--port", str(port), *flags]
        return self._run("sglang.launch_server", Server(
            name, 0, port, self.folder / f"{name}.log", argv, bootstrap), env)

    def prefill(self, name: str, model: Path, flags: Sequence[str] = (), *,
                backend: str = "pdproto", like: Server | None = None,
                env: Mapping[str, str] | None = None) -> Server:
        """like: of a dead server, whose ports this one takes over."""
        bootstrap = (like.bootstrap if like else None) or free_port()
        return self.start(
            name, model,
            ["--disaggregation-mode", "prefill", "--disaggregation-transfer-backend", backend,
             "--disaggregation-bootstrap-port", str(bootstrap), *flags],
            port=like.port if like else None, env=env, bootstrap=bootstrap)

    def decode(self, name: str, model: Path, flags: Sequence[str] = (), *,
               backend: str = "pdproto", like: Server | None = None,
               env: Mapping[str, str] | None = None) -> Server:
        return self.start(
            name, model,
            ["--disaggregation-mode", "decode", "--disaggregation-transfer-backend", backend,
             "--disaggregation-decode-retraction-backup", "cpu_tensor", *flags],
            port=like.port if like else None, env=env)

    def router(self, name: str, prefill: Sequence[Server], decode: Sequence[Server],
               flags: Sequence[str] = ()) -> Server:
        """SGLang's router. It retries nothing and breaks no circuit: failures are shown."""
        port = free_port()
        argv = ["--pd-disaggregation", "--host", HOST, "--port", str(port),
                "--prometheus-port", str(free_port()), "--policy", "round_robin",
                "--disable-retries", "--disable-circuit-breaker",
                "--worker-startup-check-interval", "1", "--worker-startup-timeout-secs", "60",
                "--log-level", "warn", *flags]
        for server in prefill:
            argv += ["--prefill", server.url, str(server.bootstrap)]
        for server in decode:
            argv += ["--decode", server.url]
        return self._run("sglang_router.launch_router", Server(
            name, 0, port, self.folder / f"{name}.log", argv, health="/readiness"), {})

    def end(self, *servers: Server | None) -> None:
        for server in servers:
            if server is not None:
                server.kill()
                self.started.remove(server)

    def _run(self, module: str, server: Server, env: Mapping[str, str] | None) -> Server:
        assert self._preloaded is not None  # noqa: S101 - entered
        server.log.unlink(missing_ok=True)
        told = {"module": module, "argv": server.argv, "env": dict(env or {}),
                "log": str(server.log)}
        pipe(self._preloaded.stdin).write(json.dumps(told) + "\n")
        server.pid = self._answer()["pid"]
        self.started.append(server)
        return server

    def _answer(self) -> dict[str, Any]:
        assert self._preloaded is not None  # noqa: S101 - entered
        line = pipe(self._preloaded.stdout).readline()
        if not line:
            log = self.folder / "preloaded.log"
            raise ServerError(f"SGLang cannot be imported, see {log}: {log.read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def pipe(of: IO[str] | None) -> IO[str]:
    assert of is not None  # noqa: S101 - Popen was asked for it
    return of
