"""Nodes that are far from each other, on one machine: what has arrived at a socket waits.

The bytes cross real sockets first; then a batch is held back, in order, for as long as the way
would have taken. Only what nodes say to each other is slowed down: pages go by an engine.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pdproto.node.node import Node
from pdproto.node.peer import Peer
from pdproto.node.prefill import Prefill
from pdproto.node.routed_decode import RoutedDecode
from pdproto.runtime.wire import Batch
from pdproto.transport.nodes import DecodeNode, PrefillNode


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
    """A node at a distance: a batch that is due is as one that has come just now."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.distance: Final = Distance()

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        self.distance.hold(peer, batch, self.clock())

    def on_turn(self, now: float) -> float | None:
        while (arrived := self.distance.arrived(self.clock())) is not None:
            super().on_batch(*arrived)
        return self.distance.due(super().on_turn(now))


class _Prefill(Distant, Prefill):
    """A prefill node at a distance, without I/O."""


class _Decode(Distant, RoutedDecode):
    """A decode node at a distance, without I/O."""


class DistantPrefill(PrefillNode):
    """A prefill node at a distance."""

    _core: _Prefill
    _kind = _Prefill

    @property
    def distance(self) -> Distance:
        return self._core.distance


class DistantDecode(DecodeNode):
    """A decode node at a distance."""

    _core: _Decode
    _kind = _Decode

    @property
    def distance(self) -> Distance:
        return self._core.distance
