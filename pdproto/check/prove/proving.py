"""Proves all obligations of a system: with one or both engines, in worker processes, with a cache.

Processes decide the rows, so that a solver that does not return can be killed. A proof is
kept (kept.py) under a digest of its question (digests.py).
"""

import multiprocessing
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Final, TypeAlias

from pdproto.check.prove import cutoff, quantified
from pdproto.check.prove.axioms import require_possible
from pdproto.check.prove.digests import Digests
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.kept import KeptProofs
from pdproto.check.prove.obligations import Obligation
from pdproto.spec.language.system import System

Decide: TypeAlias = Callable[[System, Sequence[Obligation], float], Iterator[Judgement]]

CUTOFF: Final = "cutoff"
QUANTIFIED: Final = "quantified"
ENGINES: Final[Mapping[str, Decide]] = {CUTOFF: cutoff.decide, QUANTIFIED: quantified.decide}
OPEN: Final = frozenset({Status.REFUSED, Status.UNKNOWN})
SLOW_S: Final = 5.0  # a row that takes longer is reported
KEEP_S: Final = 1.0  # between two changes of the kept proofs
GRACE_S: Final = 10.0  # added to the solver's limit: for grounding, and for short questions


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """The verdict of one engine on one obligation.

    seconds: since the obligation before it in its row. instead_of: if another engine was asked
    first, why it had no answer.
    """

    obligation: Obligation
    engine: str
    judgement: Judgement
    seconds: float
    cached: bool = False
    instead_of: str = ""


@dataclass(frozen=True, slots=True)
class ProofSettings:
    """How to prove.

    engines: their names. timeout_s: for one question. workers: processes. decide: decides the rows
    instead, for example in an executor (spread.py). cache_folder: of the cache; None for no cache.
    monitor: is called with lines of progress, and the seconds since the beginning. slow: is called
    with each slow row and its seconds.
    """

    engines: Sequence[str] = ("cutoff",)
    timeout_s: float = 30.0
    workers: int = 1
    decide: "DecideRows | None" = None
    cache_folder: Path | None = None
    monitor: Callable[[str, float], None] = field(default=lambda _line, _seconds: None)
    slow: Callable[[str, float], None] = field(default=lambda _name, _seconds: None)


@dataclass(frozen=True)
class Proof:
    """All verdicts, in the order of the obligations, and for each in the order of the engines.

    What follows for the claims is in verdicts.py. axioms: PROVED if they can hold together; if this
    is unknown, nothing counts as proved. doubts: by `leads_to`, why this is unknown of its own
    assumptions. independent: the claims that are proved also without those that are not met
    (independent.py). interrupted: Ctrl-C came before every obligation had a verdict.
    """

    system: str
    outcomes: tuple[EngineAnswer, ...]
    seconds: float
    axioms: Judgement = field(default_factory=lambda: Judgement(Status.PROVED))
    interrupted: bool = False
    doubts: Mapping[str, str] = field(default_factory=dict)
    independent: frozenset[str] = frozenset()

    def status(self, obligation: Obligation) -> Status:
        """The common verdict of the engines; UNKNOWN if they differ.

        A proof from axioms that may contradict each other is UNKNOWN too.
        """
        found = self._statuses[id(obligation)]
        if len(found) > 1 or (Status.PROVED in found and not self.from_possible_axioms):
            return Status.UNKNOWN
        return next(iter(found))

    @property
    def from_possible_axioms(self) -> bool:
        """Whether the axioms can hold together."""
        return self.axioms.status is Status.PROVED

    @cached_property
    def _statuses(self) -> Mapping[int, set[Status]]:
        statuses: dict[int, set[Status]] = {}
        for outcome in self.outcomes:
            statuses.setdefault(id(outcome.obligation), set()).add(outcome.judgement.status)
        return statuses

    @cached_property
    def obligations(self) -> tuple[Obligation, ...]:
        """Each obligation once."""
        return tuple({id(o.obligation): o.obligation for o in self.outcomes}.values())


@dataclass(frozen=True, slots=True)
class RowTask:
    """The obligations of one row, for one engine."""

    engine: str
    group: tuple[Obligation, ...]

    @property
    def name(self) -> str:
        """The names of the engine and of the row, as text."""
        return f"{self.engine}: {self.group[0].scope}"


# Yields the answers of all tasks, in any order.
DecideRows: TypeAlias = Callable[
    [System, Sequence[RowTask], ProofSettings], Iterator[EngineAnswer]]


