"""The scheduler of a decode rank: it opens hand-overs in the order of the rooms, and verifies them.

While the prefill server is down nothing is begun. Open hand-overs fail when this rank notices the
loss, and only then does it look the server up in the registry again. A server that drains gets no
room from `drains_at` on.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

import numpy as np

from pdproto.drill.children import Pipe
from pdproto.drill.handoff.directory import Directory, Endpoints
from pdproto.drill.handoff.load import LoadRequest
from pdproto.drill.handoff.pools import Pools
from pdproto.drill.handoff.rank import POLL_S, GoOn, Hold, Pool, RankTask, Reached, Report
from pdproto.node.decode.receiver import Receiver
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode

NOT_SERVED: Final = "no prefill server was up to take it"


@dataclass(frozen=True, slots=True)
class _Open:
    """A request and its resources. where: the directory's answer when it was begun."""

    request: LoadRequest
    receiver: Receiver
    pages: tuple[int, ...]
    where: Endpoints
    since: float


class Receivers:
    """The scheduler of a decode rank. It ends when every request has ended."""

    def __init__(
        self,
        rank: RankTask,
        node: DecodeNode,
        pools: Mapping[str, Pools],
        pool: Pool,
        *,
        directory: Directory,
        report: Report,
        router: Pipe,
    ) -> None:
        self.rank, self.node, self.pools, self.pool = rank, node, pools, pool
        self.directory, self.report = directory, report
        self.publishing: deque[tuple[float, Receiver, dict[str, list[int]]]] = deque()
        self.open: dict[int, _Open] = {}
        self.aborted: set[int] = set()
        self._router: Final = router
        self._upcoming = 0
        self._held = False  # by the router
        self._last = rank.drains_at  # the room with which this rank holds by itself
        self._outlived: Endpoints | None = None  # where the server was that went down

    def run(self) -> Iterator[None]:
        load = self.rank.load
        while self._upcoming < load.requests or self.open:
            self._heed()
            while (self._upcoming < load.requests and len(self.open) < load.in_flight
                   and self._begin(load.request(self._upcoming))):
                self._upcoming += 1
            self._publish()
            for room in list(self.open):
                self._look(room)
            yield
            sleep(POLL_S)

    def _heed(self) -> None:
        """Follow the router's messages, and check whether this rank has noticed every lost rank."""
        while self._router.poll():
            said = self._router.recv()
            if isinstance(said, Hold):
                self._hold()
            elif isinstance(said, GoOn):
                self._held = False
                for room in range(self._upcoming, said.first):
                    self.report.outcomes[room] = False
                    self.report.reasons[room] = NOT_SERVED
                self._upcoming = max(self._upcoming, said.first)
        if self._upcoming == self._last:
            self._last = None
            self._hold()
        if self._outlived is not None and not self._held and self._outlived.keys().isdisjoint(
                self.node.living_peers()):
            self.directory.lost(self._outlived.keys(), self._outlived)
            self._outlived = None

    def _hold(self) -> None:
        """Begin nothing more until the router says that the server is back."""
        self._held, self._outlived = True, self.directory.endpoints
        self._router.send(Reached(self._upcoming))

    def _begin(self, request: LoadRequest) -> bool:
        where = self.directory.endpoints
        held = self._held or self._outlived is not None or request.room == self._last
        if where is None or held:
            return False
        pages = self.pool.take(request.pages)
        if pages is None:
            return False
        receiver = self.node.open(request.room, where, generation=request.room,
                                  on_released=lambda: self.pool.give(pages))
        share = self.rank.topology.share
        shares = {source: [pages[i] for i in share(source, request.pages)] for source in where}
        now = monotonic()
        self.publishing.append((now + self.rank.load.publish_s, receiver, shares))
        self.open[request.room] = _Open(request, receiver, pages, where, now)
        return True

    def _publish(self) -> None:
        """Give memory to the requests whose allocation delay is over."""
        while self.publishing and self.publishing[0][0] <= monotonic():
            _, receiver, shares = self.publishing.popleft()
            receiver.publish(shares, slot=receiver.life.room)

    def _look(self, room: int) -> None:
        held, report = self.open[room], self.report
        poll = held.receiver.poll()
        if room not in self.aborted and held.request.left("decode", held.since, monotonic()):
            self.aborted.add(room)
            held.receiver.abort("the client has left")
        elif poll is KVPoll.SUCCESS:
            report.latencies.append(monotonic() - held.since)
            report.outcomes[room] = True
            self._verify(held)
            held.receiver.close()
            del self.open[room]
        elif poll is KVPoll.FAILED:
            report.outcomes[room] = False
            report.reasons[room] = held.receiver.failure or ""
            self.directory.lost(self.node.lost_peers(), held.where)
            del self.open[room]

    def _verify(self, held: _Open) -> None:
        """Compare every byte of every page, and the metadata, with the load."""
        began = monotonic()
        load, room = self.rank.load, held.request.room
        for source, pools in self.pools.items():
            right = held.receiver.metadata.get(source) == load.metadata(room, source)
            for index in self.rank.topology.share(source, held.request.pages):
                want = load.page(room, source, index)
                right = right and np.array_equal(pools[:, held.pages[index]], want)
                self.report.verified_bytes += want.nbytes
            if not right:
                self.report.corrupt.append(room)
        self.report.verify_seconds += monotonic() - began
