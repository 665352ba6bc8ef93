"""A group of ranks that take and drop the same requests in the same order.

The ranks of one server (pipeline stages x tensor ranks x context ranks) each have a `Group`; one of
them is the entry, which clients talk to. Every rank tells what it knows of a request (`prepared`,
`bootstrapped`, `failed`, `transferred`, `transfer_failed`) and does what `decisions` returns, in
that order and nothing else.

Rule 1: the tables decide (spec/handoff/group.py). The two parts of a rank are in rank.py and
        entry.py; the entry speaks to its own rank as to any other, by frames.
Rule 2: a rank that is gone ends the group. What it was to run is answered, and `ended` says why;
        each rank then gives back what its requests hold, and the server starts another group.
Rule 3: every request comes to one answer: served, or refused with status 500 and a reason.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import Final, TypeVar

from pdproto.group.entry import TIMERS as ENTRY_TIMERS
from pdproto.group.entry import Answer, EntryPart, Submitted
from pdproto.group.rank import TIMERS as RANK_TIMERS
from pdproto.group.rank import Arrival, Decision, RankPart
from pdproto.group.waits import Waits
from pdproto.node.metrics import Metrics
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import (
    PAYLOAD_MAX,
    AnyDecision,
    AnyFrame,
    AnyVote,
    Batch,
    GroupFrame,
    Life,
    Request,
)
from pdproto.spec.handoff.group import Verdict
from pdproto.transport.event_loop import Link, Peer, Shell

log = logging.getLogger("pdproto.group")

T = TypeVar("T")

JOIN_S: Final = 60.0  # how long a rank may take to appear
OPEN_MAX: Final = 1 << 17  # lives between the oldest that is open and the newest


class Group(Shell):
    """One rank of a group. All methods return at once. One thread, the scheduler's, calls those
    that are for it; any thread calls the others.

    ranks: where each rank listens, by its index, in the words of ZeroMQ; the same on all ranks.
    me: this rank's index. entry: the index of the rank that decides. slots: metadata slots, so many
    requests are admitted at once; they are numbered from 0 on, and the same on all ranks.
    stop: called in the loop, again and again, when a transfer is overdue: it has this rank's engine
    stop what it does for the request, and returns whether nothing is under way any more. waits:
    seconds by name of timer. trace: is told of every row that fires.
    """

    def __init__(  # noqa: PLR0913 - a rank is told this much, and all but four may be left out
        self,
        name: str,
        ranks: Mapping[int, str],
        *,
        me: int,
        slots: int,
        stop: Callable[[Life], bool],
        entry: int = 0,
        link: Link | None = None,
        waits: Mapping[str, float] | None = None,
        trace: SharedTrace | None = None,
    ) -> None:
        if me not in ranks or entry not in ranks:
            raise ValueError(f"group {name}: rank {me} and entry {entry}: want two of {[*ranks]}")
        if slots < 1:
            raise ValueError(f"group {name}: {slots} slots: nothing could ever be admitted")
        self._rank_waits: Final = Waits(RANK_TIMERS, waits)
        self._entry_waits: Final = Waits(ENTRY_TIMERS, waits)
        super().__init__(f"{name}.{me}", replace(link or Link(), bind=ranks[me]))
        self.me: Final = me
        self.entry: Final = entry
        self.ended: str | None = None
        self.metrics: Final = Metrics({"node": self.name, "role": "group"})
        self._names: Final = {index: f"{name}.{index}" for index in ranks}
        self._index: Final = {name: index for index, name in self._names.items()}
        self._own: Final[deque[GroupFrame]] = deque()
        self._rank: Final = RankPart(me, [*ranks], say=lambda vote: self._tell(entry, vote),
                                     stop=stop, waits=self._rank_waits, metrics=self.metrics,
                                     trace=trace)
        self._entry: Final = EntryPart([*ranks], slots, say=self._tell, waits=self._entry_waits,
                                       metrics=self.metrics, trace=trace,
                                       ) if me == entry else None
        self._lock: Final = threading.Lock()
        self._generation = 0
        # What the scheduler knows, in its own thread: requests that it has met; those of them that
        # it knows to be admitted, or has said to have failed before that; and those whose end it
        # heard of before it met them.
        self._met: Final[set[Life]] = set()
        self._admitted: Final[set[Life]] = set()
        self._failed: Final[set[Life]] = set()
        self._over: Final[set[Life]] = set()
        for index, endpoint in ranks.items():
            if index != me:
                # Silence counts from here on, so a rank that starts late gets its time in advance.
                self.connect(self._names[index], endpoint).heard = monotonic() + JOIN_S
        self.start()

    # For clients, at the entry

    def submit(
        self, room: int, payload: bytes = b"",
        on_answer: Callable[[Submitted], None] | None = None,
    ) -> Submitted:
        """Have the group serve a request. payload: what every rank is to know of it, up to 1 MiB.

        on_answer: called once, in the loop, with the answer; it must return at once. Without it
        the request is one of those that `answers` returns, which is to be called then.
        Raises LocalProtocolError at a rank that is not the entry, after the end of the group, and
        while too many lives are open.
        """
        entry = self._decider()
        if self.ended is not None:
            raise LocalProtocolError(f"group {self.name} has ended: {self.ended}")
        if len(payload) > PAYLOAD_MAX:
            raise LocalProtocolError(f"room {room}: a payload of {len(payload):,} bytes; "
                                     f"{PAYLOAD_MAX:,} is the limit")
        with self._lock:
            if self._generation - entry.floor >= OPEN_MAX:
                raise LocalProtocolError(f"room {room}: {OPEN_MAX:,} requests are open: come again")
            submitted = Submitted(Life(room, self.incarnation, self._generation), payload,
                                  on_answer)
            self._generation += 1
            self.ask(lambda: entry.submit(submitted, monotonic()))
        return submitted

    def abort(self, request: Submitted, reason: str = "aborted by the client") -> None:
        """Refuse a request that has not been admitted. One that runs is ended by its ranks: each
        has its engine stop, and calls `transfer_failed`.
        """
        entry = self._decider()
        self.ask(lambda: entry.abort(request, reason, monotonic()))

    @staticmethod
    def answer(request: Submitted) -> Answer | None:
        """What the client is told; None until the group has decided. Asking changes nothing."""
        return request.answer

    def answers(self) -> list[Submitted]:
        """The requests without `on_answer` that have been answered since the last call."""
        return _drained(self._decider().answers)

    # For the scheduler, at every rank

    def arrivals(self) -> list[Arrival]:
        """The requests that have reached this rank since the last call, each once."""
        arrived = [a for a in _drained(self._rank.arrivals) if a.life not in self._over]
        self._over.clear()
        self._met.update(arrival.life for arrival in arrived)
        return arrived

    def decisions(self) -> list[Decision]:
        """What is to be done now, in this order; each decision once. All ranks get the same."""
        return [self._known(decision) for decision in _drained(self._rank.decisions)]

    def _known(self, decision: Decision) -> Decision:
        """The decision as the scheduler is to see it, who knows of it from now on."""
        life = decision.life
        if decision.verdict is Verdict.ADMIT:
            self._admitted.add(life)
            # It has been applied before the scheduler's word came: the table knows by now.
            return replace(decision, transfers=False) if life in self._failed else decision
        if decision.arrived and life not in self._met:
            self._over.add(life)
        for knowing in (self._met, self._admitted, self._failed):
            knowing.discard(life)
        return decision

    def prepared(self, life: Life) -> None:
        """Everything local is ready: grammar, prefetch."""
        self._call("prepared", life)

    def bootstrapped(self, life: Life) -> None:
        """The other side is there as well. Nobody looks again after this."""
        self._call("bootstrapped", life)

    def failed(self, life: Life, reason: str) -> None:
        """This rank cannot take part, also if it was bootstrapped. Nothing more is said of it."""
        if life in self._met:
            self._failed.add(life)
        self._call("failed", life, reason)

    def transferred(self, life: Life) -> None:
        """This rank's part of the transfer has ended well."""
        self._call("transferred", life)

    def transfer_failed(self, life: Life, reason: str) -> None:
        """This rank's part has ended otherwise, and the engine touches nothing any more."""
        self._call("transfer_failed", life, reason)

    def _call(self, name: str, life: Life, reason: str = "") -> None:
        seen = int(life in self._admitted)
        self.ask(lambda: self._rank.call(name, life, reason, seen, monotonic()))

    def _decider(self) -> EntryPart:
        if self._entry is None:
            raise LocalProtocolError(f"{self.name} is not the entry of its group: that is "
                                     f"{self._names[self.entry]}")
        return self._entry

    # In the loop

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        index = self._index[peer.name]
        for frame in batch.frames:
            try:
                self._hear(index, frame, batch.incarnation)
            except RemoteProtocolError as error:
                self.metrics.add("refused_frames")
                log.warning("%s: dropped a message of %s: %s", self.name, peer.name, error)
        if index == self.entry:
            self._rank.raise_floor(batch.floor)

    def _hear(self, index: int, frame: AnyFrame, incarnation: int) -> None:
        """What a rank says. Raises RemoteProtocolError for what it may not say."""
        now = monotonic()
        decider = self.incarnation if isinstance(frame, AnyVote) else incarnation
        if frame.life.incarnation != decider:
            raise RemoteProtocolError(f"{frame.life} is of another group than this one")
        if isinstance(frame, AnyVote):
            if self._entry is None:
                raise RemoteProtocolError(f"{frame.message} is for the entry")
            self._entry.hear(index, frame, now)
        elif index != self.entry:
            raise RemoteProtocolError(f"{frame.message} comes from the entry")
        elif isinstance(frame, Request):
            self._rank.arrive(frame, now)
        elif isinstance(frame, AnyDecision):
            self._rank.decide(frame, now)
        else:
            raise RemoteProtocolError(f"{frame.message} is no message of a group")

    def _greeted(self, batch: Batch) -> Peer:
        raise RemoteProtocolError(f"{batch.node} is no rank of this group")

    def on_malformed(self, _who: str) -> None:
        self.metrics.add("malformed_frames")

    def on_lost(self, peer: Peer, why: str) -> None:
        index = self._index[peer.name]
        self.metrics.add("lost_peers")
        self.ended = self.ended or f"{peer.name} is gone: {why}"
        self._rank.lose(index)
        if self._entry is not None:
            self._entry.lose(index, why)

    def on_returned(self, peer: Peer) -> None:
        """What was under way to it may be lost, and so may what it said: ask again at once."""
        self._entry_waits.hasten(monotonic())
        if self._index[peer.name] == self.entry:
            self._rank_waits.hasten(monotonic())

    def on_turn(self, now: float) -> float | None:
        if self._entry is not None:
            self._entry.serve(now)
        self._rank.serve(now)
        while self._own:
            self._hear(self.me, self._own.popleft(), self.incarnation)
        if self._entry is not None:
            self._rank.raise_floor(self._entry.floor)
        waits = self._rank.next, self._entry.next if self._entry is not None else None
        return min((wait for wait in waits if wait is not None), default=None)

    def floor(self) -> int:
        return self._entry.floor if self._entry is not None else 0

    def _tell(self, index: int, frame: GroupFrame) -> None:
        if index == self.me:
            self._own.append(frame)
        elif not (peer := self.peers[self._names[index]]).lost:
            self.say(peer, frame)

    def __repr__(self) -> str:
        decider = "" if self._entry is None else f", {self._entry!r}"
        return f"<Group {self.name}: {self._rank!r}{decider}>"


def _drained(queue: deque[T]) -> list[T]:
    """What is in the queue, taken out of it; another thread may go on putting things in."""
    drained: list[T] = []
    while queue:
        drained.append(queue.popleft())
    return drained
