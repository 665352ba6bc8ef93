"""Nodes on one machine with a latency between them: a batch waits after it arrived at a socket.

The bytes cross real sockets first. Then each batch is delayed, in order, by the latency of the
network. Only messages are delayed: an engine moves the pages.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pdproto.node.node import Node
from pdproto.node.peer import Peer
from pdproto.node.prefill import Prefill
from pdproto.node.routed_decode import RoutedDecode
from pdproto.runtime.batches import Batch
from pdproto.transport.nodes import DecodeNode, PrefillNode


@dataclass(slots=True)
class Distance:
    """The delay of batches. delay_s: returns that of the next batch, in seconds; may be replaced.

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
        """The next batch whose delay is over, if there is one."""
        if not self.under_way or self.under_way[0][0] > now:
            return None
        _, peer, batch = self.under_way.popleft()
        return peer, batch

    def due(self, other: float | None) -> float | None:
        """The time when the next batch arrives, or `other` if that is earlier."""
        if not self.under_way:
            return other
        first = self.under_way[0][0]
        return first if other is None else min(first, other)


class Distant(Node):
    """A node at a distance: it takes a batch when its delay is over."""

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
