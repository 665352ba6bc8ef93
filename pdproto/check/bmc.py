"""Bounded model checking: Z3 searches for a run of k steps that ends in a bad state.

It is a second opinion on the explorer (Biere, Cimatti, Clarke and Zhu, "Symbolic model checking
without BDDs", TACAS 1999). Both share only the ground rows: this search stores no states, and uses
neither symmetry nor an engine. unrolling.py has its constraints. k grows from 0, so the first run
that is found is a shortest one.

A row that changes nothing does not count as a step. So if there is no run of k steps, all states
have been covered, and the answer is complete.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic
from typing import Final

from pdproto.check.explore import program
from pdproto.check.findings import placed
from pdproto.check.narrative import Narrator
from pdproto.check.questions import DEADLOCK, Question, questions
from pdproto.check.result import Finding, PropertyKind, Trace, Verdict
from pdproto.check.rigid import interpretations
from pdproto.check.runs import run
from pdproto.check.unrolling import Reached, Unrolling
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import at_sizes
from pdproto.ground.program import Program
from pdproto.spec.language.system import Configuration, System

TIMED_OUT: Final = "the time limit was reached"
INTERRUPTED: Final = "interrupted"


@dataclass(frozen=True, slots=True)
class Unrolled:
    """The progress of a search: all runs of up to `depth` steps are decided.

    what: the name of the system.
    """

    what: str
    depth: int
    seconds: float


Watcher = Callable[[Unrolled], None]


def ignore_progress(_: Unrolled) -> None:
    """A watcher that does nothing."""


@dataclass(frozen=True, slots=True)
class BoundedResult:
    """The result of bounded model checking, without liveness, which finite runs cannot refute.

    depth: the length of the longest runs that were examined, in steps. complete: no run is longer,
    so the verdicts hold for all states. stopped: why the search ended before the wanted depth; else
    empty.
    """

    system: str
    depth: int
    complete: bool
    stopped: str
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """VIOLATED if any finding is; else UNKNOWN if any finding is; else HOLDS."""
        verdicts = {finding.verdict for finding in self.findings}
        for verdict in (Verdict.VIOLATED, Verdict.UNKNOWN):
            if verdict in verdicts:
                return verdict
        return Verdict.HOLDS


def bounded(
    system: System,
    configuration: Configuration,
    depth: int,
    *,
    properties: Sequence[str] = (),
    timeout_s: float | None = None,
    keep_going: bool = False,
    watcher: Watcher = ignore_progress,
) -> BoundedResult:
    """Search for a shortest run of at most `depth` steps that violates each property.

    properties: the names to check, perhaps DEADLOCK; all if empty. timeout_s: for the whole search,
    in seconds; findings up to then are valid. keep_going: continue after the first violation. Like
    the explorer it takes one interpretation of the rigid symbols after the other. Raises SpecError
    or TooLargeError if the system has no ground form at these sizes.
    """
    began = monotonic()
    until = None if timeout_s is None else began + timeout_s
    worlds = list(interpretations(system, configuration.sizes, configuration))
    runs: list[_Run] = []
    for given in worlds:
        ground = Ground(system, configuration.sizes, configuration.faults, given)
        looked = _Run(ground, _wanted(ground, properties), until, keep_going=keep_going)
        looked.look(depth, lambda k: watcher(Unrolled(system.name, k, monotonic() - began)))
        runs.append(looked)
        if looked.stopped or (looked.violated and not keep_going):
            break
    located = len(worlds) > 1
    told = [tuple(looked.findings(located=located)) for looked in runs]
    return BoundedResult(
        system=system.name,
        depth=max(looked.depth for looked in runs),
        complete=len(runs) == len(worlds) and all(looked.complete for looked in runs),
        stopped=next((looked.stopped for looked in runs if looked.stopped), ""),
        seconds=monotonic() - began,
        findings=tuple(_worst(findings) for findings in zip(*told, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """The set of states to search for: the patterns of a question, or deadlocks (no question)."""

    name: str
    question: Question | None

    @property
    def bad(self) -> bool:
        return self.question is None or self.question.bad


def _wanted(ground: Ground, properties: Sequence[str]) -> tuple[_Target, ...]:
    targets = [_Target(question.name, question) for question in questions(ground)]
    targets.append(_Target(DEADLOCK, None))
    return tuple(t for t in targets if not properties or t.name in properties)


@dataclass
class _Run:
    """The search in one interpretation of the rigid symbols."""

    ground: Ground
    targets: tuple[_Target, ...]
    until: float | None
    keep_going: bool
    depth: int = 0
    complete: bool = False
    stopped: str = ""
    reached: dict[str, Reached] = field(default_factory=dict)

    @cached_property
    def asked(self) -> tuple[Question, ...]:
        return tuple(t.question for t in self.targets if t.question is not None)

    @cached_property
    def form(self) -> Program:
        return program(self.ground, self.asked)

    @property
    def violated(self) -> bool:
        return any(target.bad and target.name in self.reached for target in self.targets)

    def look(self, depth: int, watch: Callable[[int], None]) -> None:
        """Examine runs of 0, 1, ... steps, until all targets are found, no run is left, or time is
        up.
        """
        unrolling = Unrolling(self.ground, self.form)
        try:
            for k in range(depth + 1):
                if not unrolling.has_runs(self.until):
                    self.complete = True
                    return
                self._ask(unrolling)
                self.depth = k
                watch(k)
                if (self.violated and not self.keep_going) or not self._open():
                    return
                unrolling.extend()
        except TimeoutError:
            self.stopped = TIMED_OUT
        except KeyboardInterrupt:
            self.stopped = INTERRUPTED

    def _open(self) -> list[_Target]:
        return [target for target in self.targets if target.name not in self.reached]

    def _ask(self, unrolling: Unrolling) -> None:
        """Find every target that a run of this length reaches."""
        wanted = {target.name: unrolling.ends_in(target.question) for target in self._open()}
        while wanted:
            found = unrolling.reached(wanted, self.until)
            if found is None:
                return
            for name in found.names:
                self.reached[name] = found
                del wanted[name]

    def findings(self, *, located: bool) -> Iterator[Finding]:
        """The verdict on each target. located: name the topology of a trace."""
        narrator = Narrator(self.ground, self.asked)
        for target in self.targets:
            found = self.reached.get(target.name)
            trace = None
            instance = ""
            if found is not None:
                moves = run(found.start, found.rows)
                if target.question is None:
                    trace = narrator.deadlocked(moves)
                else:
                    trace, instance = narrator.showing(target.question, moves)
                if located:
                    instance = ", ".join(filter(None, (instance, placed(self.ground))))
            yield self._finding(target, trace, instance)

    def _finding(self, target: _Target, trace: Trace | None, instance: str) -> Finding:
        question = target.question
        verdict = Verdict.UNKNOWN
        if trace is not None:
            verdict = Verdict.VIOLATED if target.bad else Verdict.HOLDS
        elif self.complete:
            verdict = Verdict.HOLDS if target.bad else Verdict.VIOLATED
        return Finding(
            name=target.name,
            kind=PropertyKind.DEADLOCK if question is None else question.kind,
            claim="wherever nothing more can happen, the state is declared final"
            if question is None else question.claim,
            verdict=verdict,
            assurance=self._assurance(verdict, bad=target.bad),
            place=self.ground.system.place if question is None else question.place,
            trace=trace,
            instance=instance,
            note=question.why if question is not None and verdict is Verdict.VIOLATED else "",
        )

    def _assurance(self, verdict: Verdict, *, bad: bool) -> str:
        sizes = at_sizes(self.ground.sizes)
        match verdict:
            case Verdict.VIOLATED:
                return f"refuted for {sizes}"
            case Verdict.HOLDS if bad:
                return f"exhaustive for {sizes}: no run has over {self.depth} steps"
            case Verdict.HOLDS:
                return f"seen for {sizes}"
            case Verdict.UNKNOWN:
                return f"nothing within {self.depth} steps for {sizes}"


def _worst(findings: Sequence[Finding]) -> Finding:
    """One property over all interpretations: one violation decides, and so does one witness."""
    order = [Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS]
    if findings[0].kind is PropertyKind.SOMETIMES:
        order.reverse()
    return min(findings, key=lambda finding: order.index(finding.verdict))
