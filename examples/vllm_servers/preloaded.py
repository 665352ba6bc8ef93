"""One process imports vLLM once; every server is a fork of it.

A server imports vLLM for half a minute, and for minutes on a loaded machine. It takes requests as
`examples/sglang_servers/preloaded.py` does; module "vllm" is a server, and "proxy" the proxy.
"""

import importlib
import sys

from examples.sglang_servers.preloaded import fork_on_request
from examples.vllm_servers import proxy

NEEDED = (
    "vllm.entrypoints.launchers.api_server.entry", "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.core", "vllm.v1.engine.async_llm", "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.cpu_worker", "vllm.v1.worker.cpu_model_runner",
    "vllm.model_executor.models.llama", "pdproto.vllm.connector",
)


def main() -> int:
    for name in NEEDED:
        importlib.import_module(name)
    return fork_on_request({"vllm": _serve, "proxy": _proxy})


def _serve(argv: list[str]) -> int:
    """As `vllm serve` does."""
    sys.argv = ["vllm", *argv]
    importlib.import_module(NEEDED[0]).main()
    return 0


def _proxy(argv: list[str]) -> int:
    sys.argv = ["proxy", *argv]
    proxy.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
