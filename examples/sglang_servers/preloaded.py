"""One process imports SGLang once; every server is a fork of it, and so are SGLang's own children.

A server imports SGLang three times over (front end, scheduler, detokenizer): 25 s of its start and
2.2 GB of memory. A fork of a process that has imported it already starts in 2 s, in 0.3 GB. It then
runs `sglang.launch_server` as the command line does, in a session of its own: a kill of the session
is the death of the whole server.

It takes one JSON object a line on stdin, {"module", "argv", "env", "log"}, and answers each with
{"pid": ...}; at the end of stdin it kills the servers and ends. SGLANG_SERVERS_HOOK in env names a
function, "module:name", that a server calls before it parses its command line.
"""

import ctypes
import importlib
import json
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from examples.sglang_servers import without_gpu

HOOK: Final = "SGLANG_SERVERS_HOOK"
PR_SET_PDEATHSIG: Final = 1


def main() -> int:
    without_gpu.install()
    _import_sglang()
    return fork_on_request(RUN)


def fork_on_request(run: Mapping[str, Callable[[list[str]], int]]) -> int:
    """Answer the requests on stdin. run: what a fork does, by its module. Returns at their end."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nothing that a library prints gets between the answers
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # servers that end are reaped at once
    answers.write(json.dumps({"ready": True}) + "\n")
    pids = []
    try:
        for line in sys.stdin:
            pids.append(_fork(json.loads(line), run))
            answers.write(json.dumps({"pid": pids[-1]}) + "\n")
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
    return 0


def _import_sglang() -> None:
    """Everything that a server imports before its command line matters, models included."""
    from sglang.srt.plugins import load_plugins

    load_plugins()
    for name in ("sglang.launch_server", "sglang.srt.entrypoints.http_server",
                 "sglang.srt.managers.scheduler", "sglang.srt.managers.detokenizer_manager",
                 "sglang.srt.models.registry", "sglang_router.launch_router"):
        importlib.import_module(name)
    without_gpu.complete_attention()
    fork = multiprocessing.get_context("fork")
    multiprocessing.context._default_context._actual_context = fork  # type: ignore[attr-defined]
    multiprocessing.set_start_method = lambda *_, **__: None


def _fork(told: dict[str, Any], run: Mapping[str, Callable[[list[str]], int]]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for ours, theirs in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(ours, theirs)
        os.closerange(3, 64)  # the pipe to our caller among them
        os.environ.update(told["env"])
        status = run[told["module"]](told["argv"])
    except BaseException:  # a fork must never return into its parent's loop
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(status)


def _serve(argv: list[str]) -> int:
    """As `python -m sglang.launch_server` does."""
    from sglang.launch_server import run_server
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    if hook := os.environ.get(HOOK):
        module, _, name = hook.partition(":")
        getattr(importlib.import_module(module), name)()
    try:
        run_server(prepare_server_args(argv))
    finally:
        kill_process_tree(os.getpid(), include_parent=False)
    return 0


def _route(argv: list[str]) -> int:
    """As `python -m sglang_router.launch_router` does."""
    from sglang_router.launch_router import launch_router, parse_router_args

    launch_router(parse_router_args(argv))
    return 0


RUN: Final[dict[str, Callable[[list[str]], int]]] = {
    "sglang.launch_server": _serve,
    "sglang_router.launch_router": _route,
}


if __name__ == "__main__":
    sys.exit(main())
