"""One rank of a group, without I/O: the list of its parts. Votes and decisions are frames.

The tables decide (spec/handoff/group.py): those of a rank in rank.py, and of the entry in entry.py.
A group that prefills before the bootstrap has the tables of passes in front of them (passes.py).
"""

from collections.abc import Callable, Mapping
from typing import Final

from pdproto.group.entry import EntryPart, Submitted
from pdproto.group.members import Members
from pdproto.group.passes import Passes, PassOptions
from pdproto.group.rank import RankPart
from pdproto.node.core import Core
from pdproto.node.link import Link
from pdproto.node.timers import Waits
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import Life

NEVER_S: Final = float("inf")


class GroupNode:
    """One rank of a group. `Group` (group.py) explains the arguments. passes: of a group that
    prefills before the bootstrap; None for any other.

    decider, passes: None where this rank has none.
    """

    def __init__(  # noqa: PLR0913 - as many as `Group` takes
        self, name: str, ranks: Mapping[int, str], *, me: int, slots: int,
        stop: Callable[[Life], bool], entry: int, link: Link, incarnation: int,
        waits: Mapping[str, float] | None, trace: SharedTrace | None,
        passes: PassOptions | None = None,
    ) -> None:
        if me not in ranks or entry not in ranks:
            raise ValueError(f"group {name}: rank {me} and entry {entry}: both must be in "
                             f"{[*ranks]}")
        if slots < 1:
            raise ValueError(f"group {name}: {slots} slots: want 1 or more, or no request can be "
                             f"admitted")
        core = self.core = Core(f"{name}.{me}", link, incarnation, role="group")
        members = self.members = Members(core, name, ranks, me=me, entry=entry)
        seconds = dict(waits or {})
        if passes is not None:  # the entry waits for the bootstrap there, and here only follows
            seconds["bootstrap_timeout"] = NEVER_S
        stood = core.connections.suspicions.of_any
        self.rank: Final = RankPart(
            me, [*ranks], say=lambda vote: members.say(entry, vote), stop=stop,
            waits=Waits(seconds, stood), metrics=core.metrics, trace=trace)
        self.passes: Final = None if passes is None else Passes(
            core, members, self.rank, [*ranks], passes, waits)
        say = members.say if self.passes is None else self.passes.say
        self.decider: Final = EntryPart(
            [*ranks], slots, say=say, waits=Waits(seconds, stood), metrics=core.metrics,
            trace=trace,
        ) if me == entry else None
        members.raise_floor = self.rank.raise_floor
        parts = [members.part, self.rank.part(members)]
        if self.decider is not None:
            parts.append(self.decider.part(members))
        if self.passes is not None:
            parts.append(self.passes.attach(self.decider))
        core.assemble(*parts)

    def submit(self, submitted: Submitted) -> None:
        """At the entry: begin to serve a request."""
        if self.decider is not None:
            self.decider.submit(submitted, self.core.now)
            if self.passes is not None and submitted.answer is None:
                self.passes.submit(submitted)

    def abort(self, request: Submitted, reason: str) -> None:
        """At the entry: abort a request, for this reason."""
        if self.passes is not None:
            self.passes.abort(request, reason)
        elif self.decider is not None:
            self.decider.abort(request, reason, self.core.now)

    def call(self, name: str, life: Life, reason: str, seen: int) -> None:
        """A call of the scheduler; see RankPart.call. It goes to the table that the request has
        reached here.
        """
        if self.passes is None or not self.passes.call(name, life, reason):
            self.rank.call(name, life, reason, seen, self.core.now)

    def __repr__(self) -> str:
        decider = "" if self.decider is None else f", {self.decider!r}"
        return f"<Group {self.core.name}: {self.rank!r}{decider}>"
