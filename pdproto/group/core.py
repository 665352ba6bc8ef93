"""One rank of a group, without I/O: votes and decisions are frames.

Rule 1: the tables decide (spec/handoff/group.py). The two parts of a rank are in rank.py and
        entry.py. The entry sends frames to its own rank as to any other rank.
Rule 2: the loss of one rank ends the group. All requests get an answer, and `ended` says why. Each
        rank then frees the resources of its requests, and the server starts another group.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from pdproto.group.entry import EntryPart, Submitted
from pdproto.group.rank import RankPart
from pdproto.node.core import Core
from pdproto.node.link import Link
from pdproto.node.metrics import Metrics
from pdproto.node.peer import Peer
from pdproto.node.ports import Transport
from pdproto.node.waits import Waits
from pdproto.runtime.batches import Batch
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import (
    AnyDecision,
    AnyFrame,
    AnyVote,
    GroupFrame,
    Life,
    PassReport,
    Request,
)

log = logging.getLogger("pdproto.group")

JOIN_S: Final = 60.0  # how long a rank may take to appear


class GroupCore(Core):
    """One rank of a group. `Group` (group.py) explains the arguments."""

    def __init__(  # noqa: PLR0913 - as many as `Group` takes
        self,
        name: str,
        ranks: Mapping[int, str],
        *,
        me: int,
        slots: int,
        stop: Callable[[Life], bool],
        entry: int,
        link: Link,
        incarnation: int,
        waits: Mapping[str, float] | None,
        trace: SharedTrace | None,
    ) -> None:
        if me not in ranks or entry not in ranks:
            raise ValueError(f"group {name}: rank {me} and entry {entry}: both must be in "
                             f"{[*ranks]}")
        if slots < 1:
            raise ValueError(f"group {name}: {slots} slots: want 1 or more, or no request can be "
                             f"admitted")
        super().__init__(f"{name}.{me}", link, incarnation)
        self.me: Final = me
        self.entry: Final = entry
        self.ended: str | None = None
        self._floor = 0  # the highest that this rank was told
        self.metrics: Final = Metrics({"node": self.name, "role": "group"})
        self.names: Final = {index: f"{name}.{index}" for index in ranks}
        self._ranks: Final = dict(ranks)
        self._index: Final = {name: index for index, name in self.names.items()}
        self._own: Final[deque[GroupFrame]] = deque()
        self._rank_waits: Final[Waits[Life]] = Waits(waits)
        self._entry_waits: Final[Waits[Life]] = Waits(waits)
        self.rank: Final = RankPart(me, [*ranks], say=lambda vote: self._tell(entry, vote),
                                    stop=stop, waits=self._rank_waits, metrics=self.metrics,
                                    trace=trace)
        self.decider: Final = EntryPart([*ranks], slots, say=self._tell, waits=self._entry_waits,
                                        metrics=self.metrics, over=self.on_over, trace=trace,
                                        ) if me == entry else None

    def begin(self, transport: Transport) -> None:
        """See Core.begin. It connects to all ranks."""
        super().begin(transport)
        for index, endpoint in self._ranks.items():
            if index != self.me:
                # A rank that starts late must not count as silent, so its silence begins later.
                self.connect(self.names[index], endpoint).heard = self._now + JOIN_S

    def on_over(self, life: Life) -> None:
        """React, at the entry, to a request that every rank has closed."""

    def submit(self, submitted: Submitted) -> None:
        """At the entry: begin to serve a request."""
        if self.decider is not None:
            self.decider.submit(submitted, self._now)

    def abort(self, request: Submitted, reason: str) -> None:
        """At the entry: abort a request, for this reason."""
        if self.decider is not None:
            self.decider.abort(request, reason, self._now)

    def call(self, name: str, life: Life, reason: str, seen: int) -> None:
        """A call of the scheduler; see RankPart.call."""
        self.rank.call(name, life, reason, seen, self._now)

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        """See Core."""
        index = self._index[peer.name]
        for frame in batch.frames:
            try:
                self._hear(index, frame, batch.incarnation)
            except RemoteProtocolError as error:
                self.refuse(peer.name, error)
        if index == self.entry:
            self._raise_floor(batch.floor)

    def _raise_floor(self, floor: int) -> None:
        """Have this rank forget the lives below it. A life that is open here keeps them, and stops
        nothing else.
        """
        if floor > self._floor:
            self._floor = floor
            try:
                self.rank.raise_floor(floor)
            except RemoteProtocolError as error:
                self.refuse(self.names[self.entry], error)

    def refuse(self, sender: str, error: RemoteProtocolError) -> None:
        """Count a message of this rank that was dropped."""
        self.metrics.add("refused_frames")
        log.warning("%s: dropped a message of %s: %s", self.name, sender, error)

    def _hear(self, index: int, frame: AnyFrame, incarnation: int) -> None:
        """React to a rank's frame. Raises RemoteProtocolError if the rank may not send it."""
        now = self._now
        self._refuse_others(frame, incarnation)
        if isinstance(frame, AnyVote):
            if self.decider is None:
                raise RemoteProtocolError(f"{frame.message} must be sent to the entry")
            self.decider.hear(index, frame, now)
        elif index != self.entry:
            raise RemoteProtocolError(f"{frame.message}: only the entry may send it")
        elif isinstance(frame, Request):
            self.rank.arrive(frame, now)
        elif isinstance(frame, AnyDecision):
            self.rank.decide(frame, now)
        else:
            raise RemoteProtocolError(f"{frame.message} is not a message of a group")

    def _refuse_others(self, frame: AnyFrame, incarnation: int) -> None:
        """Raise RemoteProtocolError for a life of another group. The entry makes all lives."""
        author = self.incarnation if isinstance(frame, (AnyVote, PassReport)) else incarnation
        if frame.life.incarnation != author:
            raise RemoteProtocolError(f"{frame.life} belongs to another group")

    def _greeted(self, batch: Batch) -> Peer:
        raise RemoteProtocolError(f"{batch.node} is not a rank of this group")

    def on_malformed(self, _sender: str) -> None:
        """See Core."""
        self.metrics.add("malformed_frames")

    def on_lost(self, peer: Peer, why: str) -> None:
        """See Core."""
        index = self._index[peer.name]
        self.metrics.add("lost_peers")
        self.ended = self.ended or f"{peer.name} is gone: {why}"
        self.rank.lose(index)
        if self.decider is not None:
            self.decider.lose(index, why)

    def on_returned(self, peer: Peer) -> None:
        """See Core.on_returned. Messages in both directions may be lost, so repeat ours at once."""
        self._entry_waits.fire_now(self._now)
        if self._index[peer.name] == self.entry:
            self._rank_waits.fire_now(self._now)

    def on_turn(self, now: float) -> float | None:
        """See Core."""
        if self.decider is not None:
            self.decider.serve(now)
        self.rank.serve(now)
        while self._own:
            self._hear(self.me, self._own.popleft(), self.incarnation)
        if self.decider is not None:
            self._raise_floor(self.decider.floor)
        waits = self.rank.next, self.decider.next if self.decider is not None else None
        return min((wait for wait in waits if wait is not None), default=None)

    def floor(self) -> int:
        """See Core."""
        return self.decider.floor if self.decider is not None else 0

    def _tell(self, index: int, frame: GroupFrame) -> None:
        if index == self.me:
            self._own.append(frame)
        elif not (peer := self.peers[self.names[index]]).lost:
            self.say(peer, frame)

    def __repr__(self) -> str:
        decider = "" if self.decider is None else f", {self.decider!r}"
        return f"<Group {self.name}: {self.rank!r}{decider}>"
