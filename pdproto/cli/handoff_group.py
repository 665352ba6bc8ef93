"""The scheduler of a prefill rank that is one of several: it does what the group decides.

The entry submits the requests and has some aborted. Every rank opens its senders as requests
arrive, votes when their sinks are there, runs the forward and sends when they are admitted, and
gives up or lets go only by decision.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from pdproto.cli.handoff_load import Pages, Request
from pdproto.net.group import Group
from pdproto.net.group_entry import Submitted
from pdproto.net.group_rank import Arrival, Decision
from pdproto.net.prefill import PrefillNode
from pdproto.net.sender import Sender
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.group import Verdict
from pdproto.spec.handoff.poll import KVPoll

if TYPE_CHECKING:
    from pdproto.cli.handoff_ranks import Pool, Rank, Report

POLL_S: Final = 0.0005
ENDED: Final = (KVPoll.SUCCESS, KVPoll.FAILED)


class Said(Enum):
    """The last thing that this rank has told the group of a request."""

    PREPARED = auto()
    BOOTSTRAPPED = auto()
    ADMITTED = auto()  # this the group has told the rank
    NOTHING_MORE = auto()


@dataclass(slots=True)
class Held:
    """A request at this rank."""

    request: Request
    sender: Sender
    pages: tuple[int, ...]
    said: Said = Said.PREPARED


class GroupedSenders:
    """See above. It ends when every request has come to its end here."""

    def __init__(
        self, rank: "Rank", node: PrefillNode, pools: Pages, pool: "Pool", report: "Report"
    ) -> None:
        self.rank, self.node, self.pools, self.pool = rank, node, pools, pool
        self.report: Final = report
        self.held: Final[dict[Life, Held]] = {}
        self.arrived: Final[deque[Arrival]] = deque()
        self.closing: Final[list[Held]] = []
        self.clients: Final[dict[int, tuple[Submitted, float]]] = {}
        self.concluded = 0
        me = rank.topology.prefill.index(rank.name)
        self.group: Final = Group("prefill", dict(enumerate(rank.group)), me=me,
                                  slots=rank.load.in_flight, stop=self._stop)

    def run(self) -> Iterator[None]:
        load = self.rank.load
        submitted = 0
        while self.concluded < load.requests or self.closing:
            while (self.group.me == self.group.entry and submitted < load.requests
                   and len(self.clients) < load.in_flight):
                request = self.group.submit(submitted)
                self.clients[submitted] = request, monotonic()
                submitted += 1
            self._serve_clients()
            self.arrived.extend(self.group.arrivals())
            while self.arrived and self._arrive(self.arrived[0]):
                self.arrived.popleft()
            for life, held in self.held.items():
                self._look(life, held)
            for decision in self.group.decisions():
                self._apply(decision)
            self._close()
            yield
            sleep(POLL_S)

    def _serve_clients(self) -> None:
        """At the entry: some clients leave, the others get their answers."""
        if self.group.me != self.group.entry:
            return
        for room, (submitted, since) in self.clients.items():
            if self.rank.load.request(room).left("prefill", since, monotonic()):
                self.group.abort(submitted, "the client has left")
        for answered in self.group.answers():
            self.clients.pop(answered.life.room, None)

    def _arrive(self, arrival: Arrival) -> bool:
        """Open the hand-over of a request that has come; False while there are no pages for it."""
        request = self.rank.load.request(arrival.life.room)
        share = self.rank.topology.share(self.rank.name, request.pages)
        pages = self.pool.take(len(share))
        if pages is None:
            return False
        sender = self.node.open(request.room, lambda: self.pool.give(pages))
        self.held[arrival.life] = Held(request, sender, pages)
        self.group.prepared(arrival.life)
        return True

    def _look(self, life: Life, held: Held) -> None:
        """Tell the group what has come of the request here."""
        poll, failure = held.sender.poll(), held.sender.failure or ""
        if held.said is Said.ADMITTED and poll is KVPoll.SUCCESS:
            held.said = Said.NOTHING_MORE
            self.group.transferred(life)
        elif held.said is Said.ADMITTED and poll is KVPoll.FAILED and held.sender.released:
            held.said = Said.NOTHING_MORE
            self.group.transfer_failed(life, failure)
        elif held.said in (Said.PREPARED, Said.BOOTSTRAPPED) and poll is KVPoll.FAILED:
            held.said = Said.NOTHING_MORE
            self.group.failed(life, failure)
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
                self.rank.run_forward(held.request, held.pages, self.pools)
                self.rank.send(held.request, held.sender, held.pages)
            return
        if held.sender.poll() not in ENDED:
            held.sender.abort(decision.reason)
        del self.held[decision.life]
        self.closing.append(held)
        self.concluded += 1

    def _forget(self, decision: Decision) -> None:
        room = decision.life.room
        kept = [one for one in self.arrived if one.life != decision.life]
        self.arrived.clear()
        self.arrived.extend(kept)
        self.report.outcomes[room] = False
        self.report.reasons[room] = decision.reason
        self.concluded += 1

    def _close(self) -> None:
        for held in [one for one in self.closing if one.sender.poll() in ENDED]:
            self.closing.remove(held)
            room, success = held.request.room, held.sender.poll() is KVPoll.SUCCESS
            self.report.outcomes[room] = success
            if not success:
                self.report.reasons[room] = held.sender.failure or ""

    def _stop(self, life: Life) -> bool:
        """In the group's loop: end what the engine does for an overdue request."""
        held = self.held.get(life)
        if held is None:
            return True
        if held.sender.poll() not in ENDED:
            held.sender.abort("the group has waited too long")
        return held.sender.released
