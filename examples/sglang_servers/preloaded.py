"""The process that has imported SGLang; every server is a fork of it (examples/servers).

Module "sglang.launch_server" is a server, and "sglang_router.launch_router" the router. An import
of SGLang takes 25 s of a server's start and 2.2 GB of memory; a fork starts in 2 s, in 0.3 GB.
SGLANG_SERVERS_HOOK in env names a function, "module:name", that a server calls before it parses its
command line.
"""

import importlib
import multiprocessing
import os
import sys
from contextlib import suppress
from typing import Final

from examples.servers.forking import Run, fork_on_request
from examples.sglang_servers import on_gpu, without_gpu

HOOK: Final = "SGLANG_SERVERS_HOOK"


def main() -> int:
    _import_sglang()
    return fork_on_request(RUN)


def _import_sglang() -> None:
    """All modules that a server imports before its command line matters, models included.

    The processes of a server are forks of its first one, unless the import has used CUDA: then they
    import SGLang anew.
    """
    place = on_gpu if os.environ.get(on_gpu.DEVICE) == "cuda" else without_gpu
    place.install()
    from sglang.srt.plugins import load_plugins

    load_plugins()
    for name in ("sglang.launch_server", "sglang.srt.entrypoints.http_server",
                 "sglang.srt.managers.scheduler", "sglang.srt.managers.detokenizer_manager",
                 "sglang.srt.models.registry"):
        importlib.import_module(name)
    with suppress(ImportError):  # a test without the router asks both servers itself
        importlib.import_module("sglang_router.launch_router")
    place.complete()
    if place is on_gpu and on_gpu.has_used_cuda():
        return
    fork = multiprocessing.get_context("fork")
    multiprocessing.context._default_context._actual_context = fork  # type: ignore[attr-defined]
    multiprocessing.set_start_method = lambda *_, **__: None


def _serve(argv: list[str]) -> int:
    """The same as `python -m sglang.launch_server`."""
    from sglang.launch_server import run_server
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    _hook()
    try:
        run_server(prepare_server_args(argv))
    finally:
        kill_process_tree(os.getpid(), include_parent=False)
    return 0


def _hook() -> None:
    if hook := os.environ.get(HOOK):
        module, _, name = hook.partition(":")
        getattr(importlib.import_module(module), name)()


def _route(argv: list[str]) -> int:
    """The same as `python -m sglang_router.launch_router`."""
    from sglang_router.launch_router import launch_router, parse_router_args

    launch_router(parse_router_args(argv))
    return 0


RUN: Final[Run] = {
    "sglang.launch_server": _serve,
    "sglang_router.launch_router": _route,
}


if __name__ == "__main__":
    sys.exit(main())
if __name__ == "__mp_main__":  # a process of a server that is no fork
    _import_sglang()
    _hook()
