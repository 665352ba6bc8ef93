"""Nodes that are far from each other, on one machine: what has arrived at a socket waits.

The bytes cross real sockets first; then a batch is held back, in order, for as long as the way
would have taken. Only what nodes say to each other is slowed down: pages go by an engine.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from pdproto.node.data_path import SinkPlane, SourcePlane
from pdproto.node.decode import DecodeNode
from pdproto.node.node import Node
from pdproto.node.prefill import PrefillNode
from pdproto.runtime.wire import Batch
from pdproto.transport.event_loop import Peer


@dataclass(slots=True)
class Distance:
    """delay_s: of the next batch, in seconds; replaced when the distance is to be another.

    Batches arrive in the order in which they were sent.
    """

    delay_s: Callable[[], float] = lambda: 0.0
    under_way: deque[tuple[float, Peer, Batch]] = field(default_factory=deque)

    def hold(self, peer: Peer, batch: Batch, now: float) -> None:
        """Take a batch that has arrived at the socket."""
        due = now + self.delay_s()
        if self.under_way:
            due = max(due, self.under_way[-1][0])
        self.under_way.append((due, peer, batch))

    def arrived(self, now: float) -> tuple[Peer, Batch] | None:
        """The next batch that has come all the way by now, if there is one."""
        if not self.under_way or self.under_way[0][0] > now:
            return None
        _, peer, batch = self.under_way.popleft()
        return peer, batch

    def due(self, other: float | None) -> float | None:
        """When the next batch arrives, or the other thing is due, whichever comes first."""
        if not self.under_way:
            return other
        first = self.under_way[0][0]
        return first if other is None else min(first, other)


class Distant(Node):
    """What such nodes have in common: a batch that is due is as one that has come just now."""

    distance: Distance

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        self.distance.hold(peer, batch, monotonic())

    def on_turn(self, now: float) -> float | None:
        while (arrived := self.distance.arrived(monotonic())) is not None:
            super().on_batch(*arrived)
        return self.distance.due(super().on_turn(now))


class DistantPrefill(Distant, PrefillNode):
    """A prefill node at a distance."""

    def __init__(self, name: str, plane: SourcePlane) -> None:
        self.distance = Distance()  # first: the loop begins before the node is whole
        super().__init__(name, plane)


class DistantDecode(Distant, DecodeNode):
    """A decode node at a distance."""

    def __init__(self, name: str, plane: SinkPlane) -> None:
        self.distance = Distance()  # as above
        super().__init__(name, plane)
