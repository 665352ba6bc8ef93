"""The scheduler of a prefill server of one rank: it runs requests, and hands them over."""

from collections.abc import Iterator
from time import monotonic, sleep

from pdproto.drill.handoff.load import LoadRequest
from pdproto.drill.handoff.rank import POLL_S, Work
from pdproto.node.sender import Sender
from pdproto.spec.handoff.poll import KVPoll


class Senders:
    """The scheduler of such a server. It ends when every request has ended."""

    def __init__(self, work: Work) -> None:
        self.rank, self.node, self.report = work.rank, work.node, work.report
        self.pools, self.pool = work.pools, work.pool
        self.open: dict[int, tuple[LoadRequest, Sender, tuple[int, ...], float]] = {}
        self.sent: set[int] = set()
        self.aborted: set[int] = set()

    def run(self) -> Iterator[None]:
        load = self.rank.load
        upcoming = self.rank.first
        while upcoming < load.requests or self.open:
            while upcoming < load.requests and len(self.open) < load.in_flight:
                if not self._begin(load.request(upcoming)):
                    break
                upcoming += 1
            for room in list(self.open):
                self._look(room)
            yield
            sleep(POLL_S)

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
