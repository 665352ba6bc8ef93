"""A network that holds every frame until the race lets it go, or loses it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab.sim import network
from lab.sim.event_queue import EventQueue
from lab.sim.network import Network
from pdproto.runtime.batches import Batch, decode, encode
from pdproto.runtime.wire import AnyFrame
from pdproto.testing.chance import Stream

LATENCY_S: Final = 0.0001


@dataclass(slots=True, eq=False)
class Held:
    """A frame under way, from one process to the name of another. deliver: how it arrives, if it is
    not by the network.
    """

    sender: network.Process
    target: str
    batch: Batch
    frame: AnyFrame
    deliver: Callable[[], None] | None = None


class HeldNetwork(Network):
    """Batches are cut into frames, and each frame waits to be let go.

    held: what is under way. arrived: what was let go, which may arrive once more: the tables say
    that a message may come twice. flows: nothing is held any more. holds: says which frames are.

    A batch that says its sender's floor without a frame waits too, since a floor ends lives
    (`sink_over`). It is told when the race says so, or when all flows. signs: of life, that wait
    where `holds_signs`.
    """

    def __init__(self, event_queue: EventQueue, stream: Callable[[str], Stream]) -> None:
        super().__init__(event_queue, LATENCY_S, stream)
        self.held: Final[list[Held]] = []
        self.arrived: Final[list[Held]] = []
        self.flows = False
        self.signs: Final[list[tuple[network.Process, str, bytes]]] = []
        self.holds_signs = False
        self.holds: Callable[[AnyFrame], bool] = lambda _: True

    def send(self, sender: network.Process, target: str, data: bytes) -> None:
        """See Network."""
        if self.flows:
            super().send(sender, target, data)
            return
        batch = decode(data)
        passing = tuple(frame for frame in batch.frames if not self.holds(frame))
        self.held.extend(Held(sender, target, batch, frame) for frame in batch.frames
                         if self.holds(frame))
        if self.holds_signs and not batch.frames:
            self.signs.append((sender, target, data))
        elif passing or not batch.frames:
            self._pass(sender, target, batch, passing)

    @property
    def under_way(self) -> tuple[Held, ...]:
        """What can arrive next: first what waits, and then what would come once more."""
        return (*self.held, *reversed(self.arrived))

    def let_go(self, one: Held) -> None:
        """Deliver a frame, alone: one that waits, or once more one that has arrived."""
        if one in self.held:
            self.held.remove(one)
            self.arrived.append(one)
        if one.deliver is not None:
            one.deliver()
            return
        self._pass(one.sender, one.target, one.batch, (one.frame,))

    def let_sign(self, sender: str, target: str) -> None:
        """Deliver the signs of life between two processes, which are batches without frames."""
        for one, to, data in [*self.signs]:
            if (one.name, to) == (sender, target):
                self.signs.remove((one, to, data))
                super().send(one, to, data)

    def lose(self, one: Held) -> None:
        """The frame never arrives."""
        if one in self.held:
            self.held.remove(one)
        self.lost += 1

    def lose_all(self, target: str) -> None:
        """No frame to this process arrives."""
        for one in [one for one in self.held if one.target == target]:
            self.lose(one)

    def tell_floor(
        self, sender: network.Process, target: str, incarnation: int, floor: int
    ) -> None:
        """Deliver a batch that only says how far its sender is done."""
        super().send(sender, target, encode(sender.name, incarnation, floor, ()))

    def flow(self) -> None:
        """Deliver all that waits, in its order, and hold nothing any more."""
        while self.held:
            self.let_go(self.held[0])
        self.flows = True

    def _pass(
        self, sender: network.Process, target: str, batch: Batch, frames: tuple[AnyFrame, ...]
    ) -> None:
        super().send(sender, target, encode(batch.node, batch.incarnation, 0, frames, batch.gone,
                                            unheard_ms=batch.unheard_ms, version=batch.version))
