"""Functions that the workers of executors run in tests, and executors that lose workers."""

import os
import pickle
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pdproto.check.explore import Monitor, silent
from pdproto.check.task_process import Call, Reply


def square(number: int, _: Monitor) -> int:
    return number * number


def stumble(number: int, _: Monitor) -> int:
    raise ValueError(f"{number} is too much")


def die(_: int, __: Monitor) -> int:
    os._exit(9)


def dawdle(note: Path, _: Monitor) -> int:
    """Hear no signal that a program can ignore, and end never."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    note.write_text(f"{os.getpid()}\n")
    time.sleep(600)
    return 0


def kill_the_worker_once(note: Path, _: Monitor) -> str:
    """Kill the worker that has this task, but only the first one."""
    if not note.exists():
        note.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    return note.name


def parent(_: int, __: Monitor) -> int:
    return os.getppid()


def rank(_: int, __: Monitor) -> str:
    """The rank of this process in its MPI job, by MPICH or Open MPI."""
    return os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "none"


def two_processes() -> Executor:
    return ProcessPoolExecutor(2, get_context("spawn"))


def two_forks() -> Executor:
    return ProcessPoolExecutor(2, get_context("fork"))


class Losing(Executor):
    """Runs each call at once in this thread. It loses the calls for which `loses` says so."""

    def __init__(self, loses: Callable[[Any], bool]) -> None:
        self.loses = loses
        self.begun = 0

    def submit(self, _: Callable[..., Any], /, *args: Any, **__: Any) -> Future[Any]:
        """The reply of the call, or an error of the executor."""
        call: Call = pickle.loads(args[0])  # noqa: S301 - of this process
        self.begun += 1
        future: Future[Any] = Future()
        if self.loses(call.task):
            future.set_exception(ConnectionError("the worker is gone"))
        else:
            future.set_result(pickle.dumps(Reply(call.work(call.task, silent))))
        return future
