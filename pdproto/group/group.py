"""A group of ranks that take and drop the same requests in the same order.

The ranks of one server (pipeline stages x tensor ranks x context ranks) each have a `Group`; one of
them is the entry, which clients talk to. Every rank tells what it knows of a request (`prepared`,
`bootstrapped`, `failed`, `transferred`, `transfer_failed`) and does what `decisions` returns, in
that order and nothing else.

A rank itself is in core.py, and its rules there. Here is the side of the application.

Every request comes to one answer: served, or refused with status 500 and a reason.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Final, TypeVar

from pdproto.group.core import GroupCore
from pdproto.group.entry import Answer, EntryPart, Submitted
from pdproto.group.rank import Arrival, Decision
from pdproto.node.link import Link
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import PAYLOAD_MAX, Life
from pdproto.spec.handoff.group import Verdict
from pdproto.transport.event_loop import EventLoop
from pdproto.transport.incarnation import new_incarnation

T = TypeVar("T")

OPEN_MAX: Final = 1 << 17  # lives between the oldest that is open and the newest


class Group:
    """One rank of a group. All methods return at once. One thread, the scheduler's, calls those
    that are for it; any thread calls the others.

    ranks: where each rank listens, by its index, in the words of ZeroMQ; the same on all ranks.
    me: this rank's index. entry: the index of the rank that decides. slots: metadata slots, so many
    requests are admitted at once; they are numbered from 0 on, and the same on all ranks.
    stop: called in the loop, again and again, when a transfer is overdue: it has this rank's engine
    stop what it does for the request, and returns whether nothing is under way any more. waits:
    seconds by name of timer. trace: is told of every row that fires.
    """

    _kind: ClassVar[type[GroupCore]] = GroupCore

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
        link = replace(link or Link(), bind=ranks.get(me, ""))
        core = self._kind(name, ranks, me=me, slots=slots, stop=stop, entry=entry, link=link,
                          incarnation=new_incarnation(), waits=waits, trace=trace)
        self.name: Final = core.name
        self.me: Final = me
        self.entry: Final = entry
        self.metrics: Final = core.metrics
        self._core = core
        self._loop: Final = EventLoop(core, link)
        self.endpoint: Final = self._loop.endpoint
        self._lock: Final = threading.Lock()
        self._generation = 0
        # What the scheduler knows, in its own thread: requests that it has met; those of them that
        # it knows to be admitted, or has said to have failed before that; and those whose end it
        # heard of before it met them.
        self._met: Final[set[Life]] = set()
        self._admitted: Final[set[Life]] = set()
        self._failed: Final[set[Life]] = set()
        self._over: Final[set[Life]] = set()
        self._loop.start()

    @property
    def ended(self) -> str | None:
        """Why the group has ended; None while it serves."""
        return self._core.ended

    def health(self) -> str | None:
        """Why nothing can go on here; None while something can."""
        return self._loop.stalled() or self._core.problem()

    def close(self) -> None:
        """Tell the other ranks, and stop. It may be called twice."""
        self._loop.close()

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
            submitted = Submitted(Life(room, self._core.incarnation, self._generation), payload,
                                  on_answer)
            self._generation += 1
            self._core.ask(lambda: self._core.submit(submitted))
        return submitted

    def abort(self, request: Submitted, reason: str = "aborted by the client") -> None:
        """Refuse a request that has not been admitted. One that runs is ended by its ranks: each
        has its engine stop, and calls `transfer_failed`.
        """
        self._decider()
        self._core.ask(lambda: self._core.abort(request, reason))

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
        arrived = [a for a in _drained(self._core.rank.arrivals) if a.life not in self._over]
        self._over.clear()
        self._met.update(arrival.life for arrival in arrived)
        return arrived

    def decisions(self) -> list[Decision]:
        """What is to be done now, in this order; each decision once. All ranks get the same."""
        return [self._known(decision) for decision in _drained(self._core.rank.decisions)]

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
        self._core.ask(lambda: self._core.call(name, life, reason, seen))

    def _decider(self) -> EntryPart:
        decider = self._core.decider
        if decider is None:
            raise LocalProtocolError(f"{self.name} is not the entry of its group: that is "
                                     f"{self._core.names[self.entry]}")
        return decider

    def __repr__(self) -> str:
        return repr(self._core)


def _drained(queue: deque[T]) -> list[T]:
    """What is in the queue, taken out of it; another thread may go on putting things in."""
    drained: list[T] = []
    while queue:
        drained.append(queue.popleft())
    return drained
