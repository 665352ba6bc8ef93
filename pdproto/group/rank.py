"""A rank of a group: it votes, and applies decisions in order.

Rule 1: the table of a rank decides (spec/handoff/group.py, RANK). This module makes its events, and
        carries out the effects of its steps.
Rule 2: a decision that comes too early is kept, and applied when its turn has come.
Rule 3: a call of the scheduler is ignored if it was made before the scheduler knew of a decision or
        of the end of a wait. But a failure is not lost: it then fails the transfer.
Rule 4: a wait for a transfer ends only when the engine has stopped reading and writing.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Final

from pdproto.group.members import Members
from pdproto.node.metrics import Metrics
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
from pdproto.node.timers import Waits, rows_on_timers
from pdproto.runtime import checked
from pdproto.runtime.candidates import rows_by_value
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.limits import EARLY_DECISIONS_MAX
from pdproto.runtime.store import AnyMessage, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.runtime.wire import (
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
from pdproto.spec.language.machine import Call, Timer

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


class Pass(Enum):
    """A decision about the forward pass of a request that runs before its bootstrap."""

    RUN = "run"  # compute all chunks but the last
    GO_ON = "go_on"  # compute the last chunk
    FINALIZE = "finalize"  # every rank has its bootstrap: the pass runs to its end
    GIVE_WAY = "give_way"  # drop the KV: the request runs again, or waits for its bootstrap
    ADMIT = "admit"  # every rank has its bootstrap, and no pass: compute all chunks


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request has reached this rank. payload: as given to `Group.submit`."""

    life: Life
    payload: bytes


@dataclass(frozen=True, slots=True)
class Decision:
    """The next action of this rank, the same on all ranks of the group.

    slot: of an admitted request. attempt: the number of a pass that begins, from 0 on. transfers:
    False if this rank has failed after its ready vote; then it computes the request's forward pass
    with the others, but transfers no bytes and reports no result. arrived: False if the request
    failed before it reached this rank; then it never arrives. reason: why a request fails or is
    dropped. The decisions of passes (`Pass`) have numbers of their own.
    """

    number: int
    verdict: Verdict | Pass
    life: Life
    slot: int | None = None
    attempt: int | None = None
    transfers: bool = True
    arrived: bool = True
    reason: str = ""


@dataclass(slots=True, eq=False)
class Known:
    """The state of a request at a rank, besides the table. decided: number of applied decisions."""

    stage: Stage = Stage.ABSENT
    reason: str = ""
    decided: int = 0
    timed_out: bool = False


