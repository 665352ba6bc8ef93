"""Claims about runs: each `leads_to`, and each refinement, judged on the graph of a search."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from pdproto.check.engine import StoppedError
from pdproto.check.explore import INTERRUPTED, Exploration, Reductions, explore
from pdproto.check.findings import VACUOUS, jointly
from pdproto.check.liveness import Lasso, Liveness, graph_for
from pdproto.check.narrative import Narrator
from pdproto.check.questions import (
    LeadsToInstance,
    Question,
    instance_text,
    leads_to_instances,
    questions,
)
from pdproto.check.refining import refinements
from pdproto.check.result import Finding, PropertyKind, Trace, Verdict
from pdproto.check.runs import NoRunError, run
from pdproto.check.settings import CheckSettings
from pdproto.check.words import assuming, claim_text
from pdproto.ground.grounding import Ground, Interpretation, ground_for
from pdproto.ground.layout import at_sizes
from pdproto.ground.program import Guard
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.system import Configuration, System


class RunClaims:
    """A system in one interpretation of its rigid symbols, with its claims about runs."""

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
            if isinstance(claim, LeadsTo | Refines) and settings.wants(claim.name)
        )
        self.stopped = ""  # why liveness is not decided, although the search was complete

    def _asked(self, ground: Ground) -> tuple[Question, ...]:
        """The questions to check, in the bits of this ground system."""
        return tuple(one for one in questions(ground) if self.settings.wants(one.name))

    def _ground(self, fairness: Fairness) -> Ground:
        return ground_for(self.system, self.configuration, self.given, fairness)

    def _watched(self, ground: Ground) -> tuple[Guard, ...]:
        watched: list[Guard] = []
        for claim in self.claims:
            if isinstance(claim, Refines):
                watched += (guard for one in refinements(ground, claim) for guard in one.watched)
                continue
            for obligation in leads_to_instances(ground, claim):
                watched += (*obligation.premise, *obligation.goal)
        return tuple(watched)

    def graph_findings(self, found: Exploration) -> Iterator[Finding]:
        """The verdict on each refinement, and on each `leads_to` under each of its assumptions."""
        by_claim: dict[str, list[Finding]] = {claim.name: [] for claim in self.claims}
        for variant in (Fairness.TIMERS, Fairness.NO_TIMERS, Fairness.CONSUMED):
            here = [
                (claim, under)
                for claim in self.claims
                if (under := [f for f in self._under(claim) if graph_for(f) is variant])
            ]
            for name, finding in self._findings_in(found, variant, here).items():
                by_claim[name].append(finding)
        for findings in by_claim.values():
            yield jointly(findings)

    def _under(self, claim: LeadsTo | Refines) -> tuple[Fairness, ...]:
        if isinstance(claim, Refines):
            return (Fairness.TIMERS,)  # whose graph has every step
        return self.settings.fairness or claim.under

    def _findings_in(
        self, found: Exploration, variant: Fairness,
        wanted: list[tuple[LeadsTo | Refines, list[Fairness]]],
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
                    judged[claim.name] = self._refines(search, claim) if isinstance(
                        claim, Refines) else self._leads_to(search, liveness, claim, under)
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

    def _undecided(self, claim: LeadsTo | Refines, under: Sequence[Fairness]) -> Finding:
        live = isinstance(claim, LeadsTo)
        return Finding(
            name=claim.name,
            kind=PropertyKind.LEADS_TO if live else PropertyKind.REFINES,
            claim=claim_text(claim),
            verdict=Verdict.UNKNOWN,
            assurance="not decided",
            place=claim.place,
            note=assuming(self.system, under) if live else "",
            under=tuple(under) if live else (),
        )

    def _refines(self, search: Exploration, claim: Refines) -> Finding:
        judged = [(one, *one.broken(search)) for one in refinements(search.ground, claim)]
        moves = any(moved for _, _, moved in judged)
        one, broken, _ = min(judged, key=lambda each: (each[1] is None, each[1] and len(
            each[1].rows)))
        verdict = Verdict.HOLDS if broken is None else Verdict.VIOLATED
        finding = replace(self._undecided(claim, ()), verdict=verdict,
                          assurance=self._assurance(search, verdict))
        if broken is None:
            return finding if moves else replace(
                finding, note=f"vacuous: it never moves {claim.abstract.name}")
        narrator = Narrator(search.ground, self._asked(search.ground))
        trace = narrator.unrefined(claim, one.over, run(broken.start, broken.rows))
        note = "; ".join(filter(None, (broken.told, claim.why)))
        return replace(finding, trace=trace, instance=instance_text(one.over), note=note)

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
        moves = run(lasso.start, lasso.rows)
        if search.program.sweeps and narrator.witness.never_reaches(
                obligation, fairness, moves, lasso.loop):
            exact = self._explore_again(graph_for(fairness), exact=True)
            try:
                if not exact.complete:
                    return None, f"; no run is drawn: {exact.stopped}"
                found = Liveness(exact).unfulfilled(obligation, (fairness,))
                if found is None:
                    raise NoRunError(f"no run violates {obligation.claim.name}, if {fairness}")
                lasso = found[0]
                moves = run(lasso.start, lasso.rows)
            finally:
                exact.engine.close()
        return narrator.unfulfilled(obligation, fairness, moves, lasso.loop), ""

    def _assurance(self, found: Exploration, verdict: Verdict) -> str:
        sizes = at_sizes(self.configuration.sizes)
        if verdict is Verdict.VIOLATED:
            return f"refuted for {sizes}"
        if found.complete:
            return f"exhaustive for {sizes}"
        if verdict is Verdict.HOLDS:
            return f"seen for {sizes}"
        return "not decided"


def _vacuity(liveness: Liveness, instances: Iterable[LeadsToInstance]) -> str:
    if any(liveness.is_ever_pending(obligation) for obligation in instances):
        return ""
    return f"; {VACUOUS}"
