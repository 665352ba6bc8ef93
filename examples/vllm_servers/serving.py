"""Real vLLM servers on a machine without a GPU, or on one GPU, and the proxy."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from examples.servers.serving import HOST, ForkedServers, Server, free_port

MODEL: Final = "tiny"  # as clients call it
HYBRID: Final = "hybrid"  # the folder of a model with Mamba states, in place of a Llama
LATENT: Final = "latent"  # the same of one with latent attention (MLA)
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
                "--max-num-seqs", "32", "--block-size", "32", "--served-model-name", MODEL)
EAGER: Final = "--enforce-eager"

# Float32 is computed as such, and not with the 10 bits of TF32, so that answers can be compared.
ON_GPU: Final[Mapping[str, str]] = {
    **ENVIRONMENT, "NCCL_SOCKET_IFNAME": "lo", "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "TRITON_F32_DEFAULT": "ieee",
}
# Several servers share the GPU.
FLAGS_ON_GPU: Final = (*FLAGS, "--gpu-memory-utilization", "0.1",
                       "--kv-cache-memory-bytes", str(256 << 20))

CPU: Final = "cpu"
CUDA: Final = "cuda"
DEVICES: Final = (CPU, CUDA)

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
class Servers(ForkedServers):
    """Of vLLM. flags: of every server."""

    preloaded: ClassVar[str] = "examples.vllm_servers.preloaded"
    environment: ClassVar[Mapping[str, str]] = ENVIRONMENT
    flags: ClassVar[Sequence[str]] = (*FLAGS, EAGER)

    def start(self, name: str, model: Path, flags: Sequence[str] = (), *,
              transfer: str | None = None, port: int | None = None,
              env: Mapping[str, str] | None = None) -> Server:
        """Returns at once: see Server.wait_healthy. transfer: see transfer_config."""
        port = free_port() if port is None else port
        argv = ["--model", str(model), "--port", str(port), *self.flags, *flags]
        if transfer is not None:
            argv += ["--kv-transfer-config", transfer]
        side = {"VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port())}
        return self.run("vllm", VllmServer(name, 0, port, self.folder / f"{name}.log", argv),
                         {**side, **(env or {})})

    def proxy(self, name: str, prefill: Sequence[Server], decode: Sequence[Server],
              *flags: str) -> Server:
        port = free_port()
        argv = ["--port", str(port), "--prefill", *(server.url for server in prefill),
                "--decode", *(server.url for server in decode), *flags]
        return self.run("proxy", Server(name, 0, port, self.folder / f"{name}.log", argv))


@dataclass
class ServersOnGpu(Servers):
    """Their KV caches are on the first GPU."""

    preloaded: ClassVar[str] = "examples.vllm_servers.on_gpu"
    environment: ClassVar[Mapping[str, str]] = ON_GPU
    flags: ClassVar[Sequence[str]] = FLAGS_ON_GPU


def servers_on(device: str) -> type[Servers]:
    """device: of DEVICES."""
    return ServersOnGpu if device == CUDA else Servers


def gauge(server: Server, name: str) -> float:
    """One of vLLM's metrics, its labels left out. Raises OSError if the server does not answer."""
    lines = str(server.get("/metrics")).splitlines()
    return sum(float(line.split()[-1]) for line in lines
               if line.startswith((f"vllm:{name}{{", f"vllm:{name} ")))