class RankPart:
    """The votes and decisions of one rank. say: sends a vote to the entry. stop: see `Group`."""

    def __init__(
        self,
        me: int,
        ranks: Collection[int],
        *,
        say: Callable[[AnyVote], None],
        stop: Callable[[Life], bool],
        waits: Waits[Life],
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
        self._timed: Final = rows_by_value(
            RANK, chain(*rows_on_timers(RANK).values()), tables.stage(tables.r, tables.h))
        self._known: Final[dict[Life, Known]] = {}
        self._lives: Final[dict[int, Life]] = {}  # the keys of _known, by generation
        self._early: Final[dict[int, AnyDecision]] = {}
        self._stopping: Final[dict[Life, None]] = {}
        self._stages: Final[dict[Stage, int]] = dict.fromkeys(Stage, 0)
        self.floor = 0  # every life below this generation is forgotten
        self._ended = False
        self._describe()

    def part(self, members: Members) -> Part:
        """The part of the node."""
        decisions = dict.fromkeys(VERDICTS, lambda _, frame, now: self.decide(frame, now))
        calls = [row.on.name for row in RANK.rows if isinstance(row.on, Call)]

        def returned(peer: Peer) -> None:
            if members.index_of(peer) == members.entry:  # messages may be lost
                self._waits.fire_now(members.now)

        return Part(
            "rank", runs=RANK, implied=(tables.gone,), writers=VOTES,
            frames=members.of_entry({
                Request: lambda _, frame, now: self.arrive(frame, now), **decisions}),
            timers=dict.fromkeys(TIMERS, self._time_out), calls=dict.fromkeys(calls, self.call),
            lost=lambda peer, _: self.lose(members.index_of(peer)), returned=returned,
            turns={Turn.ROOMS: self.serve}, due=self._waits.next)

    # Frames of the entry

    def arrive(self, frame: Request, now: float) -> None:
        """React to a request, or to its repetition."""
        if not self._forgotten(frame.life):
            step = self._take(frame)
            if step.changed:
                self.arrivals.append(Arrival(frame.life, frame.payload))
            self._follow(frame.life, step, now)

    def decide(self, frame: AnyDecision, now: float) -> None:
        """Apply a decision, and then those that have waited for it.

        Raises RemoteProtocolError if the table rejects one.
        """
        following: AnyDecision | None = frame
        while following is not None and not self._forgotten(following.life):
            following = self._apply(following, now)

    def _apply(self, frame: AnyDecision, now: float) -> AnyDecision | None:
        """Apply a decision, or keep it if it is too early. Returns the next one if it was kept."""
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
        if not done and not self._ended and len(self._early) < EARLY_DECISIONS_MAX:
            self._early[frame.number] = frame
        return None

    def _take(self, frame: Request | AnyDecision) -> SharedStep:
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
        """Forget the lives below this generation: the entry sends no message about them any more.

        Raises RemoteProtocolError if one of them is open here.
        """
        if floor <= self.floor:
            return
        few = floor - self.floor < len(self._lives)
        below = range(self.floor, floor) if few else [g for g in self._lives if g < floor]
        for life in [self._lives[generation] for generation in below if generation in self._lives]:
            try:
                self._machine.forget(roles.Life, life)
            except LocalProtocolError as error:
                raise RemoteProtocolError(f"{life} is not over here: {error}") from error
            del self._known[life], self._lives[life.generation]
        self.floor = floor

    # Calls of the scheduler

    def call(self, name: str, life: Life, reason: str, seen: int, now: float) -> None:
        """React to a call of the scheduler about a request.

        seen: how many decisions about the request the scheduler knew when it called. Raises
        LocalProtocolError if the table has no row for the call, and rule 3 does not explain that.
        """
        known = self._known.get(life)
        if known is not None and not known.reason:
            known.reason = checked.reason(reason)
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

    # Timers and losses

    def serve(self, now: float) -> None:
        """Fire the rows of the waits that have ended."""
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

    def lose(self, rank: int) -> None:
        """Note that another rank is gone, which ends the group (rule 8 of the tables)."""
        self._machine.receive(tables.gone, rank, self._me)
        self._ended = True
        for life in self._known:
            self._waits.follow(life, (), 0.0)
        for keeping in (self._known, self._lives, self._early, self._stopping):
            keeping.clear()
        self._stages.update(dict.fromkeys(Stage, 0))

    # Steps

    def _follow(self, life: Life, step: SharedStep, now: float) -> None:
        """Send the messages of the step, and count the stage of the request."""
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
        """The state of the request. The entry gives each life a generation of its own."""
        self._lives[life.generation] = life
        return self._known.setdefault(life, Known())

    def _arm(self, life: Life, now: float, *, further: bool = False) -> None:
        enabled = self._machine.enabled
        names = dict.fromkeys(
            row.on.name for row in self._timed[self._known[life].stage]
            if isinstance(row.on, Timer) and enabled(row.name, h=life))
        self._waits.follow(life, names, now, further=further)

    def misses(self, life: Life) -> bool:
        """Whether the request has not come yet, and still may."""
        return not self._ended and life.generation >= self.floor and life not in self._known

    def _forgotten(self, life: Life) -> bool:
        if life.generation < self.floor:
            self._metrics.add("stale_frames")
            return True
        return False

    def _describe(self) -> None:
        for name, about, stages in (
            ("num_group_bootstrap_queue_reqs", "Requests that wait for the group here", QUEUED),
            ("num_group_inflight_queue_reqs", "Requests that are admitted here", IN_BATCH),
        ):
            self._metrics.gauge(name, about, self._counting(stages))
        self._metrics.gauge("num_group_prefetches_held", "Requests that hold a prefetch here",
                            lambda: len(self._machine.stored(tables.prefetched)))
        self._metrics.gauge("num_group_undelivered_decisions",
                            "Decisions that the scheduler has not taken yet",
                            lambda: len(self.decisions))
        self._metrics.gauge("num_group_remembered_lives",
                            "Requests about which the entry may still send a message",
                            lambda: len(self._known))

    def _counting(self, stages: tuple[Stage, ...]) -> Callable[[], int]:
        return lambda: sum(self._stages[stage] for stage in stages)

    def __repr__(self) -> str:
        return repr(self._machine)
