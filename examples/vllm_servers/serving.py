"""Real vLLM servers on a machine without a GPU, and their orderly end.

Handles of servers are those of `examples/sglang_servers/serving.py`: nothing in them is SGLang's.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from examples.sglang_servers.serving import HOST, Server, ServerError, free_port, pipe

MODEL: Final = "tiny"  # as clients call it
PRODUCER: Final = "kv_producer"
CONSUMER: Final = "kv_consumer"
OURS: Final = "PdprotoConnector"
NIXL: Final = "NixlConnector"

ENVIRONMENT: Final[Mapping[str, str]] = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": HOST, "GLOO_SOCKET_IFNAME": "lo",
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "fork", "VLLM_ENGINE_READY_TIMEOUT_S": "300",
    "TORCHDYNAMO_DISABLE": "1",
    # NIXL's library, over loopback and shared memory.
    "UCX_TLS": "tcp,sysv,posix,cma,self", "UCX_NET_DEVICES": "lo",
    "VLLM_NIXL_SIDE_CHANNEL_HOST": HOST,
}
FLAGS: Final = ("--host", HOST, "--dtype", "float32", "--max-model-len", "2048",
                "--enforce-eager", "--max-num-seqs", "32", "--block-size", "32",
                "--served-model-name", MODEL)


START_S: Final = 480.0  # a loaded machine imports vLLM in four minutes


class VllmServer(Server):
    """One that takes its time to start."""

    def wait_healthy(self, seconds: float = START_S) -> None:
        """Raises ServerError."""
        super().wait_healthy(seconds)


def transfer_config(
    role: str, connector: str = OURS, extra: Mapping[str, Any] | None = None, **named: Any
) -> str:
    """What `--kv-transfer-config` is given."""
    told = {"kv_connector": connector, "kv_role": role, **named}
    if connector == NIXL:
        told["kv_buffer_device"] = "cpu"
    if extra:
        told["kv_connector_extra_config"] = dict(extra)
    return json.dumps(told)


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
        with (self.folder / "preloaded.log").open("w") as log:
            self._preloaded = subprocess.Popen(
                [sys.executable, "-m", "examples.vllm_servers.preloaded"], stderr=log, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1,
                env=os.environ | ENVIRONMENT)
        self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(*reversed(self.started))
        if self._preloaded is not None:
            pipe(self._preloaded.stdin).close()
            self._preloaded.wait(30)
            pipe(self._preloaded.stdout).close()

    def start(self, name: str, model: Path, flags: Sequence[str] = (), *,
              transfer: str | None = None, port: int | None = None,
              env: Mapping[str, str] | None = None) -> Server:
        """Returns at once: see Server.wait_healthy. transfer: see transfer_config."""
        port = free_port() if port is None else port
        argv = ["--model", str(model), "--port", str(port), *FLAGS, *flags]
        if transfer is not None:
            argv += ["--kv-transfer-config", transfer]
        side = {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port())}
        return self._run("vllm", VllmServer(name, 0, port, self.folder / f"{name}.log", argv),
                         {**side, **(env or {})})

    def proxy(self, name: str, prefill: Sequence[Server], decode: Sequence[Server]) -> Server:
        port = free_port()
        argv = ["--port", str(port), "--prefill", *(server.url for server in prefill),
                "--decode", *(server.url for server in decode)]
        return self._run("proxy", Server(name, 0, port, self.folder / f"{name}.log", argv), {})

    def end(self, *servers: Server | None) -> None:
        for server in servers:
            if server is not None:
                server.kill()
                self.started.remove(server)

    def _run(self, module: str, server: Server, env: Mapping[str, str]) -> Server:
        assert self._preloaded is not None  # noqa: S101 - entered
        server.log.unlink(missing_ok=True)
        told = {"module": module, "argv": server.argv, "env": dict(env), "log": str(server.log)}
        pipe(self._preloaded.stdin).write(json.dumps(told) + "\n")
        server.pid = self._answer()["pid"]
        self.started.append(server)
        return server

    def _answer(self) -> dict[str, Any]:
        assert self._preloaded is not None  # noqa: S101 - entered
        line = pipe(self._preloaded.stdout).readline()
        if not line:
            log = self.folder / "preloaded.log"
            raise ServerError(f"vLLM cannot be imported, see {log}: {log.read_text()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def gauge(server: Server, name: str) -> float:
    """One of vLLM's metrics, its labels left out. Raises OSError if the server does not answer."""
    lines = str(server.get("/metrics")).splitlines()
    return sum(float(line.split()[-1]) for line in lines
               if line.startswith((f"vllm:{name}{{", f"vllm:{name} ")))
