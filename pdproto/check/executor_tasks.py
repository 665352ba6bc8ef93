"""Runs tasks in any `concurrent.futures.Executor`, such as the workers of a cluster.

A worker returns the error of a task as a value (task_process.py). So an exception of a future means
that a worker, or the whole executor, was lost. The task is then asked again, at most ATTEMPTS times
in all. A task without an answer gets the one that the caller has for it, which is never `holds`.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar, runtime_checkable

from pdproto.check.load import LoadError
from pdproto.check.task_process import Reply, called, run_call

Task = TypeVar("Task")
Answer = TypeVar("Answer")

ATTEMPTS: Final = 3
LOOK_S: Final = 1.0  # between two looks at the workers
EMPTY_S: Final = 30.0  # without any worker, after which an executor counts as lost
LATE: Final = "it was ended: out of time"


class WorkerError(Exception):
    """A task raised in a worker."""


class UnansweredError(Exception):
    """A task has no answer: its workers were lost, or its time was over."""


@runtime_checkable
class Counted(Protocol):
    """An executor that knows how many workers it has at present."""

    def workers(self) -> int:
        """The number of workers."""


@dataclass(frozen=True, slots=True)
class ExecutorMaker:
    """An executor, which `make` makes, and makes anew when it breaks.

    make: raises OSError if the executor cannot be reached. empty_s: after so many seconds without
    any worker, an executor that counts them (Counted) is given up.
    """

    make: Callable[[], Executor]
    empty_s: float = EMPTY_S


def unanswered(task: object, why: str) -> NoReturn:
    """The answer for a task without one, if the caller has none: raises UnansweredError."""
    raise UnansweredError(f"{task}: {why}")


class ExecutorTasks(Generic[Task, Answer]):
    """The tasks of one run in an executor, with the futures that have not ended."""

    def __init__(
        self, maker: ExecutorMaker, tasks: Sequence[Task], work: Callable[[Task, Any], Answer],
        missing: Callable[[Task, str], Answer], limit_s: Callable[[Task], float | None],
    ) -> None:
        """missing: the answer for a task without one, given the reason. limit_s: its time."""
        self._maker: Final = maker
        self._tasks: Final = tasks
        self._calls: Final = [called(work, task) for task in tasks]
        self._missing: Final = missing
        self._limit_s: Final = limit_s
        self._losses: Final = Counter[int]()
        self._running: Final[dict[Future[bytes], int]] = {}
        self._executor = maker.make()
        self._last_worker = monotonic()

    def answers(self) -> Iterator[tuple[int, Answer]]:
        """(Number of a task, answer), as they finish. Raises WorkerError, an error of the user as
        it is, and LoadError if a worker has not the same pdproto and specs.
        """
        for number in range(len(self._tasks)):
            yield from self._ask(number)
        while self._running:
            done, _ = wait(list(self._running), LOOK_S, return_when=FIRST_COMPLETED)
            if not done and self._is_empty():
                yield from self._give_up(f"no worker for {self._maker.empty_s:g} s")
            for future in done:
                yield from self._heard(self._running.pop(future), future)

    def _heard(self, number: int, future: Future[bytes]) -> Iterator[tuple[int, Answer]]:
        try:
            answered = future.result()
        except Exception as error:
            yield from self._ask_again(number, f"{type(error).__name__}: {error}")
            return
        reply: Reply = pickle.loads(answered)  # noqa: S301 - from our own worker
        if reply.refused:
            raise LoadError(f"in a worker: {reply.refused}")
        if reply.raised is not None:
            raise reply.raised
        if reply.error:
            raise WorkerError(f"in a worker:\n{reply.error}")
        task = self._tasks[number]
        yield number, self._missing(task, LATE) if reply.late else reply.answer

    def _ask_again(self, number: int, why: str) -> Iterator[tuple[int, Answer]]:
        self._losses[number] += 1
        if self._losses[number] < ATTEMPTS:
            yield from self._ask(number)
        else:
            told = f"its worker was lost {ATTEMPTS} times, at last by {why}"
            yield number, self._missing(self._tasks[number], told)

    def _ask(self, number: int) -> Iterator[tuple[int, Answer]]:
        call, limit_s = self._calls[number], self._limit_s(self._tasks[number])
        try:
            try:
                future = self._executor.submit(run_call, call, limit_s)
            except RuntimeError:  # it is broken, or has ended
                self.end()
                self._executor = self._maker.make()
                future = self._executor.submit(run_call, call, limit_s)
        except Exception as error:
            yield from self._ask_again(number, f"{type(error).__name__}: {error}")
        else:
            self._running[future] = number

    def _is_empty(self) -> bool:
        if not isinstance(self._executor, Counted) or self._executor.workers():
            self._last_worker = monotonic()
        return monotonic() > self._last_worker + self._maker.empty_s

    def _give_up(self, why: str) -> Iterator[tuple[int, Answer]]:
        left, count = [*self._running.values()], len(self._running)
        self._running.clear()
        for number in left:
            yield number, self._missing(self._tasks[number], f"{why}, {count} tasks were left")

    def end(self) -> None:
        """Give up the tasks that have not begun. Those that run end by themselves."""
        with suppress(Exception):  # of an executor that is broken
            self._executor.shutdown(wait=False, cancel_futures=True)
