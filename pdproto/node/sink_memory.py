"""The memory of a decode node's hand-overs, from the request for it until it is free again.

Rule 1: a request gets in line when the table of its sources' runs says so (known_runs.py). This
        module keeps which requests a source's first batch concerns.
Rule 2: the tables grant memory and end leases (spec/handoff/sink.py; pool.py). This module carries
        out the effects.
Rule 3: pages and staging memory are freed when no copy from the memory into the pages is under way.
"""

from collections.abc import Callable
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.data_path import SinkDataPath
from pdproto.node.faults import TRANSFER
from pdproto.node.memory_queue import MemoryQueue
from pdproto.node.node import Node
from pdproto.node.peer import Peer
from pdproto.node.pool import Pool
from pdproto.node.receiver import Receiver
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import Life


class SinkMemory:
    """See the rules above. Only the node's loop calls the methods.

    now: the time of the turn, in seconds of the node's clock. conclude: called with an endpoint
    whose pages are free; it drops a life that is over. queue: the requests that wait for staging
    memory. is_starved: they wait, and no lease will be given back.
    """

    def __init__(
        self, node: Node, data_path: SinkDataPath, pool: Pool, now: Callable[[], float],
        conclude: Callable[[Endpoint], None],
    ) -> None:
        metrics = node.metrics
        self.is_starved = False
        self.queue: Final = MemoryQueue(
            metrics, lambda: node.clock())  # noqa: PLW0108 - it has no clock yet
        self._node: Final = node
        self._data_path: Final = data_path
        self._pool: Final = pool
        self._now: Final = now
        self._conclude: Final = conclude
        self._unmet: Final[dict[str, list[Receiver]]] = {}  # by a source that is still silent
        self._granted: Final[set[Life]] = set()
        self._leased: Final[dict[Life, float]] = {}  # since when
        self._addresses: Final[dict[Life, dict[str, bytes]]] = {}
        self._settling: Final[dict[Life, Receiver]] = {}
        metrics.gauge("num_decode_leases", "Lives with a lease of staging memory",
                      lambda: len(self._leased))
        metrics.gauge("num_decode_pages", "Pages that hand-overs hold", lambda: len(pool.pages))

    # The wait

    def meet(self, receiver: Receiver) -> None:
        """Tell a request that begins which of its sources the node has heard of."""
        for name in receiver.endpoint.peers:
            if self.has_spoken(name):
                receiver.runs.greet(name, self._node.peers[name].incarnation)
            else:
                receiver.runs.expect(name)
                self._unmet.setdefault(name, []).append(receiver)

    def want(self, receiver: Receiver) -> None:
        """Queue the request for staging memory if the table allows it; it has its pages now."""
        if receiver.runs.place():
            self.queue.add(receiver, self._now())

    def greet(self, peer: Peer) -> None:
        """Tell the requests that have heard nothing of this peer that it has sent a batch."""
        for receiver in self._unmet.pop(peer.name, ()):
            if receiver.runs.greet(peer.name, peer.incarnation):
                self.queue.add(receiver, self._now())

    def part(self, peer: Peer) -> None:
        """The peer counts as gone: no request waits for its first batch any more."""
        self._unmet.pop(peer.name, None)

    def has_spoken(self, source: str) -> bool:
        """Whether the source has told its incarnation."""
        peers = self._node.peers
        return bool(source in peers and peers[source].incarnation)

    def serve(self) -> None:
        """Grant memory to requests that wait for it, while the turn has time."""
        is_waiting = self.queue.serve(self._grant, lambda: self._node.pace.has_time)
        self.is_starved = is_waiting and not self._leased

    def _grant(self, receiver: Receiver) -> bool:
        """Grant memory to the request, if there is enough. Returns whether its wait is over."""
        life, endpoint, pages = receiver.life, receiver.endpoint, receiver.every_page
        try:
            addresses = self._data_path.lease(life, receiver.pages or {})
        except ValueError as error:
            self._node.give_up(receiver, str(error))
            return True
        if addresses is None:
            return False
        granted = self._pool.grant(life, pages, receiver.slot)
        if not granted:
            self._data_path.release(life)
            self._node.give_up(receiver, self._pool.blame(pages, receiver.slot))
            return True
        self._granted.add(life)
        self._leased[life] = receiver.began = self._now()
        self._addresses[life] = addresses
        self._node.take(endpoint, endpoint.automaton.device(*granted))
        self._node.draw(TRANSFER, endpoint)
        return True

    # While the life has memory

    def address(self, life: Life, source: str) -> bytes:
        """The address of the memory that the source writes."""
        return self._addresses[life][source]

    def is_granted(self, life: Life) -> bool:
        """Whether copies may reach the pages of the life."""
        return life in self._granted

    def is_settling(self, life: Life) -> bool:
        """Whether the pages of the life become free as soon as no copy into them is under way."""
        return life in self._settling

    # Its end

    def release_lease(self, endpoint: Endpoint, _: Indices) -> None:
        """The table has ended the lease."""
        life = self._node.life(endpoint)
        self._node.metrics.add("held_chunk_seconds", self._now() - self._leased.pop(life))
        self._data_path.release(life)

    def release_pages(self, endpoint: Endpoint, _: Indices) -> None:
        """The table has released the pages. They are free when no copy into them is under way."""
        life, receiver = self._node.life(endpoint), endpoint.owner
        self._pool.free_slot(receiver.slot)
        self._settling[life] = receiver
        self._data_path.settle(life)

    def end_copies(self, life: Life) -> None:
        """No copy into the pages of this life is under way any more: free them."""
        self.free_pages(self._settling.pop(life))

    def free_pages(self, receiver: Receiver) -> None:
        """Free the pages, and drop the life if it is over."""
        if receiver.life in self._granted:
            self._granted.remove(receiver.life)
            self._pool.free_pages(receiver.every_page)
        receiver.tell_released()
        if receiver.life in self._node.lives:
            self._conclude(receiver.endpoint)
        else:
            self._node.release(receiver.endpoint)

    def forget(self, life: Life) -> None:
        """Forget the addresses of a life that is over."""
        self._addresses.pop(life, None)
