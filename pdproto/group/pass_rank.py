"""A rank of a group that prefills before the bootstrap: it runs passes by decision.

Rule 1: the table of a rank decides (spec/handoff/group_attempts.py, RANK). This module makes its
        events, and hands the applied decisions to the scheduler.
Rule 2: a decision that the table does not apply yet is kept, and offered again after each step.
Rule 3: a request is over here when its KV is sent, or when it has failed. Then agreement.py
        applies.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal

from pdproto.group.rank import Decision, Pass
from pdproto.node.metrics import Metrics
from pdproto.runtime import checked
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.limits import EARLY_DECISIONS_MAX
from pdproto.runtime.store import AnyMessage, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.runtime.wire import Life, PassDecision, PassReport
from pdproto.spec.handoff import group, roles
from pdproto.spec.handoff import group_attempts as tables
from pdproto.spec.handoff.group_attempts import ACTIVE, AtRank
from pdproto.spec.language.machine import Table

# Of the decisions that end a pass, the scheduler gets the one of agreement.py that follows.
ORDERS: Final[Mapping[str, Pass]] = {order.value: order for order in Pass}
SAID: Final[Mapping[AnyMessage, Literal["ready", "dead", "half", "whole"]]] = {
    tables.ready: "ready", tables.dead: "dead", tables.half: "half", tables.whole: "whole",
}


class PassRank:
    """The passes of one rank.

    say: sends a report to the entry. order: takes each applied decision for the scheduler. over:
    called when a request is over here, and whether its KV is sent.
    """

    def __init__(  # noqa: PLR0913 - a part of a rank, made in one place
        self,
        me: int,
        ranks: Collection[int],
        attempts: int,
        *,
        say: Callable[[PassReport], None],
        order: Callable[[Decision], None],
        over: Callable[[Life, bool], None],
        metrics: Metrics,
        table: Table,
        trace: SharedTrace | None = None,
    ) -> None:
        self._me: Final = me
        self._say: Final = say
        self._order: Final = order
        self._over: Final = over
        self._attempts: Final = [*range(attempts)]
        self._machine: Final = shared(
            table, (me,), {group.Rank: ranks, roles.Attempt: range(attempts)}, trace=trace)
        self._lives: Final[dict[int, Life]] = {}  # by generation, of which this rank has heard
        self._failed: Final[dict[Life, str]] = {}
        self._early: Final[dict[int, PassDecision]] = {}
        self._next = 0  # the number of the next decision
        self._floor = 0
        self._ended = False
        metrics.gauge("num_group_passes", "Requests whose passes this rank remembers",
                      lambda: len(self._lives))

    def is_open(self, life: Life) -> bool:
        """Whether the request may still run a pass here."""
        return (not self._ended and life.generation >= self._floor
                and self._machine.value(tables.stage, self._me, life) in ACTIVE)

    def failure(self, life: Life) -> str | None:
        """Why this rank cannot take part in an open request; None if it can."""
        return self._failed.get(life)

    def decide(self, frame: PassDecision) -> None:
        """Apply a decision, or keep it until its turn comes.

        Raises RemoteProtocolError if the table rejects it.
        """
        if self._ended or frame.life.generation < self._floor:
            return
        kept = len(self._early) < EARLY_DECISIONS_MAX or frame.number == self._next
        if kept and not self._machine.value(tables.applied, self._me, frame.number):
            self._early[frame.number] = frame
        self._apply()

    def _apply(self) -> None:
        while (frame := self._early.get(self._next)) is not None:
            arguments = (frame.attempt,) if frame.message is tables.run else ()
            try:
                step = self._machine.receive(
                    frame.message, self._me, frame.number, frame.life, *arguments)
                if step.kind == "reject":
                    raise RemoteProtocolError(f"{frame.said} of {frame.life}: row {step.row}")
            except RemoteProtocolError:
                del self._early[frame.number]
                raise
            if not step.changed:
                return
            del self._early[frame.number]
            self._next += 1
            if frame.said in ORDERS:
                self._order(Decision(frame.number, ORDERS[frame.said], frame.life,
                                     attempt=frame.attempt if arguments else None))
            self._follow(frame.life, step)

    def bootstrapped(self, life: Life) -> None:
        """Report the bootstrap of a request. Without effect if the request is over here."""
        if self.is_open(life):
            self._follow(life, self._machine.call("bootstrapped", life))

    def failed(self, life: Life, reason: str) -> bool:
        """Report that this rank cannot take part. Returns False if the request is over here."""
        if not self.is_open(life):
            return False
        self._failed[life] = checked.reason(reason)
        self._follow(life, self._machine.call("failed", life))
        return True

    def computed(self, life: Life, *, last: bool) -> None:
        """Note that the device has computed the last chunk, or all chunks before it."""
        if life.generation < self._floor:
            return
        step = self._machine.call("last_chunk" if last else "first_chunk", life,
                                  choose={"a": self._attempts})
        if step.kind == "ignore" and self.is_open(life):
            raise LocalProtocolError(f"{life}: this chunk was not being computed")
        self._follow(life, step)
        self._apply()

    def raise_floor(self, floor: int) -> None:
        """Forget the lives below this generation: every rank has closed them (agreement.py)."""
        if floor <= self._floor:
            return
        for life in [life for generation, life in self._lives.items() if generation < floor]:
            if self._machine.enabled("close", h=life):
                self._machine.call("released", life)
            self._machine.forget(roles.Life, life)
            del self._lives[life.generation]
            self._failed.pop(life, None)
        self._floor = floor

    def lose(self, rank: int) -> None:
        """Note that another rank is gone, which ends the group (rule 6 of the tables)."""
        self._machine.receive(tables.gone, rank, self._me)
        self._ended = True
        for keeping in (self._lives, self._failed, self._early):
            keeping.clear()

    def _follow(self, life: Life, step: SharedStep) -> None:
        """Send the messages of the step. Then send the KV, if the table allows it."""
        if step.changed:
            self._lives[life.generation] = life
        for message, arguments in step.sent:
            attempt = arguments[2] if len(arguments) > 2 else 0
            self._say(PassReport(life, SAID[message], attempt, self._failed.get(life, "")))
        stages = [value for _, _, value in step.changed if isinstance(value, AtRank)]
        if stages and stages[-1] not in ACTIVE:
            self._over(life, stages[-1] is AtRank.SENDING)
        elif step.row != "send" and (sent := self._machine.fire("send", h=life)) is not None:
            self._follow(life, sent)

    def __repr__(self) -> str:
        return repr(self._machine)
