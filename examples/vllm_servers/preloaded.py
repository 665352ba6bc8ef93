"""The process that has imported vLLM, of which every server is a fork (examples/servers).

Module "vllm" is a server, "proxy" the proxy, and "program" another one, whose module comes first in
its arguments. An import of vLLM takes half a minute, and minutes
on a loaded machine.
"""

import importlib
import multiprocessing
import runpy
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
    return fork_on_request({"vllm": _serve, "proxy": proxy.main, "program": _program})


def _serve(argv: list[str]) -> int:
    """As `vllm serve` does, with processes that are forks, too: on a CPU vLLM starts two for each
    server anew, because it cannot know whether threads of OpenMP run already. Here none does.
    """
    made = multiprocessing.get_context
    vars(multiprocessing)["get_context"] = lambda method=None: made(
        "fork" if method == "spawn" else method)
    sys.argv = ["vllm", *argv]
    importlib.import_module(NEEDED[0]).main()
    return 0


def _program(argv: list[str]) -> int:
    """As `python -m` does."""
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
