"""Nodes on one machine with a latency between them: a batch waits after it arrived at a socket.

The bytes cross real sockets first. Then each batch is delayed, in order, by the latency of the
network. Only messages are delayed: an engine moves the pages.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pdproto.node.core import Core
from pdproto.node.decode.node import Decode
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
from pdproto.node.prefill.node import Prefill
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

    def part(self, core: Core) -> Part:
        """The part of a node at this distance: it takes each batch from the node, and gives it to
        the node when its delay is over.
        """
        hear = core.hear

        def deliver(_now: float) -> None:
            while (arrived := self.arrived(core.clock())) is not None:
                hear(*arrived)

        core.hear = lambda peer, batch: (  # type: ignore[method-assign]  # it comes between
            self.hold(peer, batch, core.clock()))
        return Part("distance", turns={Turn.ROOMS: deliver}, due=lambda: self.due(None))

    def due(self, other: float | None) -> float | None:
        """The time when the next batch arrives, or `other` if that is earlier."""
        if not self.under_way:
            return other
        first = self.under_way[0][0]
        return first if other is None else min(first, other)


class DistantPrefill(PrefillNode):
    """A prefill node at a distance."""

    distance: Distance

    def _kind(self, *arguments: Any, **options: Any) -> Prefill:
        node = Prefill(*arguments, **options)
        self.distance = Distance()
        node.core.add(self.distance.part(node.core))
        return node


class DistantDecode(DecodeNode):
    """A decode node at a distance."""

    distance: Distance

    def _kind(self, *arguments: Any, **options: Any) -> Decode:
        node = Decode(*arguments, **options)
        self.distance = Distance()
        node.core.add(self.distance.part(node.core))
        return node
