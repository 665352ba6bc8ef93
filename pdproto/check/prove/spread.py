"""Decides the rows of a system in the workers of an executor.

A worker loads the system by its name, and finds the obligations by the digests of their content. So
it answers the question that is asked, or none.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from pdproto.check.executor_tasks import ExecutorMaker
from pdproto.check.explore import Monitor, silent
from pdproto.check.load import LoadError
from pdproto.check.prove.digests import Digests
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.proving import (
    ENGINES,
    GRACE_S,
    EngineAnswer,
    ProofSettings,
    RowTask,
)
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.worker_pool import run_tasks
from pdproto.spec.language.system import System

# A value that workers can unpickle, and by which equal ones are recognized.
Load: TypeAlias = Callable[[], ProofSubject]
# Each with its seconds.
Judgements: TypeAlias = tuple[tuple[Judgement, float], ...]

LOAD_S: Final = 60.0  # added to the time limit of a task, in which its worker loads the system


@dataclass(frozen=True, slots=True)
class _Asked:
    """A RowTask in a form that can be sent to a worker. timeout_s: for one question."""

    load: Load
    engine: str
    timeout_s: float
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SpreadProof:
    """Decides rows in an executor, as `ProofSettings.decide`. load: the subject in a worker."""

    executor: ExecutorMaker
    load: Load

    def __call__(
        self, system: System, tasks: Sequence[RowTask], settings: ProofSettings
    ) -> Iterator[EngineAnswer]:
        """The answers to all obligations of the tasks; UNKNOWN for a task that has lost its
        workers. Raises LoadError if a worker has another system under this name.
        """
        digests = Digests(system)
        asked = [
            _Asked(self.load, task.engine, settings.timeout_s,
                   tuple(digests.of(one, task.engine) for one in task.group))
            for task in tasks
        ]
        began = time.monotonic()
        answers = run_tasks(asked, _decided, self.executor, silent, _unknown, _limit_s)
        for done, (number, judgements) in enumerate(answers, 1):
            task = tasks[number]
            for obligation, (judgement, seconds) in zip(task.group, judgements, strict=True):
                yield EngineAnswer(obligation, task.engine, judgement, seconds)
            settings.monitor(
                f"{system.name}: {done} of {len(tasks)} rows", time.monotonic() - began)


def _limit_s(task: _Asked) -> float:
    return LOAD_S + (2 * task.timeout_s + GRACE_S) * len(task.digests)


def _unknown(task: _Asked, why: str) -> Judgements:
    return ((Judgement(Status.UNKNOWN, why), task.timeout_s),) * len(task.digests)


def _decided(task: _Asked, _: Monitor) -> Judgements:
    system, known = _known(task.load, task.engine)
    if not known.keys() >= set(task.digests):
        raise LoadError(f"{system.name}: its obligations are others than those of the task")
    judgements: list[tuple[Judgement, float]] = []
    since = time.monotonic()
    group = [known[digest] for digest in task.digests]
    for judgement in ENGINES[task.engine](system, group, task.timeout_s):
        now = time.monotonic()
        judgements.append((judgement, now - since))
        since = now
    return tuple(judgements)


@cache
def _known(load: Load, engine: str) -> tuple[System, Mapping[str, Obligation]]:
    """The system, and its obligations by their digests."""
    one = load()
    digests = Digests(one.system)
    return one.system, {digests.of(o, engine): o for o in one.obligations()}
