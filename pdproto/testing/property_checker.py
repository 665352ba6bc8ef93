"""The properties of a spec, checked in one run; the explorer checks the same in all states.

Safety is checked in every state. For liveness, the run is extended: there are no more faults, and
all fair rows fire in turn until the run ends or repeats itself. Such a run is fair, so it must
satisfy every liveness property (check/liveness.py defines fairness).

The plain interpreter replays a run that violates a property before it is shown (check/witness.py).
If the run does not show it there, that is a defect of this package: NoRunError says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from typing import Final

from rich.console import Console

from pdproto.check.liveness import Unit, is_fair, unit_of
from pdproto.check.narrative import Narrator
from pdproto.check.questions import (
    DEADLOCK,
    LeadsToInstance,
    Question,
    final_guards,
    instance_text,
    leads_to_instances,
    questions,
)
from pdproto.check.refining import refinements
from pdproto.check.report.terminal import render_trace
from pdproto.check.result import Finding, PropertyKind, Verdict
from pdproto.check.runs import NoRunError, RealRun, Transition
from pdproto.check.unjudged import ONE_RUN
from pdproto.check.words import assuming, claim_text
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.spec.language.machine import Timer
from pdproto.spec.language.properties import Always, Fairness, LeadsTo, OnRow, Property
from pdproto.spec.language.refines import Refines
from pdproto.testing.cluster import Cluster

ROUNDS_MAX: Final = 1_000  # of fair rows; no run of our systems needs so many
GOOD_MAX: Final = 1 << 16  # states kept as already checked
PICTURE_WIDTH: Final = 100


class ViolationError(AssertionError):
    """A run violates a property.

    finding: the property, with the run as its trace. blob: the argument of `Fuzzer.replay`, if a
    Hypothesis machine found the run; else empty.
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(trace_text(finding))
        self.finding: Final = finding
        self.blob = ""


def why_unjudged(name: str, claim: Property | None, fairness: Fairness) -> str:
    """Why a run under this assumption does not judge the property; empty if it does.

    claim: None if it is derived from declarations. A mapping may read messages on the network, and
    CONSUMED takes them off. A run is looked at for a deadlock where every timer fires.
    """
    match claim:
        case None if name != DEADLOCK or fairness is Fairness.TIMERS:
            return ""
        case Always() | OnRow():
            return ""
        case LeadsTo() if fairness in claim.under:
            return ""
        case Refines() if fairness is not Fairness.CONSUMED:
            return ""
        case None | LeadsTo() | Refines():
            return "no run was made under an assumption that it needs"
    return ONE_RUN


def trace_text(finding: Finding) -> str:
    """The finding as text, as the checker prints it."""
    page = StringIO()
    render_trace(finding, Console(file=page, width=PICTURE_WIDTH, color_system=None))
    return "\n" + page.getvalue()


@dataclass(slots=True)
class PendingObligation:
    """Whether a leads-to property is pending at this point of a run."""

    obligation: LeadsToInstance
    pending: bool = False

    def observe(self, state: int) -> None:
        """Take the next state of the run."""
        if any(guard.holds(state) for guard in self.obligation.goal):
            self.pending = False
        elif any(guard.holds(state) for guard in self.obligation.premise):
            self.pending = True


