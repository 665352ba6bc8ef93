"""Real servers of an engine on this machine: handles, ports, and their orderly end."""

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
from typing import IO, Any, ClassVar, Final, Self, TypeVar

HOST: Final = "127.0.0.1"
START_S: Final = 240.0  # a loaded machine imports SGLang in 60 s
END_S: Final = 120.0  # a loaded machine takes a minute to end the process that has imported it
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
    """A server, or a router: leader of a session in which all its processes are."""

    name: str
    pid: int
    port: int
    log: Path
    argv: Sequence[str] = ()
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


S = TypeVar("S", bound=Server)


@dataclass
class ForkedServers:
    """A context: servers that were started through it have ended when it is left.

    folder: for logs. preloaded: the module that calls `forking.fork_on_request`. environment: of
    all servers.
    """

    preloaded: ClassVar[str]
    environment: ClassVar[Mapping[str, str]]

    folder: Path
    started: list[Server] = field(default_factory=list)
    _parent: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("w") as log:
            self._parent = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", self.preloaded], stderr=log, text=True, bufsize=1,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | self.environment)
        self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(*reversed(self.started))
        if self._parent is not None:
            _pipe(self._parent.stdin).close()
            self._parent.wait(END_S)
            _pipe(self._parent.stdout).close()

    def end(self, *servers: Server | None) -> None:
        for server in servers:
            if server is not None:
                server.kill()
                self.started.remove(server)

    def run(self, module: str, server: S, env: Mapping[str, str] | None = None) -> S:
        """Fork it; it is not healthy yet. module: which of those that `preloaded` knows it is."""
        assert self._parent is not None  # noqa: S101 - entered
        server.log.unlink(missing_ok=True)
        told = {"module": module, "argv": server.argv, "env": dict(env or {}),
                "log": str(server.log)}
        _pipe(self._parent.stdin).write(json.dumps(told) + "\n")
        server.pid = self._answer()["pid"]
        self.started.append(server)
        return server

    @property
    def _log(self) -> Path:
        return self.folder / "preloaded.log"

    def _answer(self) -> dict[str, Any]:
        assert self._parent is not None  # noqa: S101 - entered
        line = _pipe(self._parent.stdout).readline()
        if not line:
            raise ServerError(f"{self.preloaded} cannot be imported, see {self._log}: "
                              f"{self._log.read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _pipe(of: IO[str] | None) -> IO[str]:
    assert of is not None  # noqa: S101 - Popen was asked for it
    return of
