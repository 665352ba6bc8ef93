"""One check of one system: explore every interpretation, and give each property its verdict."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from pdproto.check.engine import StoppedError
from pdproto.check.explore import (
    FIRST_VIOLATION,
    INTERRUPTED,
    NATIVE,
    NO_LIMITS,
    EngineChoice,
    Exploration,
    Monitor,
    Reductions,
    SearchLimits,
    explore,
    silent,
)
from pdproto.check.liveness import Liveness
from pdproto.check.narrative import Narrator, replay, run
from pdproto.check.questions import (
    DEADLOCK,
    LeadsToInstance,
    Question,
    leads_to_instances,
    questions,
)
from pdproto.check.result import CheckResult, Finding, PropertyKind, Verdict
from pdproto.check.rigid import interpretations
from pdproto.check.totals import Totals
from pdproto.check.words import formula_text
from pdproto.ground.grounding import Ground, Interpretation, ground_for
from pdproto.ground.layout import cell_name
from pdproto.ground.program import Guard
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.system import Configuration, System

VACUOUS: Final = "vacuous: its premise never holds"


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How to check.

    properties: the names to check; all if empty. workers: threads. keep_going: continue after a
    violation. fairness: the assumptions for liveness; if empty, each property's own. monitor: is
    called with the progress of each search. engine: of all searches.
    """

    properties: tuple[str, ...] = ()
    limits: SearchLimits = NO_LIMITS
    workers: int = 1
    keep_going: bool = False
    fairness: tuple[Fairness, ...] = ()
    monitor: Monitor = silent
    engine: EngineChoice = NATIVE

    def wants(self, name: str) -> bool:
        """Whether the property of this name is to be checked."""
        return not self.properties or name in self.properties


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
        findings = [*world.safety_findings(found), *world.liveness_findings(found)]
        if len(worlds) > 1:
            findings = [_located(finding, world.given) for finding in findings]
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
        findings=tuple(_merged(findings) for findings in zip(*safety, strict=True)),
        rows_fired=totals.fired(system),
        rows_never_fired=totals.never_fired(system),
        row_counts=totals.counts(system),
        deadlocks=totals.deadlocks,
        reductions=_reduction_names(configuration),
        memory_bytes=totals.bytes,
        row_places={row.name: row.place for _, row in system.rows()},
    )


def _reduction_names(configuration: Configuration) -> tuple[str, ...]:
    names = (("symmetry", configuration.symmetry), ("dead bits", configuration.dead_bits))
    return tuple(name for name, used in names if used)


def _merged(findings: Sequence[Finding]) -> Finding:
    """One property over all interpretations: one violation decides, and so does one witness. Its
    trace is the shortest of all.
    """
    if findings[0].kind is PropertyKind.SOMETIMES:
        order = (Verdict.HOLDS, Verdict.UNKNOWN, Verdict.VIOLATED)
    else:
        order = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS)
    # A property is vacuous only if it is vacuous in every topology.
    return min(findings, key=lambda f: (
        order.index(f.verdict), f.trace_length or 0, VACUOUS in f.note))


