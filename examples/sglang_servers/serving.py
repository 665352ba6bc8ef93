"""Real SGLang servers, on a machine without a GPU or on one GPU, and the router."""

import importlib.util
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from examples.servers.serving import HOST, ForkedServers, Server, ServerError, free_port
from examples.sglang_servers import on_gpu, without_gpu

PATIENT: Final = (  # a server that has come back is asked soon, and not after a minute
    "--cb-timeout-duration-secs", "2", "--health-check-interval-secs", "2")


def has_router() -> bool:
    """Whether the router is installed; requests can be sent to both servers without it."""
    return importlib.util.find_spec("sglang_router") is not None


@dataclass
class SglangServer(Server):
    """bootstrap: the port of a prefill server's registry. operator: the operator's port of its
    first rank, if it has one; those of its other ranks follow.
    """

    bootstrap: int | None = None
    operator: int | None = None

    def schedulers(self) -> list[int]:
        return [pid for pid in self.processes() if b"sglang::scheduler" in _command(pid)]

    def held(self) -> list[dict[str, Any]]:
        """SGLang's report of its queues, rank by rank."""
        with suppress(OSError, KeyError):
            return list(self.get("/v1/loads?include=all")["loads"])
        return []


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@dataclass
class Servers(ForkedServers):
    """Of SGLang."""

    preloaded: ClassVar[str] = "examples.sglang_servers.preloaded"
    environment: ClassVar[Mapping[str, str]] = without_gpu.ENVIRONMENT
    flags: ClassVar[Sequence[str]] = without_gpu.FLAGS

    def start(self, name: str, model: Path, flags: Sequence[str] = (), *, port: int | None = None,
              env: Mapping[str, str] | None = None, bootstrap: int | None = None) -> SglangServer:
        """Returns at once: see Server.wait_healthy."""
        port = free_port() if port is None else port
        argv = ["--model-path", str(model), *self.flags, "--host", HOST,
                "--port", str(port), *flags]
        return self.run("sglang.launch_server", SglangServer(
            name, 0, port, self.folder / f"{name}.log", argv, bootstrap=bootstrap), env)

    def prefill(self, name: str, model: Path, flags: Sequence[str] = (), *,
                backend: str = "pdproto", like: SglangServer | None = None,
                env: Mapping[str, str] | None = None) -> SglangServer:
        """like: a dead server, whose ports this one takes over."""
        bootstrap = (like.bootstrap if like else None) or free_port()
        return self.start(
            name, model,
            ["--disaggregation-mode", "prefill", "--disaggregation-transfer-backend", backend,
             "--disaggregation-bootstrap-port", str(bootstrap), *flags],
            port=like.port if like else None, env=env, bootstrap=bootstrap)

    def decode(self, name: str, model: Path, flags: Sequence[str] = (), *,
               backend: str = "pdproto", like: SglangServer | None = None,
               env: Mapping[str, str] | None = None) -> SglangServer:
        return self.start(
            name, model,
            ["--disaggregation-mode", "decode", "--disaggregation-transfer-backend", backend,
             "--disaggregation-decode-retraction-backup", "cpu_tensor", *flags],
            port=like.port if like else None, env=env)

    def router(self, name: str, prefill: Sequence[SglangServer],
               decode: Sequence[Server], flags: Sequence[str] = (), *,
               retries: bool = False) -> Server:
        """SGLang's router. retries: it tries again, and elsewhere while a server does not answer.
        Without, it breaks no circuit either, so failures show.

        Raises ServerError if it is not installed.
        """
        if not has_router():
            raise ServerError("SGLang's router is not installed: pip install sglang-router")
        port = free_port()
        argv = ["--pd-disaggregation", "--host", HOST, "--port", str(port),
                "--prometheus-port", str(free_port()), "--policy", "round_robin",
                *(PATIENT if retries else ("--disable-retries", "--disable-circuit-breaker")),
                "--worker-startup-check-interval", "1", "--worker-startup-timeout-secs", "60",
                "--log-level", "warn", *flags]
        for source in prefill:
            argv += ["--prefill", source.url, str(source.bootstrap)]
        for sink in decode:
            argv += ["--decode", sink.url]
        return self.run("sglang_router.launch_router", Server(
            name, 0, port, self.folder / f"{name}.log", argv, health="/readiness"))


class GpuServers(Servers):
    """The same, of servers that share one GPU."""

    environment: ClassVar[Mapping[str, str]] = on_gpu.ENVIRONMENT
    flags: ClassVar[Sequence[str]] = on_gpu.FLAGS
