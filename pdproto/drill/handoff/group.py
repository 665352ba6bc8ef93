"""The scheduler of a prefill rank that is one of several: it does what the group decides.

The entry submits the requests and has some aborted. Every rank opens its senders as requests
arrive, votes when their sinks are there, runs the forward and sends when they are admitted, and
gives up or lets go only by decision. When the group ends, because a rank of it is gone, each rank
gives up what it has, and stops: the server is started anew as a whole.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from time import monotonic, sleep
from typing import Final

from pdproto.drill.handoff.load import LoadRequest
from pdproto.drill.handoff.rank import POLL_S, Work
from pdproto.group.entry import Submitted
from pdproto.group.group import Group
from pdproto.group.rank import Arrival, Decision
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.group import Verdict
from pdproto.spec.handoff.poll import KVPoll

ENDED: Final = (KVPoll.SUCCESS, KVPoll.FAILED)


class Said(Enum):
    """The last event of a request that this rank reported to the group."""

    PREPARED = auto()
    BOOTSTRAPPED = auto()
    ADMITTED = auto()  # this the group has told the rank
    NOTHING_MORE = auto()


@dataclass(slots=True)
class GroupedRequest:
    """A request at this rank."""

    request: LoadRequest
    sender: Sender
    pages: tuple[int, ...]
    said: Said = Said.PREPARED


class GroupedSenders:
    """The scheduler of a rank of a group. It ends when every request has ended at this rank."""

    def __init__(self, work: Work) -> None:
        rank = work.rank
        self.rank, self.node, self.report = rank, work.node, work.report
        self.pools, self.pool = work.pools, work.pool
        self.held: Final[dict[Life, GroupedRequest]] = {}
        self.arrived: Final[deque[Arrival]] = deque()
        self.closing: Final[list[GroupedRequest]] = []
        self.clients: Final[dict[int, tuple[LoadRequest, Submitted, float]]] = {}
        self.upcoming = rank.first
        self.concluded = 0
        me = rank.topology.prefill.index(rank.name)
        self.group = self._made(work, me)

    def _made(self, work: Work, me: int) -> Group:
        rank = work.rank
        return Group("prefill", dict(enumerate(rank.group)), me=me, slots=rank.load.in_flight,
                     stop=self._stop, trace=work.trace)

    def run(self) -> Iterator[None]:
        load = self.rank.load
        while self.concluded < load.requests - self.rank.first or self.closing:
            if self.group.ended is None:
                self._take_part()
            else:
                self._give_up(self.group.ended)
            self._close()
            yield
            sleep(POLL_S)

    def _take_part(self) -> None:
        if self.group.me == self.group.entry:
            with suppress(LocalProtocolError):  # of a group that has ended just now
                self._serve_clients()
        self.arrived.extend(self.group.arrivals())
        while self.arrived and self._arrive(self.arrived[0]):
            self.arrived.popleft()
        for life, held in self.held.items():
            if held.said is not Said.NOTHING_MORE:
                self._look(life, held)
        for decision in self.group.decisions():
            self._apply(decision)

    def _serve_clients(self) -> None:
        """At the entry: submit new requests, abort some of them, and forget the answered ones."""
        load = self.rank.load
        while self.upcoming < load.requests and len(self.clients) < load.in_flight:
            self.clients[self.upcoming] = (
                load.request(self.upcoming), self.group.submit(self.upcoming), monotonic())
            self.upcoming += 1
        now = monotonic()
        for request, submitted, since in self.clients.values():
            if request.left("prefill", since, now):
                self.group.abort(submitted, "the client has left")
        for answered in self.group.answers():
            self.clients.pop(answered.life.room, None)

    def _arrive(self, arrival: Arrival) -> bool:
        """Open the hand-over of a request that arrived. Returns False while no pages are free."""
        request = self.rank.load.request(arrival.life.room)
        share = self.rank.topology.share(self.rank.name, request.pages)
        pages = self.pool.take(len(share))
        if pages is None:
            return False
        sender = self.node.open(request.room, lambda: self.pool.give(pages))
        self.held[arrival.life] = GroupedRequest(request, sender, pages)
        self.group.prepared(arrival.life)
        return True

    def _look(self, life: Life, held: GroupedRequest) -> None:
        """Report the state of the request at this rank to the group."""
        poll = held.sender.poll()
        if held.said is Said.ADMITTED and poll is KVPoll.SUCCESS:
            held.said = Said.NOTHING_MORE
            self.group.transferred(life)
        elif held.said is Said.ADMITTED and poll is KVPoll.FAILED and held.sender.released:
            held.said = Said.NOTHING_MORE
            self.group.transfer_failed(life, held.sender.failure or "")
        elif held.said in (Said.PREPARED, Said.BOOTSTRAPPED) and poll is KVPoll.FAILED:
            held.said = Said.NOTHING_MORE
            self.group.failed(life, held.sender.failure or "")
        elif held.said is Said.PREPARED and poll is KVPoll.WAITING_FOR_INPUT:
            held.said = Said.BOOTSTRAPPED
            self.group.bootstrapped(life)

    def _apply(self, decision: Decision) -> None:
        held = self.held.get(decision.life)
        if held is None:  # it has failed before it came
            self._forget(decision)
            return
        if decision.verdict is Verdict.ADMIT:
            held.said = Said.ADMITTED if decision.transfers else Said.NOTHING_MORE
            if decision.transfers:
                self._send(held)
            return
        if held.sender.poll() not in ENDED:
            held.sender.abort(decision.reason)
        del self.held[decision.life]
        self.closing.append(held)
        self.concluded += 1

    def _send(self, held: GroupedRequest) -> None:
        """Run the forward pass of an admitted request, and send its pages."""
        self.rank.run_forward(held.request, held.pages, self.pools)
        self.rank.send(held.request, held.sender, held.pages)

    def _forget(self, decision: Decision) -> None:
        room = decision.life.room
        kept = [one for one in self.arrived if one.life != decision.life]
        self.arrived.clear()
        self.arrived.extend(kept)
        self.report.outcomes[room] = False
        self.report.reasons[room] = decision.reason
        self.concluded += 1

    def _give_up(self, why: str) -> None:
        """Give up every request at the end of the group: no further decision will come."""
        self.report.ended = why
        self.group.arrivals()
        self.group.decisions()
        self.arrived.clear()
        for held in self.held.values():
            if held.sender.poll() not in ENDED:
                held.sender.abort(why)
        self.closing.extend(self.held.values())
        self.held.clear()
        self.concluded = self.rank.load.requests

    def _close(self) -> None:
        for held in [one for one in self.closing if one.sender.poll() in ENDED]:
            self.closing.remove(held)
            room, success = held.request.room, held.sender.poll() is KVPoll.SUCCESS
            self.report.outcomes[room] = success
            if not success:
                self.report.reasons[room] = held.sender.failure or ""

    def _stop(self, life: Life) -> bool:
        """In the group's loop: stop the engine's work for an overdue request."""
        held = self.held.get(life)
        if held is None:
            return True
        if held.sender.poll() not in ENDED:
            held.sender.abort("the group has waited too long")
        return held.sender.released
