"""One rank of a group that prefills before the bootstrap, without I/O.

It runs two tables in turn for each request: those of passes (spec/handoff/group_attempts.py), and
after them those of every group (spec/handoff/group.py). Messages of the second are kept until the
first has ended: at a rank the decisions, and at the entry the votes. A message that comes later is
nothing new to a table, so no decision is made here.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from pdproto.group.core import GroupCore
from pdproto.group.entry import Submitted
from pdproto.group.pass_entry import PassEntry
from pdproto.group.pass_rank import PassRank
from pdproto.group.repeats import Repeats
from pdproto.node.optimistic_record import OptimisticSettings
from pdproto.node.peer import Peer
from pdproto.runtime.batches import Batch
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import (
    AnyDecision,
    AnyFrame,
    AnyVote,
    GroupFrame,
    Life,
    PassDecision,
    PassReport,
    Request,
)
from pdproto.spec.handoff.group_attempts import ENTRY, RANK
from pdproto.spec.language.machine import Table

NEVER_S: Final = float("inf")
TABLES: Final[Mapping[str, Table]] = {"rank": RANK, "entry": ENTRY}
Held = dict[tuple[int, AnyFrame], int]  # (rank, frame): the incarnation of the rank


class OptimisticCore(GroupCore):
    """One rank of such a group. `OptimisticGroup` (optimistic_group.py) explains the arguments.

    pass_tables: by name of machine; tests run edited ones.
    """

    pass_tables: Mapping[str, Table] = TABLES

    def __init__(
        self, name: str, ranks: Mapping[int, str], *, me: int, passes: OptimisticSettings,
        waits: Mapping[str, float] | None, pass_trace: SharedTrace | None, **arguments: Any,
    ) -> None:
        # The entry waits for the bootstrap, in the table of passes. Here it only follows.
        seconds = {**(waits or {}), "bootstrap_timeout": NEVER_S}
        super().__init__(name, ranks, me=me, slots=passes.slots, waits=seconds, **arguments)
        self._held: Final[dict[Life, Held]] = {}
        self._ending: Final[deque[Life]] = deque()
        self._repeats: Final = Repeats(super()._tell, waits)
        self.passes: Final = PassRank(
            me, [*ranks], passes.attempts, say=lambda report: self._tell(self.entry, report),
            order=self.rank.decisions.append, over=self._end_passes, metrics=self.metrics,
            table=self.pass_tables["rank"], trace=pass_trace)
        self.planner: Final = PassEntry(
            [*ranks], passes, say=self._tell, refuse=super().abort, over=self._ending.append,
            metrics=self.metrics, table=self.pass_tables["entry"], trace=pass_trace,
        ) if me == self.entry else None

    def submit(self, submitted: Submitted) -> None:
        """See GroupCore."""
        super().submit(submitted)
        if self.planner is not None and submitted.answer is None:
            self.planner.submit(submitted, self._now)

    def abort(self, request: Submitted, reason: str) -> None:
        """See GroupCore."""
        if self.planner is not None:
            self.planner.abort(request, reason)

    def call(self, name: str, life: Life, reason: str, seen: int) -> None:
        """See GroupCore. A report goes to the table that the request has reached here."""
        if name == "bootstrapped":
            self.passes.bootstrapped(life)
        elif name != "failed" or not self.passes.failed(life, reason):
            super().call(name, life, reason, seen)

    def computed(self, life: Life, *, last: bool) -> None:
        """See PassRank.computed."""
        self.passes.computed(life, last=last)

    def _end_passes(self, life: Life, sends: bool) -> None:
        """End the passes of a request. If its KV is sent, the reports that had to wait now go to
        the table of the group.
        """
        self._ending.append(life)
        failure = self.passes.failure(life)
        reports = ("prepared", "bootstrapped") if failure is None else ("failed",)
        for name in reports if sends else ():
            super().call(name, life, failure or "", 0)

    def _hear(self, index: int, frame: AnyFrame, incarnation: int) -> None:
        self._refuse_others(frame, incarnation)
        if self._must_wait(frame):
            self._held.setdefault(frame.life, {})[index, frame] = incarnation
            return
        if isinstance(frame, PassReport):
            if self.planner is None:
                raise RemoteProtocolError(f"{frame.message} must be sent to the entry")
            self.planner.hear(index, frame)
        elif isinstance(frame, PassDecision):
            if index != self.entry:
                raise RemoteProtocolError(f"{frame.message}: only the entry may send it")
            self.passes.decide(frame)
        else:
            super()._hear(index, frame, incarnation)
        if isinstance(frame, Request):
            self._ending.append(frame.life)

    def _must_wait(self, frame: AnyFrame) -> bool:
        if isinstance(frame, PassDecision):
            return self.rank.misses(frame.life)
        if isinstance(frame, AnyDecision):
            return self.passes.is_open(frame.life)
        return (isinstance(frame, AnyVote) and self.planner is not None
                and self.planner.is_open(frame.life))

    def _release(self) -> None:
        """Take the messages that have waited."""
        while self._ending:
            for (index, frame), incarnation in self._held.pop(self._ending.popleft(), {}).items():
                try:
                    self._hear(index, frame, incarnation)
                except RemoteProtocolError as error:
                    self.refuse(self.names[index], error)

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        """See Core."""
        super().on_batch(peer, batch)
        self._release()

    def on_lost(self, peer: Peer, why: str) -> None:
        """See Core."""
        super().on_lost(peer, why)
        self.passes.lose(self._index[peer.name])
        if self.planner is not None:
            self.planner.lose(self._index[peer.name])
        self._held.clear()
        self._repeats.clear()

    def on_returned(self, peer: Peer) -> None:
        """See GroupCore."""
        super().on_returned(peer)
        self._repeats.serve_all(self._now)

    def on_over(self, life: Life) -> None:
        """See GroupCore."""
        self._repeats.forget(life)
        if self.planner is not None:
            self.planner.forget(life)

    def on_turn(self, now: float) -> float | None:
        """See Core."""
        waits = [self._repeats.serve(now)]
        if self.planner is not None:
            self.planner.serve(now)
        self._release()
        waits.append(super().on_turn(now))
        while self._ending or self._own:
            self._release()
            waits.append(super().on_turn(now))
        if self.planner is not None:
            waits.append(self.planner.serve(now))
        self._forget(self.rank.floor)
        self.again = self.again or bool(self._own or self._ending)
        return min((wait for wait in waits if wait is not None), default=None)

    def _forget(self, floor: int) -> None:
        """Forget the requests that every rank has closed."""
        self.passes.raise_floor(floor)
        self._repeats.forget_below(floor)
        for life in [life for life in self._held if life.generation < floor]:
            del self._held[life]

    def _tell(self, index: int, frame: GroupFrame) -> None:
        if index != self.me and isinstance(frame, PassReport | PassDecision | Request):
            self._repeats.keep(index, frame, self._now)
        super()._tell(index, frame)