def prove(system: System, obligations: Sequence[Obligation], settings: ProofSettings) -> Proof:
    """The verdict of every engine on every obligation.

    Raises SpecError if the axioms contradict each other. After Ctrl-C, obligations without a
    verdict are UNKNOWN.
    """
    began = time.monotonic()
    axioms = require_possible(system, settings.engines, settings.timeout_s)
    asked = _Asked(system, obligations, settings)
    interrupted = False
    try:
        asked.decide()
    except KeyboardInterrupt:
        interrupted = True
    return Proof(system.name, asked.in_order(), time.monotonic() - began, axioms, interrupted)


class _Asked:
    """The obligations of a proof, with the answers so far: first those of earlier runs."""

    def __init__(
        self, system: System, obligations: Sequence[Obligation], settings: ProofSettings
    ) -> None:
        self.system: Final = system
        self.obligations: Final = obligations
        self.settings: Final = settings
        self.kept: Final = KeptProofs(settings.cache_folder)
        digest = Digests(system).of
        self.digests: Final = {} if settings.cache_folder is None else {
            (engine, id(o)): digest(o, engine) for engine in settings.engines for o in obligations}
        known = self.kept.among(self.digests.values())
        self.found: Final = {
            (engine, id(o)): EngineAnswer(o, engine, Judgement(Status.PROVED), 0.0, cached=True)
            for engine in settings.engines for o in obligations
            if self.digests.get((engine, id(o))) in known}
        # Rankings of one system share helpers: equal questions are asked once.
        self.alike: Final[dict[tuple[str, Hashable], list[Obligation]]] = {}

    def tasks(self) -> Iterator[RowTask]:
        """The rows with obligations that are still open."""
        groups: dict[str, list[Obligation]] = {}
        for obligation in self.obligations:
            groups.setdefault(obligation.scope, []).append(obligation)
        for engine in self.settings.engines:
            for group in groups.values():
                open_ones = []
                for obligation in group:
                    if (engine, id(obligation)) in self.found:
                        continue
                    same = self.alike.setdefault((engine, _question(obligation)), [])
                    if not same:
                        open_ones.append(obligation)
                    same.append(obligation)
                if open_ones:
                    yield RowTask(engine, tuple(open_ones))

    def decide(self) -> None:
        """Decide the open obligations, and keep what is proved."""
        proved: list[str] = []
        keep_at = time.monotonic() + KEEP_S
        decide = self.settings.decide or _run
        try:
            for outcome in decide(self.system, list(self.tasks()), self.settings):
                for obligation in self.alike[outcome.engine, _question(outcome.obligation)]:
                    place = outcome.engine, id(obligation)
                    self.found[place] = replace(outcome, obligation=obligation)
                    if self.digests and outcome.judgement.status is Status.PROVED:
                        proved.append(self.digests[place])
                if time.monotonic() > keep_at:
                    self.kept.add(proved)
                    proved.clear()
                    keep_at = time.monotonic() + KEEP_S
        finally:
            self.kept.add(proved)

    def in_order(self) -> tuple[EngineAnswer, ...]:
        """The answers in the order of the obligations; UNKNOWN where there is none."""
        unknown = Judgement(Status.UNKNOWN, "interrupted")
        return tuple(
            self.found.get((engine, id(o))) or EngineAnswer(o, engine, unknown, 0.0)
            for o in self.obligations for engine in self.settings.engines
        )


def decided_by(engine: str, system: System, proof: Proof, settings: ProofSettings) -> Proof:
    """The proof, after another engine has decided the obligations that are still open.

    If this engine has no answer either, the obligation stays open, with the reasons of both.
    """
    is_open = [o for o in proof.outcomes if o.judgement.status in OPEN]
    if not is_open or proof.interrupted:
        return proof
    again = prove(
        system, tuple(o.obligation for o in is_open), replace(settings, engines=(engine,))
    )
    second = {id(outcome.obligation): outcome for outcome in again.outcomes}

    def answered(outcome: EngineAnswer) -> EngineAnswer:
        if outcome.judgement.status not in OPEN:
            return outcome
        other = second[id(outcome.obligation)]
        if other.judgement.status not in OPEN:
            return replace(other, instead_of=outcome.judgement.note)
        note = f"{outcome.judgement.note}; {other.judgement.note}"
        return replace(outcome, judgement=replace(outcome.judgement, note=note))

    return replace(
        proof,
        outcomes=tuple(map(answered, proof.outcomes)),
        seconds=proof.seconds + again.seconds,
        interrupted=again.interrupted,
    )


