"""The memory of a decode node's hand-overs, from the request for it until it is free again.

Rule 1: a request gets in line when the table of its sources (incarnations.py) says so. This
        module keeps which requests a source's first batch concerns.
Rule 2: the tables grant memory and end leases (spec/handoff/sink.py; pool.py). This module carries
        out the effects.
Rule 3: requests in line get memory first come first served. By default no timer ends their wait
        (`queue_timeout`, spec/handoff/timers.py), so metrics show how many wait, and for how long.
        Which of them is refused, because nothing would end its wait, another table decides
        (spec/handoff/decode_memory.py; refusals.py). The node is not healthy while the system
        refuses memory.
Rule 4: pages and staging memory are freed when no copy from the memory into the pages is under way.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from pdproto.engine.contract import EngineBusy, EngineError
from pdproto.ground.layout import Indices
from pdproto.node.core import Core
from pdproto.node.data_path import Idle, SinkDataPath
from pdproto.node.decode.numbered_lives import NumberedLives
from pdproto.node.decode.pool import Pool
from pdproto.node.decode.receiver import Receiver
from pdproto.node.decode.receivers import Receivers
from pdproto.node.decode.refusals import Refusals
from pdproto.node.endpoints import Endpoints
from pdproto.node.faults import TRANSFER
from pdproto.node.metrics import Metrics
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.role import INCARNATIONS_ROLE
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Receiving
from pdproto.spec.language.symbols import State

LOOK_AHEAD: Final = 64  # requests that may find no memory in one turn before it stops trying


class MemoryQueue:
    """Receivers that have asked for memory. A receiver that has ended meanwhile is skipped.

    was_cut: the last `serve` ended early, because the turn had no time left.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.was_cut = False
        self._clock: Final = clock
        self._asked: Final[deque[Receiver]] = deque()
        metrics.gauge("num_decode_memory_queue_reqs", "Hand-overs that wait for staging memory",
                      lambda: len(self._waiting()))
        metrics.gauge("decode_memory_queue_seconds", "How long the first of them has waited",
                      self._longest_s)

    def add(self, receiver: Receiver, now: float) -> None:
        """Put the receiver at the end of the queue. now: in seconds of the transport's clock."""
        receiver.queued = now
        self._asked.append(receiver)

    def serve(self, grant: Callable[[Receiver], bool], has_time: Callable[[], bool]) -> bool:
        """Try to grant memory to the first receivers.

        grant: tries one receiver, and returns whether its request is settled. has_time: called
        after each settled receiver; if it returns False, the others wait for the next turn. Returns
        whether a receiver was tried and still waits.
        """
        self.was_cut = False
        passed: list[Receiver] = []
        try:
            while self._asked and len(passed) < LOOK_AHEAD:
                receiver = self._asked.popleft()
                if receiver.stage is not Receiving.BOOTSTRAPPING:
                    continue
                if not self._is_settled(receiver, grant):
                    passed.append(receiver)
                elif not has_time():
                    self.was_cut = True
                    break
        finally:  # an exception for one receiver leaves the others in the queue
            self._asked.extendleft(reversed(passed))
        return bool(passed)

    @staticmethod
    def _is_settled(receiver: Receiver, grant: Callable[[Receiver], bool]) -> bool:
        try:
            return grant(receiver)
        except EngineError as error:  # it is closed or broken
            receiver.abort(str(error))
            return True

    def _waiting(self) -> list[Receiver]:
        """For any thread: the queue is copied in one step."""
        return [one for one in tuple(self._asked) if one.stage is Receiving.BOOTSTRAPPING]

    def _longest_s(self) -> float:
        waiting = self._waiting()
        return self._clock() - waiting[0].queued if waiting else 0.0


