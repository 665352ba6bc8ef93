"""The one place where a list of tasks is spread over workers: processes here, or an executor.

The check of one system uses little more than one core. A new worker must import the program again,
so each worker serves until no task is left.
"""

import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from traceback import format_exc
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from pdproto.check.executor_tasks import ExecutorMaker, ExecutorTasks, WorkerError, unanswered
from pdproto.check.explore import Monitor, Progress
from pdproto.check.load import LoadError
from pdproto.check.task_process import OF_THE_USER

Task = TypeVar("Task")
Answer = TypeVar("Answer")

# Only the stubs give `Connection` parameters.
Line: TypeAlias = "Connection[Any, Any]"

# A number of processes of this program, or an executor.
Workers: TypeAlias = int | ExecutorMaker

LEAVE_S: Final = 5.0  # in which a terminated worker must end


def unlimited(_: object) -> None:
    """The time limit of a task that has none."""


def run_tasks(
    tasks: Sequence[Task],
    work: Callable[[Task, Monitor], Answer],
    workers: Workers,
    monitor: Monitor,
    missing: Callable[[Task, str], Answer] = unanswered,
    limit_s: Callable[[Task], float | None] = unlimited,
) -> Generator[tuple[int, Answer], None, None]:
    """Run all tasks, and yield the answers as they finish, each with the number of its task.

    work: a function of a module, because workers import it. workers: with one process or one task,
    it runs in this process. monitor: gets the progress of one task at a time, from processes of
    this program. missing: the answer for a task that has lost its worker, or is out of time in an
    executor, given the reason; it raises UnansweredError if it is left out. limit_s: in an
    executor, the seconds for a task. Raises WorkerError if a worker raises, and an error of the
    user as it is.
    """
    if isinstance(workers, ExecutorMaker):
        if tasks:
            asking = ExecutorTasks(workers, tasks, work, missing, limit_s)
            try:
                yield from asking.answers()
            finally:
                asking.end()
        return
    if min(workers, len(tasks)) <= 1:
        for number, task in enumerate(tasks):
            yield number, work(task, monitor)
        return
    pool = WorkerPool(work, min(workers, len(tasks)), missing)
    try:
        yield from pool.answers(tasks, monitor)
    finally:
        pool.end()


def in_order(answers: Iterable[tuple[int, Answer]]) -> Iterator[Answer]:
    """The answers in the order of their tasks, each as soon as those before it have come."""
    early: dict[int, Answer] = {}
    wanted = 0
    for number, answer in answers:
        early[number] = answer
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


class WorkerPool(Generic[Task, Answer]):
    """Worker processes, each with a connection. Another one takes the place of one that is lost."""

    def __init__(
        self, work: Callable[[Task, Monitor], Answer], workers: int,
        missing: Callable[[Task, str], Answer],
    ) -> None:
        self._work: Final = work
        self._missing: Final = missing
        self._workers: Final[dict[Line, BaseProcess]] = {}
        for _ in range(workers):
            self._start()

    def _start(self) -> Line:
        # Not by fork, which would lose the threads of this process.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, self._work), daemon=True)
        process.start()
        there.close()
        self._workers[here] = process
        return here

    def answers(self, tasks: Sequence[Task], monitor: Monitor) -> Iterator[tuple[int, Answer]]:
        """Give each idle worker the next task, and yield (number of the task, answer)."""
        waiting = list(reversed(range(len(tasks))))
        busy: dict[Line, int] = {}

        def give(worker: Line) -> None:
            busy[worker] = waiting.pop()
            with suppress(BrokenPipeError, ConnectionResetError):  # `_told` tells that it was lost
                worker.send(tasks[busy[worker]])

        for worker in list(self._workers):
            give(worker)
        while busy:
            heard = wait(list(busy))
            for worker in [worker for worker in busy if worker in heard]:
                told = self._told(worker)
                if isinstance(told, Progress):
                    if busy[worker] == min(busy.values()):
                        monitor(told)
                    continue
                number = busy.pop(worker)
                yield number, (self._missing(tasks[number], told.why)
                               if isinstance(told, _Lost) else told[0])
                if waiting:
                    give(worker if worker in self._workers else self._start())

    def _told(self, worker: Line) -> Any:
        try:
            told = worker.recv()
        except (EOFError, ConnectionError):
            return self._lost(worker)
        if isinstance(told, str):
            raise WorkerError(f"in a worker:\n{told}")
        if isinstance(told, Exception):
            raise told
        return told

    def _lost(self, worker: Line) -> "_Lost":
        process = self._workers.pop(worker)
        worker.close()
        process.join(LEAVE_S)
        status = process.exitcode  # None if it has not ended in time
        how = f"by signal {-status}" if status and status < 0 else f"with status {status}"
        return _Lost(f"its worker process was ended {how}: run it again, with fewer --workers "
                     "where memory is short")

    def end(self) -> None:
        """Terminate every worker, also a busy one."""
        for worker, process in self._workers.items():
            process.terminate()
            worker.close()
        for process in self._workers.values():
            process.join(LEAVE_S)


class _Lost(NamedTuple):
    """A task has no answer, because its process has ended, or has no memory. why: as text."""

    why: str


def _serve(tasks: Line, work: Callable[[Any, Monitor], Any]) -> None:
    """Run tasks in a worker. For each, send its progress, then the answer in a tuple of one.

    An error of the user is sent itself, a string is the traceback of another one, and _Lost says
    that memory ran out.
    """
    # Ctrl-C goes to all processes of the group. The parent process ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        try:
            tasks.send((work(task, tasks.send),))
        except MemoryError:
            tasks.send(_Lost("memory ran out: run it again, with fewer --workers"))
        except (*OF_THE_USER, LoadError) as error:
            tasks.send(error)
        except Exception:
            tasks.send(format_exc())
