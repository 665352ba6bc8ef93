"""One check of one system: explore every interpretation, and give each property its verdict."""

from collections.abc import Iterator
from time import monotonic

from pdproto.check.explore import FIRST_VIOLATION, Exploration, Reductions, explore
from pdproto.check.findings import VACUOUS, located, merged
from pdproto.check.narrative import Narrator
from pdproto.check.over_runs import RunClaims
from pdproto.check.questions import DEADLOCK, Question
from pdproto.check.result import CheckResult, Finding, PropertyKind, Verdict
from pdproto.check.rigid import interpretations
from pdproto.check.runs import RealRun, replay, until_stuck
from pdproto.check.settings import CheckSettings
from pdproto.check.totals import Totals
from pdproto.spec.language.system import Configuration, System

__all__ = ["CheckSettings", "World", "check"]


def check(system: System, configuration: Configuration, settings: CheckSettings) -> CheckResult:
    """Explore the system and check its properties.

    Raises SpecError or TooLargeError if the system cannot be explored at these sizes.
    """
    began = monotonic()
    worlds = [
        World(system, configuration, settings, given)
        for given in interpretations(system, configuration.sizes, configuration)
    ]
    safety: list[list[Finding]] = []
    totals = Totals()
    for world in worlds:
        found = world.explore()
        findings = [*world.safety_findings(found), *world.graph_findings(found)]
        if len(worlds) > 1:
            findings = [located(finding, world.ground) for finding in findings]
        safety.append(findings)
        totals.add(found)
        totals.stopped = totals.stopped or world.stopped
        found.engine.close()
        if totals.stopped and totals.stopped != FIRST_VIOLATION:
            break
        if totals.stopped and not settings.keep_going:
            break
    return CheckResult(
        system=system.name,
        description=system.about,
        sizes={sort.__name__: size for sort, size in configuration.sizes.items()},
        faults=configuration.faults,
        states=totals.states,
        transitions=totals.transitions,
        depth=totals.depth,
        seconds=monotonic() - began,
        complete=not totals.stopped and len(safety) == len(worlds),
        stopped=totals.stopped,
        findings=tuple(merged(findings) for findings in zip(*safety, strict=True)),
        rows_fired=totals.fired(system),
        rows_never_fired=totals.never_fired(system),
        rows_hidden=totals.hidden(system),
        row_counts=totals.counts(system),
        deadlocks=totals.deadlocks,
        reductions=_reduction_names(configuration),
        memory_bytes=totals.bytes,
        row_places={row.name: row.place for _, row in system.rows()},
    )


def _reduction_names(configuration: Configuration) -> tuple[str, ...]:
    names = (("symmetry", configuration.symmetry), ("dead bits", configuration.dead_bits))
    return tuple(name for name, used in names if used)


class World(RunClaims):
    """The check of a system in one interpretation of its rigid symbols."""

    def explore(self) -> Exploration:
        """The search for the safety questions. Liveness uses it too if its graph is the same."""
        return self._explore()

    def _explore(self, *, exact: bool = False) -> Exploration:
        """exact: only for a shortest run to a deadlock."""
        chosen = self.configuration
        return explore(
            self.ground,
            () if exact else self.questions,
            reductions=Reductions(chosen.symmetry, chosen.dead_bits, exact),
            limits=self.settings.limits,
            watched=() if exact or chosen.symmetry else self._watched(self.ground),
            workers=self.settings.workers,
            keep_going=self.settings.keep_going and not exact,
            deadlocks_matter=exact or self.settings.wants(DEADLOCK),
            monitor=self.settings.monitor,
            what=self.system.name,
            choice=self.settings.engine,
        )

    def safety_findings(self, found: Exploration) -> Iterator[Finding]:
        """The verdict on each safety question and witness."""
        narrator = Narrator(self.ground, self.questions)
        for question in self.questions:
            yield self._finding(found, question, narrator)
        if self.settings.wants(DEADLOCK):
            yield self._deadlock(found, narrator)

    def _finding(
        self, found: Exploration, question: Question, narrator: Narrator
    ) -> Finding:
        hit = found.hit(question)
        verdict = _verdict(question, hit is not None, found.complete)
        note = ""
        if verdict is Verdict.HOLDS and question.bad and found.vacuous(question):
            note = VACUOUS
        trace, instance = None, ""
        if hit is not None:
            moves = replay(self.ground, found.program, found.path(hit))
            trace, instance = narrator.showing(question, moves)
        return Finding(
            name=question.name,
            kind=question.kind,
            claim=question.claim,
            verdict=verdict,
            assurance=self._assurance(found, verdict),
            place=question.place,
            trace=trace,
            instance=instance,
            note=note or question.why if verdict is Verdict.VIOLATED else note,
        )

    def _deadlock(self, found: Exploration, narrator: Narrator) -> Finding:
        count, first = found.engine.stuck
        verdict = Verdict.HOLDS if found.complete else Verdict.UNKNOWN
        trace, note = None, ""
        if first is not None:
            verdict = Verdict.VIOLATED
            moves, note = self._to_deadlock(found, first)
            trace = narrator.deadlocked(moves)
        return Finding(
            name=DEADLOCK,
            kind=PropertyKind.DEADLOCK,
            claim="wherever nothing more can happen, the state is declared final",
            verdict=verdict,
            assurance=self._assurance(found, verdict),
            place=self.system.place,
            trace=trace,
            note=_stuck(count, found) + note if count else "",
        )

    def _to_deadlock(self, found: Exploration, first: int) -> tuple[RealRun, str]:
        """A shortest run to a deadlock, and a note if it may be longer.

        first: the first state that is stuck up to dead bits.
        """
        moves = replay(self.ground, found.program, found.path(first))
        whole = until_stuck(self.ground, moves)
        if len(whole) == len(moves):
            return moves, ""
        exact = self._explore(exact=True)
        try:
            end = exact.engine.stuck[1]
            if end is None:
                return whole, f"; there may be a shorter run: {exact.stopped}"
            return replay(self.ground, exact.program, exact.path(end)), ""
        finally:
            exact.engine.close()


def _verdict(question: Question, hit: bool, complete: bool) -> Verdict:
    if hit:
        return Verdict.VIOLATED if question.bad else Verdict.HOLDS
    if not complete:
        return Verdict.UNKNOWN
    return Verdict.HOLDS if question.bad else Verdict.VIOLATED


def _stuck(count: int, found: Exploration) -> str:
    text = "1 state is stuck" if count == 1 else f"{count:,} states are stuck"
    return f"{text}, up to dead bits" if found.program.idle else text
