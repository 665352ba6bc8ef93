"""The entry of a group that prefills before the bootstrap: it decides which request runs a pass.

Rule 1: the table of the entry decides (spec/handoff/group_attempts.py, ENTRY). This module proposes
        rows, with the next number; the guard of the row accepts or rejects the proposal.
Rule 2: the table leaves open which request gets a running slot. Here a request with its bootstrap
        comes first, then one that has run before, then the one that has waited longest. A pass
        yields if a request with its bootstrap waits and no running slot is free. The pass that has
        begun last yields first.
Rule 3: the last chunk is decided when every rank has computed the others, so that the bootstrap is
        looked at between the chunks.
Rule 4: a request keeps its running slot until it yields, or until every rank has closed it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pdproto.group.entry import Submitted
from pdproto.node.metrics import Metrics
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.node.timers import Waits, never, rows_on_timers
from pdproto.runtime import checked
from pdproto.runtime.sample import retry_is_forced
from pdproto.runtime.store import AnyMessage, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.runtime.wire import Life, PassDecision, PassReport
from pdproto.spec.handoff import attempts, group, roles
from pdproto.spec.handoff import group_attempts as tables
from pdproto.spec.handoff.group_attempts import ENDED, ENTRY, IN_PASS, OPEN, AtEntry
from pdproto.spec.language.machine import Table

Said: TypeAlias = Literal["run", "go_on", "finalize", "give_way", "admit", "fail"]
TIMERS: Final = rows_on_timers(ENTRY)
# In this order: failures first, and a forced retry before the destination is bound.
OF_ONE: Final = ("decide_fail", "decide_finalize", "hand_over", "force_retry")
SAID: Final[Mapping[AnyMessage, Said]] = {
    tables.run: "run", tables.go_on: "go_on", tables.finalize: "finalize",
    tables.give_way: "give_way", tables.admit: "admit", tables.fail: "fail",
}


@dataclass(slots=True, eq=False)
class Planned:
    """The state of a request besides the table. attempt: the last one; None before the first.

    leaves: why the client has left, if it has.
    """

    submitted: Submitted
    attempt: int | None = None
    reason: str = ""
    leaves: str = ""


class PassEntry:
    """The entry of such a group, as a part of its rank.

    say: sends a decision to a rank. refuse: has a request refused, for this reason. over: called
    when a request has ended in this table. stood: see Waits.
    """

    def __init__(  # noqa: PLR0913 - its node has all of them
        self,
        ranks: Collection[int],
        settings: OptimisticSettings,
        *,
        say: Callable[[int, PassDecision], None],
        refuse: Callable[[Submitted, str], None],
        over: Callable[[Life], None],
        metrics: Metrics,
        table: Table,
        trace: SharedTrace | None = None,
        stood: Callable[[object, float, float], float] = never,
    ) -> None:
        self._ranks: Final = [*ranks]
        self._settings: Final = settings
        self._say: Final = say
        self._refuse: Final = refuse
        self._over: Final = over
        self._metrics: Final = metrics
        self._attempts: Final = [*range(settings.attempts)]
        self._machine: Final = shared(
            table, (), {group.Rank: self._ranks, roles.Attempt: self._attempts},
            {attempts.sampled: self._sampled}, trace=trace)
        self._waits: Final[Waits[Life]] = Waits(
            {"bootstrap_timeout": settings.bootstrap_timeout_s}, stood)
        self._planned: Final[dict[Life, Planned]] = {}
        self._queued: Final[dict[Life, Planned]] = {}  # wait for a running slot; first those that
        self._again: Final[dict[Life, Planned]] = {}  # have run before
        self._running: Final[dict[Life, Planned]] = {}  # in the order in which they began
        self._placed: Final[set[Life]] = set()  # have a running slot
        self._number = 0
        self._describe()

    def is_open(self, life: Life) -> bool:
        """Whether the request may still run a pass."""
        return life in self._planned and self._machine.value(tables.status, life) in OPEN

    # Requests of the application

    def submit(self, submitted: Submitted, now: float) -> None:
        """Begin to serve a request. now: in seconds of the node's clock."""
        planned = self._planned[submitted.life] = Planned(submitted)
        self._follow(planned, self._machine.call("submit", submitted.life))
        self._arm(planned, now)

    def abort(self, submitted: Submitted, reason: str) -> None:
        """Refuse a request: at once, or as soon as its pass has ended. Without effect after that,
        and after its hand-over.
        """
        planned = self._planned.get(submitted.life)
        if planned is None:
            return
        planned.reason = planned.reason or checked.reason(reason)
        if self._machine.enabled("abort", n=self._number, h=submitted.life):
            step = self._machine.call("abort", submitted.life, choose={"n": self._number})
            self._follow(planned, step)
        elif self.is_open(submitted.life):
            planned.leaves = reason
        else:
            self._refuse(submitted, reason)

    # Frames of ranks

    def hear(self, rank: int, frame: PassReport) -> None:
        """React to a rank's report about an open request.

        Raises RemoteProtocolError for an attempt that does not exist.
        """
        planned = self._planned.get(frame.life)
        if planned is None:
            self._metrics.add("stale_frames")
            return
        attempt = (frame.attempt,) if len(frame.message.sorts) > 2 else ()
        if frame.reason and not planned.reason:
            planned.reason = checked.reason(f"rank {rank}: {frame.reason}")
        self._machine.receive(frame.message, rank, frame.life, *attempt)
        while any(self._fire(row, planned) for row in OF_ONE):
            pass

    def lose(self, rank: int) -> None:
        """Note that a rank is gone, which ends the group."""
        self._machine.receive(tables.lost, rank)
        for planned in list(self._planned.values()):
            self._machine.fire("answer_lost", h=planned.submitted.life)
            self._waits.follow(planned.submitted.life, (), 0.0)
        for keeping in (self._planned, self._queued, self._again, self._running):
            keeping.clear()
        self._placed.clear()

    def forget(self, life: Life) -> None:
        """Forget a request that every rank has closed."""
        if self._planned.pop(life, None) is not None:
            self._machine.forget(roles.Life, life)
            self._placed.discard(life)
            self._waits.follow(life, (), 0.0)

    # Proposals

    @property
    def next(self) -> float | None:
        """The time of the next timer; None if none runs."""
        return self._waits.next()

    def serve(self, now: float) -> None:
        """Fire the timers that have ended, and propose decisions until none is accepted."""
        for name, life in self._waits.due(now):
            planned = self._planned[life]
            planned.reason = planned.reason or f"{name} after {self._waits.seconds[name]:g} s"
            for row in TIMERS[name]:
                self._fire(row.name, planned)
        while any([self._make_room(), self._start(), self._go_on()]):
            pass

    def _start(self) -> bool:
        """Give a running slot to a request. Returns whether one got it."""
        if len(self._placed) >= self._settings.running_slots:
            return False
        waiting = sorted([*self._again.values(), *self._queued.values()],
                         key=lambda planned: not self._is_ready(planned))
        return any(self._fire(row, planned) for planned in waiting
                   for row in ("decide_admit", "decide_run"))

    def _go_on(self) -> bool:
        """Decide the last chunk of a pass (rule 3). Returns whether there was such a pass."""
        value = self._machine.value
        halves = [planned for life, planned in self._running.items()
                  if all(value(tables.half, rank, life, planned.attempt) for rank in self._ranks)]
        return bool([planned for planned in halves if self._fire("decide_to_go_on", planned)])

    def _make_room(self) -> bool:
        """Have a pass yield to a request that has its bootstrap. Returns whether one did."""
        if len(self._placed) < self._settings.running_slots:
            return False
        if not any(map(self._is_ready, (*self._again.values(), *self._queued.values()))):
            return False
        return any(self._fire("decide_to_yield", planned)
                   for planned in reversed(list(self._running.values())))

    def _is_ready(self, planned: Planned) -> bool:
        return all(self._machine.value(tables.ready, rank, planned.submitted.life)
                   for rank in self._ranks)

    def _fire(self, row: str, planned: Planned) -> bool:
        """Propose a row with every choice of its parameters. Returns whether it was accepted."""
        choices: dict[str, Any] = {"n": self._number, "h": planned.submitted.life,
                                   "a": self._attempts, "r": self._ranks}
        names = [variable.name for variable in self._machine.table.row(row).choose]
        step = self._machine.fire(row, **{name: choices[name] for name in names})
        if step is not None:
            self._follow(planned, step)
        return step is not None

    # Steps

    def _follow(self, planned: Planned, step: SharedStep) -> None:
        entered: AtEntry | None = None
        for symbol, key, value in step.changed:
            if symbol is tables.numbered:
                self._number += 1
            elif symbol is tables.tried and key is not None:
                planned.attempt = key[1]
            elif isinstance(value, AtEntry):
                entered = value
        for message, arguments in step.sent:
            rank, number, life, *attempt = arguments
            self._say(rank, PassDecision(life, SAID[message], number, *attempt))
        if entered is not None:
            self._enter(planned, entered)

    def _enter(self, planned: Planned, status: AtEntry) -> None:
        life = planned.submitted.life
        for waiting in (self._queued, self._again):
            waiting.pop(life, None)
        if status in IN_PASS:
            self._running.setdefault(life, planned)
            self._placed.add(life)
            return
        self._running.pop(life, None)
        if status not in ENDED:
            self._placed.discard(life)
            if planned.attempt is None:
                self._queued[life] = planned
            else:
                self._again[life] = planned
                self._metrics.add("prefill_retries")
            return
        self._waits.follow(life, (), 0.0)
        if status is AtEntry.REFUSED or planned.leaves:
            self._refuse(planned.submitted, planned.reason)
        if status is AtEntry.HANDED:
            self._placed.add(life)
        self._over(life)

    def _arm(self, planned: Planned, now: float) -> None:
        self._waits.follow(planned.submitted.life, [*TIMERS], now)

    def _sampled(self, life: Life) -> bool:
        """Whether a test forces the request to run again. Only the entry asks."""
        planned = self._planned.get(life)
        return (planned is not None and bool(self._attempts) and retry_is_forced(
            planned.submitted.request_id, self._settings.force_retry_probability))

    def _describe(self) -> None:
        for name, about, read in (
            ("num_group_pass_queue_reqs", "Requests that wait for a running slot",
             lambda: len(self._queued) + len(self._again)),
            ("num_group_running_slots_taken", "Running slots that requests hold",
             lambda: len(self._placed)),
        ):
            self._metrics.gauge(name, about, read)

    def __repr__(self) -> str:
        return repr(self._machine)
