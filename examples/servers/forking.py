"""One process imports an engine once; every server is a fork of it, and so are its own children.

A server that imports everything anew takes 25 s and more to start, and gigabytes of memory. A fork
of a process that has imported it already starts in seconds. It runs in a session of its own: a kill
of the session is the death of the whole server.

The process takes one JSON object a line on stdin, {"module", "argv", "env", "log"}, and answers
each with {"pid": ...}; at the end of stdin it kills the servers and ends.
"""

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1

Run = Mapping[str, Callable[[list[str]], int]]


def fork_on_request(run: Run) -> int:
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


def _fork(told: dict[str, Any], run: Run) -> int:
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
