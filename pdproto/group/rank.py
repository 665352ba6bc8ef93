"""A rank's part in its group: it votes, and applies what is decided, in order.

Rule 1: the table of a rank decides (spec/handoff/group.py, RANK). Here its events are made, and
        what its steps ask for is said or handed on.
Rule 2: a decision that comes before its turn is kept, and comes again when its turn has come.
Rule 3: a call of the scheduler that has crossed a decision, or the end of a wait, is void: it knew
        of neither. A failure is not lost by that: it is one of the transfer, then.
Rule 4: a wait for a transfer ends when the engine has said that it touches nothing any more.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from pdproto.group.waits import Waits, rows_on_timers
from pdproto.node.metrics import Metrics
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.store import AnyMessage, Step
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.runtime.wire import (
    REASON_MAX,
    Admit,
    AnyDecision,
    AnyVote,
    Broke,
    Closed,
    Dead,
    Drop,
    Ended,
    Fail,
    Life,
    Ready,
    Release,
    Request,
)
from pdproto.spec.handoff import group as tables
from pdproto.spec.handoff import roles
from pdproto.spec.handoff.group import RANK, Stage, Verdict
from pdproto.spec.handoff.timers import WAITS

EARLY_MAX: Final = 4_096  # decisions kept before their turn; the entry repeats the others
TIMERS: Final = rows_on_timers(RANK)
VOTES: Final[Mapping[AnyMessage, type[AnyVote]]] = {
    tables.ready: Ready,
    tables.dead: Dead,
    tables.done: Ended,
    tables.broke: Broke,
    tables.closed: Closed,
}
VERDICTS: Final[Mapping[type[AnyDecision], Verdict]] = {
    Admit: Verdict.ADMIT,
    Fail: Verdict.FAIL,
    Release: Verdict.RELEASE,
    Drop: Verdict.DROP,
}
QUEUED: Final = (Stage.QUEUED, Stage.PREPARED, Stage.READY, Stage.FAILED)
IN_BATCH: Final = (Stage.RUNNING, Stage.DONE, Stage.BROKEN)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request has reached this rank. payload: what the entry was given with it."""

    life: Life
    payload: bytes


@dataclass(frozen=True, slots=True)
class Decision:
    """What this rank does next, as all ranks of the group do.

    slot: of an admitted request. transfers: False where this rank has failed after its ready vote:
    it runs the request's forward with the others, sends or receives nothing, and reports nothing.
    arrived: False where the request has failed before it reached this rank, and never will.
    reason: why a request fails, or is thrown away.
    """

    number: int
    verdict: Verdict
    life: Life
    slot: int | None = None
    transfers: bool = True
    arrived: bool = True
    reason: str = ""


@dataclass(slots=True, eq=False)
class Known:
    """What a rank keeps of a request beside the table. decided: decisions that it has applied."""

    stage: Stage = Stage.ABSENT
    reason: str = ""
    decided: int = 0
    timed_out: bool = False


