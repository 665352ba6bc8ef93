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
from pdproto.check.findings import VACUOUS, jointly, located, merged
from pdproto.check.liveness import Lasso, Liveness
from pdproto.check.narrative import Narrator
from pdproto.check.questions import (
    DEADLOCK,
    LeadsToInstance,
    Question,
    leads_to_instances,
    questions,
)
from pdproto.check.result import CheckResult, Finding, PropertyKind, Trace, Verdict
from pdproto.check.rigid import interpretations
from pdproto.check.runs import NoRunError, Transition, replay, run, until_stuck
from pdproto.check.totals import Totals
from pdproto.check.words import assuming, formula_text
from pdproto.ground.grounding import Ground, Interpretation, ground_for
from pdproto.ground.program import Guard
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.system import Configuration, System


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
            findings = [located(finding, world.given) for finding in findings]
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

    def _to_deadlock(self, found: Exploration, first: int) -> tuple[list[Transition], str]:
        """A shortest run to a deadlock, and a note if it may be longer.

        first: the first state that is stuck up to dead bits.
        """
        moves = replay(self.ground, found.program, found.path(first))
        whole = until_stuck(self.ground, found.program, moves)
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
            yield jointly(findings)

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

    def _explore_again(self, variant: Fairness, *, exact: bool = False) -> Exploration:
        """The graph that liveness needs: without symmetry, with other timers or deliveries."""
        ground = self.ground if variant is Fairness.TIMERS else self._ground(variant)
        return explore(
            ground,
            reductions=Reductions(dead_bits=self.configuration.dead_bits, exact=exact),
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
            note=assuming(self.system, under),
            under=tuple(under),
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
                trace, note = self._lasso(search, obligation, lasso, fairness)
                return replace(
                    finding,
                    verdict=Verdict.VIOLATED,
                    assurance=self._assurance(search, Verdict.VIOLATED),
                    trace=trace,
                    instance=obligation.instance,
                    note=f"{assuming(self.system, (fairness,))}{note}",
                    under=(fairness,),
                )
        return replace(
            finding,
            verdict=Verdict.HOLDS,
            assurance=self._assurance(search, Verdict.HOLDS),
            note=finding.note + _vacuity(liveness, instances),
        )

    def _lasso(
        self, search: Exploration, obligation: LeadsToInstance, lasso: Lasso, fairness: Fairness
    ) -> tuple[Trace | None, str]:
        """The run that violates a `leads_to`, and a note if there is none to draw."""
        narrator = Narrator(search.ground, self._asked(search.ground))
        moves = run(search.program, lasso.rows)
        if search.program.sweeps and narrator.witness.never_reaches(
                obligation, fairness, moves, lasso.loop):
            exact = self._explore_again(_variant(fairness), exact=True)
            try:
                if not exact.complete:
                    return None, f"; no run is drawn: {exact.stopped}"
                found = Liveness(exact).unfulfilled(obligation, (fairness,))
                if found is None:
                    raise NoRunError(f"no run violates {obligation.claim.name}, if {fairness}")
                lasso = found[0]
                moves = run(exact.program, lasso.rows)
            finally:
                exact.engine.close()
        return narrator.unfulfilled(obligation, fairness, moves, lasso.loop), ""

    def _assurance(self, found: Exploration, verdict: Verdict) -> str:
        sizes = " ".join(f"{s.__name__}={n}" for s, n in self.configuration.sizes.items())
        if verdict is Verdict.VIOLATED:
            return f"refuted for {sizes}"
        if found.complete:
            return f"exhaustive for {sizes}"
        if verdict is Verdict.HOLDS:
            return f"seen for {sizes}"
        return "not decided"


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


def _stuck(count: int, found: Exploration) -> str:
    text = "1 state is stuck" if count == 1 else f"{count:,} states are stuck"
    return f"{text}, up to dead bits" if found.program.idle else text
