"""The passes of a group that prefills before the bootstrap, at one rank.

A rank runs two tables in turn for each request: those of passes (spec/handoff/group_attempts.py),
and after them those of every group (spec/handoff/group.py). Messages of the second are kept until
the first has ended: at a rank the decisions, and at the entry the votes. A message that comes later
is nothing new to a table, so no decision is made here.
"""

from collections import deque
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pdproto.group.entry import EntryPart, Submitted
from pdproto.group.members import Members
from pdproto.group.pass_entry import PassEntry
from pdproto.group.pass_rank import PassRank
from pdproto.group.rank import RankPart
from pdproto.group.repeats import Repeats
from pdproto.node.core import Core
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
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

TABLES: Final[Mapping[str, Table]] = {"rank": RANK, "entry": ENTRY}
Held = dict[tuple[int, AnyFrame], int]  # (rank, frame): the incarnation of the rank


class PassOptions(NamedTuple):
    """tables: by name of machine; tests run edited ones."""

    settings: OptimisticSettings
    trace: SharedTrace | None = None
    tables: Mapping[str, Table] = TABLES


class Passes:
    """The passes at one rank, and at the entry who runs one. rank: the rank's part in the group."""

    def __init__(
        self, core: Core, members: Members, rank: RankPart, ranks: Collection[int],
        options: PassOptions, waits: Mapping[str, float] | None,
    ) -> None:
        settings, trace, tables = options
        self._core: Final = core
        self._members: Final = members
        self._of_group: Final = rank
        self._decider: EntryPart | None = None
        self._held: Final[dict[Life, Held]] = {}
        self._ending: Final[deque[Life]] = deque()  # frames about these may be taken now
        self._repeats: Final = Repeats(members.say, waits)
        self.rank: Final = PassRank(
            members.me, ranks, settings.attempts,
            say=lambda report: self.say(members.entry, report), order=rank.decisions.append,
            over=self._end, metrics=core.metrics, table=tables["rank"], trace=trace)
        self.planner: Final = PassEntry(
            ranks, settings, say=self.say, refuse=self._refuse, over=self._ending.append,
            metrics=core.metrics, table=tables["entry"], trace=trace,
            stood=core.connections.suspicions.of_any,
        ) if members.me == members.entry else None

    def attach(self, decider: EntryPart | None) -> Part:
        """The part of the node. decider: of the group, at its entry."""
        members, self._decider = self._members, decider
        members.gate, members.on_request = self._keeps, self._ending.append
        frames = members.of_entry({PassDecision: lambda _, frame, __: self.rank.decide(frame)})
        if self.planner is not None and decider is not None:
            hear = self.planner.hear
            decider.over = self._forget
            frames = {**frames, **members.of_ranks({
                PassReport: lambda index, frame, _: hear(index, frame)})}
        return Part(
            "passes", frames=frames, floor=lambda *_: self._release(), lost=self._lose,
            returned=lambda _: self._repeats.serve_all(self._core.now), due=self._due,
            turns={Turn.ROOMS: self._serve, Turn.LAST: self._finish},)

    # Calls

    def submit(self, submitted: Submitted) -> None:
        """At the entry: begin to serve a request."""
        if self.planner is not None:
            self.planner.submit(submitted, self._core.now)

    def abort(self, request: Submitted, reason: str) -> None:
        """At the entry: abort a request, for this reason."""
        if self.planner is not None:
            self.planner.abort(request, reason)

    def call(self, name: str, life: Life, reason: str) -> bool:
        """A call of the scheduler. Returns whether it was for the table of passes."""
        if name == "bootstrapped":
            self.rank.bootstrapped(life)
            return True
        return name == "failed" and self.rank.failed(life, reason)

    def computed(self, life: Life, *, last: bool) -> None:
        """See PassRank.computed."""
        self.rank.computed(life, last=last)

    def say(self, index: int, frame: GroupFrame) -> None:
        """Send a frame to a rank; a frame of the table of passes is repeated."""
        if index != self._members.me and isinstance(frame, PassReport | PassDecision | Request):
            self._repeats.keep(index, frame, self._core.now)
        self._members.say(index, frame)

    # From one table to the other

    def _end(self, life: Life, sends: bool) -> None:
        """End the passes of a request. If its KV is sent, the reports that had to wait now go to
        the table of the group.
        """
        self._ending.append(life)
        failure = self.rank.failure(life)
        reports = ("prepared", "bootstrapped") if failure is None else ("failed",)
        for name in reports if sends else ():
            self._of_group.call(name, life, failure or "", 0, self._core.now)

    def _refuse(self, submitted: Submitted, reason: str) -> None:
        if self._decider is not None:
            self._decider.abort(submitted, reason, self._core.now)

    def _keeps(self, index: int, frame: AnyFrame, incarnation: int) -> bool:
        """Keep a frame that must wait. Returns whether it must."""
        if not self._must_wait(frame):
            return False
        self._held.setdefault(frame.life, {})[index, frame] = incarnation
        return True

    def _must_wait(self, frame: AnyFrame) -> bool:
        if isinstance(frame, PassDecision):
            return self._of_group.misses(frame.life)
        if isinstance(frame, AnyDecision):
            return self.rank.is_open(frame.life)
        return (isinstance(frame, AnyVote) and self.planner is not None
                and self.planner.is_open(frame.life))

    def _release(self) -> None:
        """Take the messages that have waited."""
        while self._ending:
            for (index, frame), incarnation in self._held.pop(self._ending.popleft(), {}).items():
                self._members.hear_late(index, frame, incarnation)

    # The turn

    def _serve(self, now: float) -> None:
        self._repeats.serve(now)
        if self.planner is not None:
            self.planner.serve(now)
        self._release()

    def _finish(self, now: float) -> None:
        """Until neither table has more to say to this rank."""
        while self._ending or self._members.own:
            self._release()
            self._members.serve(now)
        if self.planner is not None:
            self.planner.serve(now)
        self._forget_below(self._of_group.floor)
        self._core.again = self._core.again or bool(self._members.own or self._ending)

    def _due(self) -> float | None:
        dues = self._repeats.next, None if self.planner is None else self.planner.next
        return min((due for due in dues if due is not None), default=None)

    def _lose(self, peer: Peer, _why: str) -> None:
        index = self._members.index_of(peer)
        self.rank.lose(index)
        if self.planner is not None:
            self.planner.lose(index)
        self._held.clear()
        self._repeats.clear()

    def _forget(self, life: Life) -> None:
        """Every rank has closed the request."""
        self._repeats.forget(life)
        if self.planner is not None:
            self.planner.forget(life)

    def _forget_below(self, floor: int) -> None:
        """Forget the requests that every rank has closed."""
        self.rank.raise_floor(floor)
        self._repeats.forget_below(floor)
        for life in [life for life in self._held if life.generation < floor]:
            del self._held[life]
