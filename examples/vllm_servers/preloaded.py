"""The process that has imported vLLM, of which every server is a fork (examples/servers).

Module "vllm" is a server, and "proxy" the proxy. An import of vLLM takes half a minute, and minutes
on a loaded machine.
"""

import importlib
import sys

from examples.servers.forking import fork_on_request
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
    return fork_on_request({"vllm": _serve, "proxy": proxy.main})


def _serve(argv: list[str]) -> int:
    """As `vllm serve` does."""
    sys.argv = ["vllm", *argv]
    importlib.import_module(NEEDED[0]).main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