class SinkMemory:
    """See the rules above. Only the node's loop calls the methods.

    queue: the requests that wait for staging memory. is_starved: they wait, and no lease will be
    given back. refused: why the system refuses memory; empty if it does not.
    """

    def __init__(
        self, core: Core, endpoints: Endpoints, lives: NumberedLives, receivers: Receivers,
        data_path: SinkDataPath, pool: Pool,
    ) -> None:
        metrics = core.metrics
        self.is_starved = self._is_short = False
        self.refused = ""
        self.queue: Final = MemoryQueue(
            metrics, lambda: core.clock())  # noqa: PLW0108 - it has no clock yet
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._lives: Final = lives
        self._receivers: Final = receivers
        self._data_path: Final = data_path
        self._pool: Final = pool
        self.refusals: Final = Refusals()
        self.part: Final = Part(
            "memory", begin=lambda _: INCARNATIONS_ROLE.prepare(),
            reactions={(ends.lease, False): self.release_lease,
                       (ends.page, False): self.release_pages},
            batch=self.greet, lost=self.part_from, failed=self._free_ungranted,
            turns={Turn.ROOM: self.serve},
            wants_turn=lambda: self.queue.was_cut, problem=self._problem)
        self._unmet: Final[dict[str, list[Receiver]]] = {}  # by a source that is still silent
        self._granted: Final[dict[Life, Receiver]] = {}
        self._leases = 0
        self._settling: Final[dict[Life, Receiver]] = {}
        metrics.gauge("num_decode_leases", "Lives with a lease of staging memory",
                      lambda: self._leases)
        metrics.gauge("num_decode_pages", "Pages that hand-overs hold", lambda: len(pool.pages))

    # The wait

    def meet(self, receiver: Receiver) -> None:
        """Tell a request that begins which of its sources the node has heard of."""
        for name in receiver.endpoint.peers:
            if self.has_spoken(name):
                receiver.incarnations.greet(name, self._core.peers[name].incarnation)
            else:
                receiver.incarnations.expect(name)
                self._unmet.setdefault(name, []).append(receiver)

    def want(self, receiver: Receiver) -> None:
        """Queue the request for staging memory if the table allows it; it has its pages now."""
        if receiver.incarnations.place():
            self.queue.add(receiver, self._core.turned)

    def greet(self, peer: Peer) -> None:
        """Tell the requests that have heard nothing of this peer that it has sent a batch."""
        for receiver in self._unmet.pop(peer.name, ()):
            if receiver.incarnations.greet(peer.name, peer.incarnation):
                self.queue.add(receiver, self._core.turned)

    def part_from(self, peer: Peer, _why: str) -> None:
        """The peer counts as gone: no request waits for its first batch any more."""
        self._unmet.pop(peer.name, None)

    def has_spoken(self, source: str) -> bool:
        """Whether the source has told its incarnation."""
        peers = self._core.peers
        return bool(source in peers and peers[source].incarnation)

    def serve(self, _now: float) -> None:
        """Grant memory to requests that wait for it, while the turn has time."""
        self._is_short, self.refused = False, ""
        self.queue.serve(self._grant, lambda: self._core.pace.has_time)
        self.is_starved = self._is_short and not self._leases

    def _grant(self, receiver: Receiver) -> bool:
        """Grant memory to the request, if there is enough. Returns whether its wait is over."""
        life, endpoint, pages = receiver.life, receiver.endpoint, receiver.every_page
        if not self._pool.allows(pages, receiver.slot):
            kept = [life for life in self._pool.owners(pages, receiver.slot)
                    if not self._gives_back(life)]
            if not self.refusals.of_owned(closed=not kept):
                return False
            self._receivers.give_up(receiver, self._pool.blame(pages, receiver.slot, kept))
            return True
        try:
            addresses = self._data_path.lease(life, receiver.pages or {})
        except EngineBusy as error:
            if self.refusals.by_system(held=bool(self._leases)):
                self._receivers.give_up(receiver, str(error), transient=True)
                return True
            self.refused, addresses = str(error), None
        except (TypeError, ValueError) as error:
            self._receivers.give_up(receiver, str(error))
            return True
        if addresses is None:
            self._is_short = True
            return False
        granted = self._pool.grant(life, pages, receiver.slot)
        self._granted[life] = receiver
        self._leases += 1
        receiver.began, receiver.addresses = self._core.turned, addresses
        self._endpoints.take(endpoint, endpoint.automaton.device(*granted))
        self._receivers.injection.draw(TRANSFER, endpoint)
        return True

    def _gives_back(self, life: Life) -> bool:
        """Whether the application has given the pages of this life back, or gets them back when the
        writes have ended: `closed` in the table.
        """
        return life in self._settling or self._granted[life].stage is Receiving.FAILED

    # While the life has memory

    def is_granted(self, life: Life) -> bool:
        """Whether copies may reach the pages of the life."""
        return life in self._granted

    # Its end

    def release_lease(self, endpoint: Endpoint, _: Indices) -> None:
        """The table has ended the lease."""
        life = self._endpoints.life(endpoint)
        self._leases -= 1
        self._core.metrics.add("held_chunk_seconds", self._core.turned - endpoint.owner.began)
        self._data_path.release(life)

    def release_pages(self, endpoint: Endpoint, _: Indices) -> None:
        """The table has released the pages. They are free when no copy into them is under way."""
        life, receiver = self._endpoints.life(endpoint), endpoint.owner
        self._pool.free_slot(receiver.slot)
        self._settling[life], receiver.is_settling = receiver, True
        self._data_path.settle(life)

    def end_copies(self, report: Idle) -> None:
        """No copy into the pages of this life is under way any more: free them."""
        receiver = self._settling.pop(report.life)
        receiver.is_settling = False
        self.free_pages(receiver)
        self._endpoints.tell_released(receiver)

    def free_pages(self, receiver: Receiver) -> None:
        """Free the pages, and drop the life if it is over."""
        if receiver.life in self._granted:
            del self._granted[receiver.life]
            self._pool.free_pages(receiver.every_page)
        receiver.note_released()
        if receiver.life in self._endpoints.lives:
            self._lives.conclude(receiver.endpoint)
        else:
            self._endpoints.release(receiver.endpoint)

    def _free_ungranted(self, endpoint: Endpoint, _before: State) -> None:
        """The hand-over has failed. Without a grant, no copy can reach the pages: free them now."""
        if not self.is_granted(endpoint.owner.life):
            self.free_pages(endpoint.owner)

    def _problem(self) -> str | None:
        if self.refused:
            return (f"node {self._core.name}: hand-overs wait for staging memory, which the system "
                    f"refuses: {self.refused}")
        if self.is_starved:
            return (f"node {self._core.name}: hand-overs wait for staging memory, none holds any, "
                    f"and none is free: fenced writers may still reach it")
        return None
