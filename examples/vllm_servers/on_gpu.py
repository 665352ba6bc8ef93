"""vLLM servers whose KV caches are on a GPU (examples/servers).

    python -m examples.vllm_servers.on_gpu --model MODEL ...    one server, as `vllm serve` does

A process that has looked for GPUs is not to be forked: the fork would have the driver's state and
not its files. So each server is a new process, which imports vLLM itself.
"""

import importlib
import os
import sys
from typing import Final

import torch

from examples.servers.forking import fork_on_request
from examples.vllm_servers import proxy, without_kernels

LATENT: Final = (
    ("vllm.v1.attention.backends.mla.triton_mla", "TritonMLABackend"),
    ("vllm.v1.attention.backends.mla.prefill.cpu_sdpa", "CPUSDPAMLAPrefillBackend"),
)
"""Latent attention in Triton and torch. vLLM offers it for 16 bits only. In float32, which it
computes, too, answers can be compared.
"""


def main() -> int:
    """Without arguments it starts servers on request, else it is one."""
    if sys.argv[1:]:
        return serve(sys.argv[1:])
    return fork_on_request({"vllm": _serve_anew, "proxy": proxy.main})


def serve(argv: list[str]) -> int:
    lacks_kernels = without_kernels.install()
    for module, backend in LATENT:
        getattr(importlib.import_module(module), backend).supported_dtypes.append(torch.float32)
    sys.argv = ["vllm", *(without_kernels.FLAGS if lacks_kernels else ()), *argv]
    importlib.import_module("vllm.entrypoints.launchers.api_server.entry").main()
    return 0


def _serve_anew(argv: list[str]) -> int:
    os.execv(sys.executable, [  # noqa: S606 - our own module
        sys.executable, "-m", "examples.vllm_servers.on_gpu", *argv])


if __name__ == "__main__":
    sys.exit(main())