class PropertyChecker:
    """Checks the properties of one ground system. properties: names to check; all if empty."""

    def __init__(self, ground: Ground, properties: frozenset[str] = frozenset()) -> None:
        self.ground: Final = ground
        every = tuple(questions(ground))
        self.questions: Final = tuple(
            q for q in every if q.bad and (not properties or q.name in properties))
        self._patterns: Final = [
            (pattern.guard, question)
            for question in self.questions for pattern in question.patterns
        ]
        self._narrator: Final = Narrator(ground, every)
        self._final: Final = final_guards(ground)
        self._deadlock: Final = not properties or DEADLOCK in properties
        self._obligations: Final = [
            obligation for claim in ground.system.properties
            if isinstance(claim, LeadsTo) and (not properties or claim.name in properties)
            for obligation in leads_to_instances(ground, claim)
        ]
        self._good: Final[set[int]] = set()
        self._refinements: Final = [] if ground.consume else [
            one for one in refinements(ground)
            if not properties or one.claim.name in properties]
        self._steps: Final[set[tuple[int, int]]] = set()

    def assumptions(self) -> tuple[Fairness, ...]:
        """The fairness assumptions of the liveness properties."""
        under = dict.fromkeys(f for obligation in self._obligations for f in obligation.claim.under)
        return tuple(under) or (Fairness.TIMERS,)

    def check_state(self, cluster: Cluster) -> None:
        """Check every safety property in the present state. Raises ViolationError."""
        self._check_steps(cluster.moves)
        state = cluster.history
        if state in self._good:
            return
        for guard, question in self._patterns:
            if guard.holds(state):
                self._refute(question, cluster.moves)
        if len(self._good) >= GOOD_MAX:
            self._good.clear()
        self._good.add(state)

    def _check_steps(self, moves: RealRun) -> None:
        """Check each refinement in the last step that was taken, and at the start."""
        if not self._refinements:
            return
        before, after = (moves[-1].before if moves else moves.start), moves.end
        if (before, after) in self._steps:
            return
        for one in self._refinements:
            images = one.image(before), one.image(after)
            wrong = one.starts(images[0]) if not moves else (
                "" if one.allows(*images) else one.told(*images))
            if wrong:
                claim = one.claim
                raise ViolationError(Finding(
                    claim.name, PropertyKind.REFINES, claim_text(claim), Verdict.VIOLATED,
                    "met by a run", claim.place, note=wrong,
                    instance=instance_text(one.over),
                    trace=self._narrator.unrefined(claim, one.over, moves)))
        if len(self._steps) >= GOOD_MAX:
            self._steps.clear()
        self._steps.add((before, after))

    def settle(
        self, cluster: Cluster, fairness: Fairness, fire: Callable[[GroundRow], None]
    ) -> None:
        """Let fair rows fire until the run ends or repeats itself, and check liveness properties.

        The loop is fair also to strong rows. Whenever some can fire, the one does that has fired
        least recently; and the run repeats itself only where this order is the same again. So one
        that can fire in the loop has fired there: otherwise those before it would not be again.

        fire: lets a row fire in the cluster. Raises ViolationError, and AssertionError if the run
        goes on after ROUNDS_MAX rounds.
        """
        fair = [row for row in self.ground.rows if is_fair(row, fairness)]
        strong: dict[Unit, list[GroundRow]] = {}  # the least recent first
        for row in fair:
            if row.row.is_strong:
                strong.setdefault(unit_of(row), []).append(row)
        seen: dict[tuple[int, tuple[Unit, ...]], int] = {}
        for _ in range(ROUNDS_MAX):
            cluster.hear_all()
            now = cluster.state, tuple(strong)
            if now in seen:
                break
            seen[now] = len(cluster.moves)
            self._round(cluster, fair, strong, fire)
        else:
            raise AssertionError(f"the run neither ends nor repeats after {ROUNDS_MAX:,} rounds")
        begin = seen[now]
        for pending in self._pending(fairness):
            if _unfulfilled(pending, cluster.moves, begin):
                loop = begin if begin < len(cluster.moves) else None
                raise ViolationError(
                    self._broken(pending.obligation, fairness, cluster.moves, loop)
                )
        if self._deadlock and not why_unjudged(DEADLOCK, None, fairness):
            self._look_for_deadlock(cluster)

    def _round(
        self, cluster: Cluster, fair: list[GroundRow], strong: dict[Unit, list[GroundRow]],
        fire: Callable[[GroundRow], None],
    ) -> None:
        """Each fair row fires if it can; after each, the strong ones that have not in this round.
        """
        due = {*strong}

        def goes_on(row: GroundRow) -> bool:
            return cluster.can(row) and row.action.apply(cluster.state) != cluster.state

        for row in fair:
            first = row if goes_on(row) else None
            while first is not None:
                fire(first)
                cluster.hear_all()
                self.check_state(cluster)
                unit = unit_of(first)
                due.discard(unit)
                if unit in strong:
                    strong[unit] = strong.pop(unit)  # now it is the most recent
                first = next((one for unit, cases in strong.items() if unit in due
                              for one in cases if goes_on(one)), None)

    def _pending(self, fairness: Fairness) -> Iterator[PendingObligation]:
        return (
            PendingObligation(obligation)
            for obligation in self._obligations
            if not why_unjudged(obligation.claim.name, obligation.claim, fairness)
        )

    def _look_for_deadlock(self, cluster: Cluster) -> None:
        state = cluster.state
        if any(guard.holds(state) for guard in self._final):
            return
        for row in self.ground.rows:
            if not row.layer and row.action.guard.holds(state) and (
                    row.action.apply(state) != state):
                return
        place = self.ground.system.place
        claim = "wherever nothing more can happen, the state is declared final"
        raise ViolationError(Finding(
            DEADLOCK, PropertyKind.DEADLOCK, claim, Verdict.VIOLATED, "met by a run", place,
            trace=self._narrator.deadlocked(cluster.moves)))

    def _refute(self, question: Question, moves: RealRun) -> None:
        """Raise ViolationError for the run.

        Safety is claimed where delivery leaves a message on the network. A run under
        Fairness.CONSUMED violates it only if it is also one there.
        """
        try:
            trace, instance = self._narrator_of_safety.showing(question, self._lasting(moves))
        except NoRunError:
            if self.ground.consume:
                return
            raise
        raise ViolationError(Finding(
            question.name, question.kind, question.claim, Verdict.VIOLATED, "met by a run",
            question.place, trace=trace, instance=instance, note=question.why))

    @cached_property
    def _narrator_of_safety(self) -> Narrator:
        ground = self.ground
        if not ground.consume:
            return self._narrator
        lasting = Ground(ground.system, ground.sizes, ground.faults, ground.given)
        return Narrator(lasting, tuple(questions(lasting)))

    def _lasting(self, moves: RealRun) -> RealRun:
        """The run where delivery leaves messages on the network. Raises NoRunError."""
        if not self.ground.consume:
            return moves
        wanted = [(id(move.row.row), move.row.environment) for move in moves]
        by_row: dict[int, list[GroundRow]] = {}
        for row in self._narrator_of_safety.ground.rows:
            by_row.setdefault(id(row.row), []).append(row)
        lasting = RealRun(0)
        for name, environment in wanted:
            fired = next((row for row in by_row.get(name, ()) if row.environment == environment
                          and row.action.guard.holds(lasting.end)), None)
            if fired is None:
                raise NoRunError("it is no run where messages stay")
            lasting.append(Transition(fired, lasting.end, fired.action.apply(lasting.end)))
        return lasting

    def _broken(
        self,
        obligation: LeadsToInstance,
        fairness: Fairness,
        moves: RealRun,
        loop: int | None,
    ) -> Finding:
        claim = obligation.claim
        return Finding(
            claim.name, PropertyKind.LEADS_TO,
            claim_text(claim),
            Verdict.VIOLATED, "met by a run", claim.place, instance=obligation.instance,
            trace=self._narrator.unfulfilled(obligation, fairness, moves, loop),
            note=assuming(self.ground.system, (fairness,)), under=(fairness,))

    def diverged(self, moves: RealRun, why: str) -> Finding:
        """The finding for a run after which an implementation differed from the tables."""
        return Finding(
            "conforms", PropertyKind.ALWAYS, "every step follows the tables", Verdict.VIOLATED,
            "met by a run", self.ground.system.place, trace=self._narrator.trace(moves), note=why)


def is_safety_net(row: GroundRow) -> bool:
    """Whether the row is on a clock that is not a detector."""
    return isinstance(row.row.on, Timer) and not row.row.on.detector


def _unfulfilled(pending: PendingObligation, moves: RealRun, begin: int) -> bool:
    """Whether the property is pending in the loop, and its goal is never reached there.

    begin: the number of moves before the loop. A loop without moves is the last state for ever.
    """
    states = [moves.start, *(move.after for move in moves)]
    for state in states:
        pending.observe(state)
    kept = any(guard.holds(state) for state in states[begin:] for guard in pending.obligation.goal)
    return pending.pending and not kept
