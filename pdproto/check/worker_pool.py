"""Processes that share a list of tasks: judging one system keeps little more than one core busy.

A worker that is new imports the program again, so each serves until no task is left.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from traceback import format_exc
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pdproto.check.explore import Monitor, Progress

Task = TypeVar("Task")
Answer = TypeVar("Answer")

# Its parameters are of the stubs alone.
Line: TypeAlias = "Connection[Any, Any]"

LEAVE_S: Final = 5.0  # how long a worker that was told to end may take


class WorkerError(Exception):
    """A worker raised, or died."""


def shared_out(
    tasks: Sequence[Task],
    work: Callable[[Task, Monitor], Answer],
    workers: int,
    monitor: Monitor,
) -> Iterator[tuple[int, Answer]]:
    """The answers as they come, each with the number of its task.

    work: a function of a module, since workers import it. monitor sees the search of one task at
    a time. One worker, or one task, needs no process. Raises MemoryError if a worker is killed,
    which the system does when memory runs out, and WorkerError if one raises.
    """
    if min(workers, len(tasks)) <= 1:
        for number, task in enumerate(tasks):
            yield number, work(task, monitor)
        return
    pool = WorkerPool(work, min(workers, len(tasks)))
    try:
        yield from pool.answers(tasks, monitor)
    finally:
        pool.end()


class WorkerPool(Generic[Task, Answer]):
    """Workers, each at the other end of a connection."""

    def __init__(self, work: Callable[[Task, Monitor], Answer], workers: int) -> None:
        # Threads do not survive a fork: a worker starts afresh.
        context = multiprocessing.get_context("spawn")
        self._workers: Final[dict[Line, BaseProcess]] = {}
        for _ in range(workers):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, work), daemon=True)
            process.start()
            there.close()
            self._workers[here] = process

    def answers(self, tasks: Sequence[Task], monitor: Monitor) -> Iterator[tuple[int, Answer]]:
        """Give each worker its next task as soon as it has none."""
        waiting = iter(enumerate(tasks))
        busy: dict[Line, int] = {}

        def give(worker: Line) -> None:
            given = next(waiting, None)
            if given is not None:
                busy[worker], task = given
                worker.send(task)

        for worker in self._workers:
            give(worker)
        while busy:
            heard = wait(list(busy))
            for worker in [worker for worker in busy if worker in heard]:
                told = self._told(worker)
                if isinstance(told, Progress):
                    if busy[worker] == min(busy.values()):
                        monitor(told)
                    continue
                yield busy.pop(worker), told[0]
                give(worker)

    def _told(self, worker: Line) -> Any:
        try:
            told = worker.recv()
        except EOFError:
            status = self._workers[worker].exitcode
            raise MemoryError(f"a worker died (status {status})") from None
        if isinstance(told, str):
            raise WorkerError(f"in a worker:\n{told}")
        return told

    def end(self) -> None:
        """Stop every worker, whatever it does."""
        for worker, process in self._workers.items():
            process.terminate()
            worker.close()
        for process in self._workers.values():
            process.join(LEAVE_S)


def _serve(tasks: Line, work: Callable[[Any, Monitor], Any]) -> None:
    """Answer each task with a tuple of one, after what its search tells; a string is an error."""
    # Ctrl-C goes to the whole group of processes: the one that shares out ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        try:
            tasks.send((work(task, tasks.send),))
        except Exception:
            tasks.send(format_exc())
