"""A group of ranks that start and end the same requests in the same order.

Each rank of one server (pipeline stages x tensor ranks x context ranks) has a `Group`. One of them
is the entry, to which clients send requests. Every rank reports the progress of a request
(`prepared`, `bootstrapped`, `failed`, `transferred`, `transfer_failed`). It carries out exactly
what `decisions` returns, in that order.

Every request gets one answer: served, or refused with status 500 and a reason.

This module is the side of the application. The rank itself and its rules are in node.py.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from pdproto.group.entry import Answer, EntryPart, Submitted
from pdproto.group.node import GroupNode
from pdproto.group.passes import PassOptions
from pdproto.group.rank import Arrival, Decision
from pdproto.node.link import Link
from pdproto.runtime import checked
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.limits import PAYLOAD_MAX
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.group import Verdict
from pdproto.transport.event_loop import EventLoop
from pdproto.transport.incarnation import new_incarnation

T = TypeVar("T")

OPEN_MAX: Final = 1 << 17  # lives from the oldest open one to the newest


class Group:
    """One rank of a group. All methods return at once. Only the scheduler's thread may call the
    methods "for the scheduler"; any thread may call the others.

    ranks: the ZeroMQ endpoint of each rank, by its index; the same on all ranks. me: the index of
    this rank. entry: the index of the rank that decides. slots: the number of metadata slots, which
    limits the admitted requests; slots are numbered from 0, the same on all ranks. stop: called in
    the loop, repeatedly, when a transfer is overdue. It makes this rank's engine stop the transfer,
    and returns whether the engine has stopped. link: how the rank communicates; its `bind` is
    replaced. waits: seconds by name of timer. trace: records every row that fires.

    Raises ValueError for a rank or an entry that is not in `ranks`, and for less than 1 slot;
    OSError if it cannot listen.
    """

    _passes: PassOptions | None = None

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
        self._stops: Final = checked.function("stop", stop)
        link = replace(link or Link(), bind=ranks.get(me) or Link().bind)
        node = GroupNode(name, ranks, me=me, slots=slots, stop=self._stop, entry=entry, link=link,
                         incarnation=new_incarnation(), waits=waits, trace=trace,
                         passes=self._passes)
        core = node.core
        self.name: Final = core.name
        self.me: Final = me
        self.entry: Final = entry
        self.metrics: Final = core.metrics
        self._node: Final = node
        self._core: Final = core
        self._loop: Final = EventLoop(core, link)
        self.endpoint: Final = self._loop.endpoint
        self._lock: Final = threading.Lock()
        self._generation = 0
        # The scheduler's view, for its own thread: requests that have arrived; those of them that
        # were admitted; those that it has reported as failed before; and requests that ended before
        # they arrived.
        self._met: Final[set[Life]] = set()
        self._admitted: Final[set[Life]] = set()
        self._failed: Final[set[Life]] = set()
        self._over: Final[set[Life]] = set()
        self._loop.start()

    def _stop(self, life: Life) -> bool:
        """In the loop: have the application stop the engine. After an error it is asked again."""
        return bool(self._core.tell("stop", self._stops, life))

    @property
    def ended(self) -> str | None:
        """Why the group has ended; None while it serves."""
        return self._node.members.ended

    def health(self) -> str | None:
        """Why no request can make progress here; None while some can."""
        return self._loop.stalled() or self._core.problem()

    def close(self) -> None:
        """Tell the other ranks, and stop. A second call does nothing."""
        self._loop.close()

    # For clients, at the entry

    def submit(
        self, room: int, payload: bytes = b"",
        on_answer: Callable[[Submitted], None] | None = None, *, request_id: str = "",
    ) -> Submitted:
        """Start a request on all ranks.

        payload: data for every rank, up to 1 MiB. request_id: see `Submitted`; the room if it is
        empty. on_answer: called once, in the loop, when the
        request has its answer; it must return at once. Without it, `answers` returns the request,
        so that method must be called regularly.

        Raises LocalProtocolError at a rank that is not the entry, after the end of the group, and
        while too many requests are open; TypeError or ValueError for a room that is no such number,
        and for a payload that is no bytes, or too large.
        """
        entry = self._decider()
        if self.ended is not None:
            raise LocalProtocolError(f"group {self.name} has ended: {self.ended}")
        room, payload = checked.room(room), checked.row("payload", payload, PAYLOAD_MAX)
        told = None if on_answer is None else partial(
            self._core.tell, "on_answer", checked.function("on_answer", on_answer))
        with self._lock:
            if self._generation - entry.floor >= OPEN_MAX:
                raise LocalProtocolError(f"room {room}: {OPEN_MAX:,} requests are open: try again "
                                         f"later")
            submitted = Submitted(Life(room, self._core.incarnation, self._generation), payload,
                                  told, request_id=request_id or str(room))
            self._generation += 1
            self._core.ask(lambda: self._node.submit(submitted))
        return submitted

    def abort(self, request: Submitted, reason: str = "aborted by the client") -> None:
        """Refuse a request that has not been admitted. To end an admitted one, each rank stops its
        engine, and calls `transfer_failed`. Raises LocalProtocolError at a rank that is not the
        entry.
        """
        self._decider()
        told = checked.reason(reason)
        self._core.ask(lambda: self._node.abort(request, told))

    @staticmethod
    def answer(request: Submitted) -> Answer | None:
        """The answer for the client; None until the group has decided."""
        return request.answer

    def answers(self) -> list[Submitted]:
        """The requests without `on_answer` that have got their answer since the last call. Raises
        LocalProtocolError at a rank that is not the entry.
        """
        return _drained(self._decider().answers)

    # For the scheduler, at every rank

    def arrivals(self) -> list[Arrival]:
        """The requests that have reached this rank since the last call, each once."""
        arrived = [a for a in _drained(self._node.rank.arrivals) if a.life not in self._over]
        self._over.clear()
        self._met.update(arrival.life for arrival in arrived)
        return arrived

    def decisions(self) -> list[Decision]:
        """The decisions to carry out now, in this order; each once. All ranks get the same ones."""
        return [self._known(decision) for decision in _drained(self._node.rank.decisions)]

    def _known(self, decision: Decision) -> Decision:
        """The decision as the scheduler gets it. Notes that the scheduler knows it."""
        life = decision.life
        if decision.verdict is Verdict.ADMIT:
            self._admitted.add(life)
            # The table has applied it before the scheduler's report of the failure came.
            return replace(decision, transfers=False) if life in self._failed else decision
        if decision.arrived and life not in self._met:
            self._over.add(life)
        for knowing in (self._met, self._admitted, self._failed):
            knowing.discard(life)
        return decision

    def prepared(self, life: Life) -> None:
        """Report that the local preparations are done: grammar, prefetch."""
        self._call("prepared", life)

    def bootstrapped(self, life: Life) -> None:
        """Report that the other server is ready for this request. This is final."""
        self._call("bootstrapped", life)

    def failed(self, life: Life, reason: str) -> None:
        """Report that this rank cannot take part in the request. This is final, and also allowed
        after `bootstrapped`.
        """
        if life in self._met:
            self._failed.add(life)
        self._call("failed", life, reason)

    def transferred(self, life: Life) -> None:
        """Report that this rank's part of the transfer has succeeded."""
        self._call("transferred", life)

    def transfer_failed(self, life: Life, reason: str) -> None:
        """Report that this rank's part of the transfer has failed, and that the engine no longer
        reads or writes its memory.
        """
        self._call("transfer_failed", life, reason)

    def _call(self, name: str, life: Life, reason: str = "") -> None:
        told = checked.reason(reason)
        seen = int(checked.one_of("life", life, Life) in self._admitted)
        self._core.ask(lambda: self._node.call(name, life, told, seen))

    def _decider(self) -> EntryPart:
        decider = self._node.decider
        if decider is None:
            raise LocalProtocolError(f"{self.name} is not the entry of its group: call "
                                     f"{self._node.members.names[self.entry]}")
        return decider

    def __repr__(self) -> str:
        return repr(self._node)


def _drained(queue: deque[T]) -> list[T]:
    """Take all items out of the queue. Another thread may add items at the same time."""
    drained: list[T] = []
    while queue:
        drained.append(queue.popleft())
    return drained