class World:
    """The check of a system in one interpretation of its rigid symbols."""

    def __init__(
        self,
        system: System,
        configuration: Configuration,
        settings: CheckSettings,
        given: Interpretation,
    ) -> None:
        self.system: Final = system
        self.configuration: Final = configuration
        self.settings: Final = settings
        self.given: Final = given
        self.ground: Final = self._ground(Fairness.TIMERS)
        self.questions: Final = self._asked(self.ground)
        self.claims: Final = tuple(
            claim
            for claim in system.properties
            if isinstance(claim, LeadsTo) and settings.wants(claim.name)
        )
        self.stopped = ""  # why liveness is not decided, although the search was complete

    def _asked(self, ground: Ground) -> tuple[Question, ...]:
        """The questions to check, in the bits of this ground system."""
        return tuple(one for one in questions(ground) if self.settings.wants(one.name))

    def _ground(self, fairness: Fairness) -> Ground:
        return ground_for(self.system, self.configuration, self.given, fairness)

    def explore(self) -> Exploration:
        """The search for the safety questions. Liveness uses it too if its graph is the same."""
        return explore(
            self.ground,
            self.questions,
            reductions=Reductions(self.configuration.symmetry, self.configuration.dead_bits),
            limits=self.settings.limits,
            watched=() if self.configuration.symmetry else self._watched(self.ground),
            workers=self.settings.workers,
            keep_going=self.settings.keep_going,
            deadlocks_matter=self.settings.wants(DEADLOCK),
            monitor=self.settings.monitor,
            what=self.system.name,
            choice=self.settings.engine,
        )

    def _watched(self, ground: Ground) -> tuple[Guard, ...]:
        return tuple(
            guard
            for claim in self.claims
            for obligation in leads_to_instances(ground, claim)
            for guard in (*obligation.premise, *obligation.goal)
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
        trace = None
        if hit is not None:
            moves = replay(self.ground, found.program, found.path(hit[1]))
            trace = narrator.trace(moves)
        return Finding(
            name=question.name,
            kind=question.kind,
            claim=question.claim,
            verdict=verdict,
            assurance=self._assurance(found, verdict),
            place=question.place,
            trace=trace,
            instance="" if hit is None else hit[0].instance,
            note=note or question.why if verdict is Verdict.VIOLATED else note,
        )

    def _deadlock(self, found: Exploration, narrator: Narrator) -> Finding:
        count, first = found.engine.stuck
        verdict = Verdict.HOLDS if found.complete else Verdict.UNKNOWN
        trace = None
        if first is not None:
            verdict = Verdict.VIOLATED
            moves = replay(self.ground, found.program, found.path(first))
            trace = narrator.trace(moves, blocked=True)
        return Finding(
            name=DEADLOCK,
            kind=PropertyKind.DEADLOCK,
            claim="wherever nothing more can happen, the state is declared final",
            verdict=verdict,
            assurance=self._assurance(found, verdict),
            place=self.system.place,
            trace=trace,
            note=_stuck(count) if count else "",
        )

    def liveness_findings(self, found: Exploration) -> Iterator[Finding]:
        """The verdict on each `leads_to`, under each of its assumptions of fairness."""
        by_claim: dict[str, list[Finding]] = {claim.name: [] for claim in self.claims}
        for variant in (Fairness.TIMERS, Fairness.NO_TIMERS, Fairness.CONSUMED):
            here = [
                (claim, under)
                for claim in self.claims
                if (under := [f for f in self._under(claim) if _variant(f) is variant])
            ]
            for name, finding in self._liveness_in(found, variant, here).items():
                by_claim[name].append(finding)
        for findings in by_claim.values():
            yield _jointly(findings)

    def _under(self, claim: LeadsTo) -> tuple[Fairness, ...]:
        return self.settings.fairness or claim.under

    def _liveness_in(
        self, found: Exploration, variant: Fairness, wanted: list[tuple[LeadsTo, list[Fairness]]]
    ) -> dict[str, Finding]:
        """The verdicts on one graph, by claim. After Ctrl-C, later claims stay undecided."""
        judged = {claim.name: self._undecided(claim, under) for claim, under in wanted}
        if not wanted or not found.complete or self.stopped:
            return judged
        shared = variant is Fairness.TIMERS and not self.configuration.symmetry
        search = None
        try:
            search = found if shared else self._explore_again(variant)
            self.stopped = search.stopped or self.settings.limits.forbid(search.liveness_bytes)
            if not self.stopped:
                liveness = Liveness(search)
                for claim, under in wanted:
                    judged[claim.name] = self._leads_to(search, liveness, claim, under)
        except KeyboardInterrupt:
            self.stopped = INTERRUPTED
        except MemoryError:
            self.stopped = f"memory ran out while liveness was checked, if {variant}"
        except StoppedError as error:
            self.stopped = f"{error}, while liveness was checked, if {variant}"
        finally:
            if search is not None and search is not found:
                search.engine.close()
        return judged

    def _explore_again(self, variant: Fairness) -> Exploration:
        """The graph that liveness needs: without symmetry, with other timers or deliveries."""
        ground = self.ground if variant is Fairness.TIMERS else self._ground(variant)
        return explore(
            ground,
            reductions=Reductions(dead_bits=self.configuration.dead_bits),
            limits=self.settings.limits,
            watched=self._watched(ground),
            workers=self.settings.workers,
            keep_going=True,
            monitor=self.settings.monitor,
            what=f"{self.system.name}, {variant}",
            choice=self.settings.engine,
        )

    def _undecided(self, claim: LeadsTo, under: Sequence[Fairness]) -> Finding:
        return Finding(
            name=claim.name,
            kind=PropertyKind.LEADS_TO,
            claim=f"{formula_text(claim.premise)} leads to {formula_text(claim.goal)}",
            verdict=Verdict.UNKNOWN,
            assurance="not decided",
            place=claim.place,
            note="; ".join(f"if {fairness}" for fairness in under),
        )

    def _leads_to(
        self, search: Exploration, liveness: Liveness, claim: LeadsTo, under: Sequence[Fairness]
    ) -> Finding:
        finding = self._undecided(claim, under)
        instances = list(leads_to_instances(search.ground, claim))
        for obligation in instances:
            found = liveness.unfulfilled(obligation, under)
            if found is not None:
                lasso, fairness = found
                narrator = Narrator(search.ground, self._asked(search.ground))
                moves = run(search.program, lasso.rows)
                return replace(
                    finding,
                    verdict=Verdict.VIOLATED,
                    assurance=self._assurance(search, Verdict.VIOLATED),
                    trace=narrator.trace(moves, loop=lasso.loop, blocked=lasso.loop is None),
                    instance=obligation.instance,
                    note=f"if {fairness}",
                )
        return replace(
            finding,
            verdict=Verdict.HOLDS,
            assurance=self._assurance(search, Verdict.HOLDS),
            note=finding.note + _vacuity(liveness, instances),
        )

    def _assurance(self, found: Exploration, verdict: Verdict) -> str:
        sizes = " ".join(f"{s.__name__}={n}" for s, n in self.configuration.sizes.items())
        if verdict is Verdict.VIOLATED:
            return f"refuted for {sizes}"
        if found.complete:
            return f"exhaustive for {sizes}"
        if verdict is Verdict.HOLDS:
            return f"seen for {sizes}"
        return "not decided"


def _jointly(findings: Sequence[Finding]) -> Finding:
    """One property under several assumptions: the worst verdict, and its assumptions."""
    order = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS)
    worst = min(findings, key=lambda finding: order.index(finding.verdict))
    if worst.verdict is Verdict.VIOLATED:
        return worst
    return replace(worst, note="; ".join(finding.note for finding in findings))


