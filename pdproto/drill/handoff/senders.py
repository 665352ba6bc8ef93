"""The scheduler of a prefill server of one rank: it runs requests, and hands them over.

A rank that is to be drained drains as soon as it has opened its last request, with its hand-overs
under way.
"""

from collections.abc import Iterator
from time import monotonic, sleep
from typing import Final

from pdproto.drill.handoff.load import LoadRequest
from pdproto.drill.handoff.rank import POLL_S, Drained, Work
from pdproto.node.handle import ENDED
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll

EMPTY_S: Final = 30.0  # for decode to be done with the last hand-over after it has ended here


class Senders:
    """The scheduler of such a server. It ends when every request has ended."""

    def __init__(self, work: Work) -> None:
        self.rank, self.node, self.report = work.rank, work.node, work.report
        self.pools, self.pool = work.pools, work.pool
        self.open: dict[int, tuple[LoadRequest, Sender, tuple[int, ...], float]] = {}
        self.sent: set[int] = set()
        self.aborted: set[int] = set()

    def run(self) -> Iterator[None]:
        load, emptied = self.rank.load, None
        end = load.requests if self.rank.drains_at is None else self.rank.drains_at
        upcoming, early = self.rank.first, 0
        while upcoming < end or self.open:
            while upcoming < end and len(self.open) < load.in_flight:
                if not self._begin(load.request(upcoming)):
                    break
                upcoming += 1
            if emptied is None and upcoming == self.rank.drains_at:
                under_way, began = len(self.open), monotonic()
                emptied = self.node.drain()
            if emptied is not None and emptied.done():
                early = early or sum(one.poll() not in ENDED for _, one, *_ in self.open.values())
            for room in list(self.open):
                self._look(room)
            yield
            sleep(POLL_S)
        if emptied is not None:
            emptied.result(EMPTY_S)
            self.report.drained = Drained(under_way, early, monotonic() - began)

    def _begin(self, request: LoadRequest) -> bool:
        """Run the forward pass of a request: fill its pages, and open its hand-over."""
        share = self.rank.topology.share(self.rank.name, request.pages)
        pages = self.pool.take(len(share))
        if pages is None:
            return False
        self.rank.run_forward(request, pages, self.pools)
        sender = self.node.open(request.room, lambda: self.pool.give(pages))
        self.open[request.room] = request, sender, pages, monotonic()
        return True

    def _look(self, room: int) -> None:
        request, sender, pages, opened = self.open[room]
        poll = sender.poll()
        if room not in self.aborted and request.left("prefill", opened, monotonic()):
            self.aborted.add(room)
            sender.abort("the client has left")
        elif poll is KVPoll.WAITING_FOR_INPUT and room not in self.sent:
            self.sent.add(room)
            self.rank.send(request, sender, pages)
        elif poll in (KVPoll.SUCCESS, KVPoll.FAILED):
            self.report.outcomes[room] = poll is KVPoll.SUCCESS
            if poll is KVPoll.FAILED:
                self.report.reasons[room] = sender.failure or ""
            del self.open[room]
            self.sent.discard(room)
