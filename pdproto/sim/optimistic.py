"""A simulated prefill server whose scheduler runs requests before their bootstrap has ended.

The scheduler is the one that engines use (net/optimistic.py), which runs the tables of the
attempts. Here it is given a device, which computes one chunk at a time in the order of the orders,
and turns: after whatever may have changed something.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pdproto.net.optimistic import OptimisticPrefill
from pdproto.net.optimistic_record import Order, Ordered, Settings
from pdproto.net.optimistic_record import Request as Running
from pdproto.net.sender import Sender
from pdproto.sim.agenda import Agenda
from pdproto.sim.fabric import Pages
from pdproto.sim.host import Host, SimulatedPrefill
from pdproto.sim.plan import Request, Shape
from pdproto.sim.prefill import Rank
from pdproto.spec.handoff.poll import KVPoll

TURN_S: Final = 0.0005  # from one turn of the scheduler to the next, at the least


@dataclass(slots=True, eq=False)
class Held:
    """A request with what it holds. pages: none before its pass has a seat."""

    request: Request
    running: Running
    senders: list[Sender] = field(default_factory=list)
    pages: tuple[int, ...] = ()


class OptimisticServer:
    """One server from its start to its death. ended: is told of every request that is over."""

    def __init__(
        self, name: str, agenda: Agenda, shape: Shape, pages: Pages,
        ended: Callable[[Request, bool], None],
    ) -> None:
        self.name: Final = name
        self.pages: Final = pages
        self.ranks: Final[list[Rank]] = []
        self.dead = False
        self.prefill: Final = OptimisticPrefill(Settings(
            slots=shape.slots, seats=shape.seats, retries=shape.retries or 0,
            bootstrap_timeout_s=shape.waits.get("bootstrap_timeout", 120.0)))
        self._agenda: Final = agenda
        self._shape: Final = shape
        self._ended: Final = ended
        self._held: Final[dict[int, Held]] = {}
        self._of: Final[dict[Running, Held]] = {}
        self._device_free_at = 0.0
        self._turned_at = -TURN_S
        self._turning = False

    @property
    def hosts(self) -> list[Host]:
        return [rank.host for rank in self.ranks]

    @property
    def nodes(self) -> list[SimulatedPrefill]:
        return [rank.node for rank in self.ranks]

    def held(self) -> str:
        """What has not been given back, in words; "" if everything has."""
        gauges = self.prefill.metrics.read().items()
        counted = [f"{name} is {value:g}" for name, value in gauges
                   if name.startswith("num_") and value]
        return (counted or [f"{len(self.pages.owner)} pages" if self.pages.owner else ""])[0]

    def arrive(self, request: Request) -> None:
        """A client's request has come."""
        senders = [rank.node.open(request.room, self._wake) for rank in self.ranks]
        for sender in senders:
            sender.watchers = (self._wake,)
        running = self.prefill.create_sender(
            f"r{request.room}", senders, chunks=len(request.chunks), now=self._agenda.now)
        held = Held(request, running, senders)
        self._held[request.room] = self._of[running] = held
        self._wake()

    def abort(self, room: int) -> None:
        """The client has left."""
        held = self._held.get(room)
        if held is not None:
            self.prefill.abort(held.running, "the client has left")
            self._wake()

    def die(self) -> None:
        """Nothing more happens here. What was here has ended, as far as anybody can tell."""
        self.dead = True
        for held in list(self._held.values()):
            self._ended(held.request, False)

    def _wake(self) -> None:
        """Have the scheduler take a turn soon."""
        if not self._turning and not self.dead:
            self._turning = True
            self._agenda.at(self._turned_at + TURN_S, self._turn)

    def _turn(self) -> None:
        self._turning = False
        if self.dead:
            return
        now = self._turned_at = self._agenda.now
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
                self._ended(held.request,
                            all(sender.stands is KVPoll.SUCCESS for sender in held.senders))

    def _compute(self, held: Held, ordered: Ordered) -> None:
        if not held.pages:
            pages = self.pages.take(held.request.pages, held.request.room)
            if pages is None:
                raise AssertionError(f"{self.name}: a seat without pages")
            held.pages = pages
        begins = max(self._agenda.now, self._device_free_at)
        self._device_free_at = begins + self._shape.forward_s
        self._agenda.at(self._device_free_at, self._computed, ordered)

    def _computed(self, ordered: Ordered) -> None:
        if self.dead:
            return
        self.prefill.chunk_done(ordered.request, self._agenda.now)
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
