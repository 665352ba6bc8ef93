"""A simulated prefill server whose scheduler runs requests before their bootstrap has ended.

The scheduler is the one that engines use (node/optimistic/prefill.py), which runs the tables of the
attempts. Here it gets a device, which computes one chunk at a time in the order of the orders. It
takes a turn after every event that may change a request.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from lab.sim.event_queue import EventQueue
from lab.sim.fabric import Pages
from lab.sim.plan import PlannedRequest, Shape
from lab.sim.server import RankedServer
from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings, Order, Ordered, PrefillRequest
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.optimistic_retracted import (
    PREFILL_AT_ONCE_RETRACTING,
    PREFILL_RETRACTING,
)
from pdproto.spec.handoff.poll import KVPoll

TURN_S: Final = 0.0005  # the least time between two turns of the scheduler


@dataclass(slots=True, eq=False)
class Held:
    """A request and its resources. pages: empty before its pass has a running slot."""

    request: PlannedRequest
    running: PrefillRequest
    senders: list[Sender] = field(default_factory=list)
    pages: tuple[int, ...] = ()


class OptimisticServer(RankedServer):
    """A server whose scheduler may compute a request before its bootstrap."""

    def __init__(
        self, name: str, event_queue: EventQueue, shape: Shape, pages: Pages,
        ended: Callable[[PlannedRequest, bool], None],
    ) -> None:
        super().__init__(name, event_queue, shape, pages, ended)
        self.prefill: Final = OptimisticPrefill(OptimisticSettings(
            slots=shape.slots, running_slots=shape.running_slots, retries=shape.retries or 0,
            bootstrap_timeout_s=shape.waits.get("bootstrap_timeout", 120.0)),
            table=PREFILL_AT_ONCE_RETRACTING if shape.release_at_once else PREFILL_RETRACTING)
        self._held: Final[dict[int, Held]] = {}
        self._of: Final[dict[PrefillRequest, Held]] = {}
        self._turned_at = -TURN_S
        self._turning = False

    def held(self) -> str:
        """See RankedServer."""
        gauges = self.prefill.metrics.read().items()
        counted = [f"{name} is {value:g}" for name, value in gauges
                   if name.startswith("num_") and value]
        return counted[0] if counted else super().held()

    def arrive(self, request: PlannedRequest) -> None:
        """See RankedServer."""
        senders = [rank.node.open(request.room, self._wake, use=0) for rank in self.ranks]
        for sender in senders:
            sender.watchers = (self._wake,)
        running = self.prefill.create_sender(
            f"r{request.room}", senders, chunks=len(request.chunks), now=self.event_queue.now)
        held = Held(request, running, senders)
        self._held[request.room] = self._of[running] = held
        self._wake()

    def abort(self, room: int) -> None:
        """See RankedServer."""
        held = self._held.get(room)
        if held is not None:
            self.prefill.abort(held.running, "the client has left")
            self._wake()

    def open_requests(self) -> Iterator[PlannedRequest]:
        """See RankedServer."""
        return (held.request for held in self._held.values())

    def _wake(self) -> None:
        """Let the scheduler take a turn soon."""
        if not self._turning and not self.dead:
            self._turning = True
            self.event_queue.at(self._turned_at + TURN_S, self._turn)

    def _turn(self) -> None:
        self._turning = False
        if self.dead:
            return
        now = self._turned_at = self.event_queue.now
        self.prefill.turn(now)
        while self.prefill.start(now) is not None:
            pass
        self._obey()

    def _obey(self) -> None:
        while orders := self.prefill.orders():
            for ordered in orders:
                self._carry_out(self._of[ordered.request], ordered)

    def _carry_out(self, held: Held, ordered: Ordered) -> None:
        match ordered.order:
            case Order.COMPUTE:
                self._compute(held, ordered)
            case Order.SEND:
                self._send(held, ordered)
            case Order.DROP:
                self._give_back(held)
            case Order.END:
                self._give_back(held)
                del self._held[held.request.room], self._of[held.running]
                self.ended(held.request,
                           all(sender.status is KVPoll.SUCCESS for sender in held.senders))

    def _compute(self, held: Held, ordered: Ordered) -> None:
        if not held.pages:
            pages = self.pages.take(held.request.pages, held.request.room)
            if pages is None:
                raise AssertionError(f"{self.name}: a running slot without pages")
            held.pages = pages
        self.compute(self._computed, ordered)

    def _computed(self, ordered: Ordered) -> None:
        if self.dead:
            return
        self.prefill.chunk_done(ordered.request, self.event_queue.now)
        self._obey()
        self._wake()

    def _send(self, held: Held, ordered: Ordered) -> None:
        chunks = held.request.chunks
        for chunk in ordered.chunks:
            first = sum(chunks[:chunk])
            last = ordered.last and chunk == ordered.chunks[-1]
            for sender in held.senders:
                sender.send(held.pages[first:first + chunks[chunk]], last=last,
                            metadata=b"token" if last else b"")

    def _give_back(self, held: Held) -> None:
        self.pages.give(held.pages)
        held.pages = ()