def _question(obligation: Obligation) -> Hashable:
    """The content of an obligation without its name; comparable within one system."""
    sequent = obligation.sequent
    return id(sequent.assumed), sequent.facts, sequent.goal, id(obligation.row)


def _run(
    system: System, tasks: Sequence[RowTask], settings: ProofSettings
) -> Iterator[EngineAnswer]:
    """Run the tasks in at most `workers` processes, each of which decides one after another."""
    waiting = list(reversed(range(len(tasks))))
    running: dict[Connection, _Worker] = {}
    began, done = time.monotonic(), 0
    try:
        while waiting or running:
            while waiting and len(running) < settings.workers:
                worker = _Worker(system, tasks, settings.timeout_s)
                worker.begin(waiting.pop())
                running[worker.pipe] = worker
            left = min(worker.until for worker in running.values()) - time.monotonic()
            ready = wait(list(running), max(0.0, left))
            for pipe in [c for c in running if c in ready or time.monotonic() > running[c].until]:
                worker = running[pipe]
                yield from worker.outcomes()
                if worker.deciding:
                    continue
                done += 1
                took = time.monotonic() - worker.began
                told = f"{system.name}: {done} of {len(tasks)} rows"
                settings.monitor(told, time.monotonic() - began)
                if took > SLOW_S:
                    settings.slow(worker.task.name, took)
                if waiting and not worker.ended:
                    worker.begin(waiting.pop())
                else:
                    running.pop(pipe).end()
    finally:
        for worker in running.values():
            worker.end()


class _Worker:
    """One process that decides tasks. For each it sends a judgement for each obligation, then None.

    A copy of this process for each task would take longer than most tasks, if it has much memory.
    """

    def __init__(self, system: System, tasks: Sequence[RowTask], timeout_s: float) -> None:
        context = multiprocessing.get_context("fork")
        self.timeout_s: Final = timeout_s
        self.ended = self.deciding = False
        self._tasks: Final = tasks
        self.pipe, theirs = context.Pipe()
        self.process: Final[ForkProcess] = context.Process(
            target=_work, args=(system, tasks, timeout_s, theirs, self.pipe), daemon=True)
        self.process.start()
        theirs.close()

    def begin(self, number: int) -> None:
        """Have it decide the task of this number."""
        self.task = self._tasks[number]
        self._left = list(self.task.group)
        self.deciding = True
        self.began = self._since = time.monotonic()
        self.until = self._since + self.timeout_s * 2 + GRACE_S
        with suppress(BrokenPipeError, ConnectionResetError):  # `outcomes` tells that it has died
            self.pipe.send(number)

    def outcomes(self) -> Iterator[EngineAnswer]:
        """The verdicts that have arrived. If the process is out of time, the others are UNKNOWN."""
        try:
            while self.pipe.poll():
                judgement = self.pipe.recv()
                now = time.monotonic()
                if isinstance(judgement, Exception):
                    raise judgement
                if judgement is None:
                    self.deciding = False
                    return
                took, self._since = now - self._since, now
                self.until = now + self.timeout_s * 2 + GRACE_S
                yield EngineAnswer(self._left.pop(0), self.task.engine, judgement, took)
            if time.monotonic() < self.until:
                return
            unknown = Judgement(Status.UNKNOWN, "it was ended: out of time")
        except (EOFError, ConnectionResetError):
            unknown = Judgement(Status.UNKNOWN, "its process died")
        self.end()
        for obligation in self._left:
            yield EngineAnswer(obligation, self.task.engine, unknown, self.timeout_s)

    def end(self) -> None:
        """Kill the process, also if it is busy."""
        self.ended, self.deciding = True, False
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(
    system: System, tasks: Sequence[RowTask], timeout_s: float, pipe: Connection, other: Connection
) -> None:
    other.close()  # so that this process ends with the one that has made it
    try:
        while True:
            task = tasks[pipe.recv()]
            for judgement in ENGINES[task.engine](system, task.group, timeout_s):
                pipe.send(judgement)
            pipe.send(None)
    except EOFError:
        pass  # nobody asks any more
    except Exception as error:
        pipe.send(error)  # to be raised there