class RankPart:
    """See the rules above. say: to the entry. stop: see `Group`."""

    def __init__(
        self,
        me: int,
        ranks: Collection[int],
        *,
        say: Callable[[AnyVote], None],
        stop: Callable[[Life], bool],
        waits: Waits,
        metrics: Metrics,
        trace: SharedTrace | None = None,
    ) -> None:
        self.decisions: Final[deque[Decision]] = deque()
        self.arrivals: Final[deque[Arrival]] = deque()
        self._me: Final = me
        self._say: Final = say
        self._stop: Final = stop
        self._waits: Final = waits
        self._metrics: Final = metrics
        self._machine: Final = shared(RANK, (me,), {tables.Rank: ranks}, trace=trace)
        self._known: Final[dict[Life, Known]] = {}
        self._lives: Final[dict[int, Life]] = {}  # those of _known, by generation
        self._early: Final[dict[int, AnyDecision]] = {}
        self._stopping: Final[dict[Life, None]] = {}
        self._stages: Final[dict[Stage, int]] = dict.fromkeys(Stage, 0)
        self._floor = 0
        self._ended = False
        self._describe()

    # What the entry says

    def arrive(self, frame: Request, now: float) -> None:
        """A request, or its repetition."""
        if not self._forgotten(frame.life):
            step = self._take(frame)
            if step.changed:
                self.arrivals.append(Arrival(frame.life, frame.payload))
            self._follow(frame.life, step, now)

    def decide(self, frame: AnyDecision, now: float) -> None:
        """A decision, and those that have waited for it. Raises RemoteProtocolError."""
        following: AnyDecision | None = frame
        while following is not None and not self._forgotten(following.life):
            following = self._apply(following, now)

    def _apply(self, frame: AnyDecision, now: float) -> AnyDecision | None:
        """Returns the decision whose turn has come by this one, if it has arrived already."""
        known = self._known.get(frame.life)
        step = self._take(frame)
        applied = any(symbol is tables.applied for symbol, _, _ in step.changed)
        if applied:
            self._meet(frame.life).decided += 1
        self._follow(frame.life, step, now)
        if applied:
            self.decisions.append(self._decision(frame, arrived=known is not None))
            return self._early.pop(frame.number + 1, None)
        done = self._machine.value(tables.applied, self._me, frame.number)
        if not done and not self._ended and len(self._early) < EARLY_MAX:
            self._early[frame.number] = frame
        return None

    def _take(self, frame: Request | AnyDecision) -> Step:
        other = self._lives.get(frame.life.generation, frame.life)
        if other != frame.life:
            raise RemoteProtocolError(f"{frame.life} has the generation of {other}")
        arguments: tuple[Hashable, ...] = self._me, frame.life
        if not isinstance(frame, Request):
            slot = (frame.slot,) if isinstance(frame, Admit) else ()
            arguments = self._me, frame.number, frame.life, *slot
        step = self._machine.receive(frame.message, *arguments)
        if step.kind == "reject":
            raise RemoteProtocolError(f"{frame.message} about {frame.life}: row {step.row}")
        return step

    def _decision(self, frame: AnyDecision, *, arrived: bool) -> Decision:
        broken = self._known[frame.life].stage is Stage.BROKEN
        return Decision(
            frame.number,
            VERDICTS[type(frame)],
            frame.life,
            slot=frame.slot if isinstance(frame, Admit) else None,
            transfers=not broken,
            arrived=arrived,
            reason=frame.reason if isinstance(frame, Fail | Drop) else "",
        )

    def raise_floor(self, floor: int) -> None:
        """The entry says nothing more of lives below this generation: all ranks have closed them.

        Raises RemoteProtocolError if one of them is open here.
        """
        if floor <= self._floor:
            return
        few = floor - self._floor < len(self._lives)
        below = range(self._floor, floor) if few else [g for g in self._lives if g < floor]
        for life in [self._lives[generation] for generation in below if generation in self._lives]:
            try:
                self._machine.forget(roles.Life, life)
            except LocalProtocolError as error:
                raise RemoteProtocolError(f"{life} is not over here: {error}") from error
            del self._known[life], self._lives[life.generation]
        self._floor = floor

    # What the scheduler says

    def call(self, name: str, life: Life, reason: str, seen: int, now: float) -> None:
        """seen: how many decisions about the request the scheduler had taken when it called.

        Raises LocalProtocolError for a call that the table has no row for, by no fault of time.
        """
        known = self._known.get(life)
        if known is not None and not known.reason:
            known.reason = reason[:REASON_MAX]
        try:
            step = self._machine.call(name, life)
        except LocalProtocolError:
            if not self._has_crossed(life, known, seen):
                raise
            if name == "failed" and known is not None and known.stage is Stage.RUNNING:
                self.call("transfer_failed", life, reason, seen, now)
            return
        self._follow(life, step, now)

    def _has_crossed(self, life: Life, known: Known | None, seen: int) -> bool:
        if self._ended or self._forgotten(life):
            return True
        return known is not None and (known.timed_out or known.decided > seen)

    # What the clock and the detector say

    def serve(self, now: float) -> None:
        """Let the waits end that are due."""
        for name, life in self._waits.due(now):
            if name == "transfer_timeout":
                self._stopping[life] = None
            else:
                self._time_out(name, life, now)
        for life in list(self._stopping):
            if not self._machine.enabled("cut_off", h=life):
                del self._stopping[life]
            elif self._stop(life):
                del self._stopping[life]
                self._time_out("transfer_timeout", life, now)

    def _time_out(self, name: str, life: Life, now: float) -> None:
        known = self._known[life]
        if not WAITS[name].again:
            known.timed_out = True
            known.reason = known.reason or f"{name} after {self._waits.seconds[name]:g} s"
        for row in TIMERS[name]:
            step = self._machine.fire(row.name, h=life)
            if step is not None:
                self._follow(life, step, now)
        self._arm(life, now)

    @property
    def next(self) -> float | None:
        return self._waits.next()

    def lose(self, rank: int) -> None:
        """Another rank of the group is gone, and with it the group (rule 8 of the tables)."""
        self._machine.receive(tables.gone, rank, self._me)
        self._ended = True
        for life in self._known:
            self._waits.follow(life, (), 0.0)
        for keeping in (self._known, self._lives, self._early, self._stopping):
            keeping.clear()
        self._stages.update(dict.fromkeys(Stage, 0))

    # What follows

    def _follow(self, life: Life, step: Step, now: float) -> None:
        """Say what the step sends, and count where the request stands."""
        entered = [value for _, _, value in step.changed if isinstance(value, Stage)]
        for stage in entered:
            self._enter(life, stage)
        for message, _ in step.sent:
            kind = VOTES[message]
            reason = self._known[life].reason if kind in (Dead, Broke) else ""
            self._say(kind(life, reason))
        if entered:
            self._arm(life, now, further=True)

    def _enter(self, life: Life, stage: Stage) -> None:
        known = self._meet(life)
        if stage is Stage.FAILED:
            self._metrics.add("bootstrap_failed_reqs")
        elif stage is Stage.BROKEN and known.stage is Stage.RUNNING:
            self._metrics.add("transfer_failed_reqs")
        self._stages[known.stage] -= 1
        self._stages[stage] += 1
        known.stage = stage

    def _meet(self, life: Life) -> Known:
        """What is kept of the request. The entry gives each life a generation of its own."""
        self._lives[life.generation] = life
        return self._known.setdefault(life, Known())

    def _arm(self, life: Life, now: float, *, further: bool = False) -> None:
        enabled = self._machine.enabled
        names = [name for name, rows in TIMERS.items()
                 if any(enabled(row.name, h=life) for row in rows)]
        self._waits.follow(life, names, now, further=further)

    def _forgotten(self, life: Life) -> bool:
        if life.generation < self._floor:
            self._metrics.add("stale_frames")
            return True
        return False

    def _describe(self) -> None:
        for name, about, stages in (
            ("num_group_bootstrap_queue_reqs", "Requests that wait for the group here", QUEUED),
            ("num_group_inflight_queue_reqs", "Requests that are admitted here", IN_BATCH),
        ):
            self._metrics.gauge(name, about, self._counting(stages))
        self._metrics.gauge("num_group_undelivered_decisions",
                            "Decisions that the scheduler has not taken yet",
                            lambda: len(self.decisions))
        self._metrics.gauge("num_group_remembered_lives",
                            "Requests that the entry may still speak of",
                            lambda: len(self._known))

    def _counting(self, stages: tuple[Stage, ...]) -> Callable[[], int]:
        return lambda: sum(self._stages[stage] for stage in stages)

    def __repr__(self) -> str:
        return repr(self._machine)