def _variant(fairness: Fairness) -> Fairness:
    """The assumption whose graph is used to check this assumption."""
    return Fairness.TIMERS if fairness is Fairness.DETECTORS else fairness


def _vacuity(liveness: Liveness, instances: Iterable[LeadsToInstance]) -> str:
    if any(liveness.is_ever_pending(obligation) for obligation in instances):
        return ""
    return f"; {VACUOUS}"


def _verdict(question: Question, hit: bool, complete: bool) -> Verdict:
    if hit:
        return Verdict.VIOLATED if question.bad else Verdict.HOLDS
    if not complete:
        return Verdict.UNKNOWN
    return Verdict.HOLDS if question.bad else Verdict.VIOLATED


def _stuck(count: int) -> str:
    return "1 state is stuck" if count == 1 else f"{count:,} states are stuck"


def _located(finding: Finding, given: Interpretation) -> Finding:
    """The finding, with the topology of its trace."""
    if finding.trace is None:
        return finding
    where = f"where {topology(given)}" if any(given.values()) else "where nothing is related"
    return replace(finding, instance=", ".join(filter(None, (finding.instance, where))))


def topology(given: Interpretation) -> str:
    """The text of an interpretation: "next(n0, n1), next(n1, n0)"."""
    return ", ".join(
        cell_name(symbol, indices)
        for symbol, tuples in given.items()
        for indices in sorted(tuples)
    )

