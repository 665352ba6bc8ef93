"""The common part of both kinds of simulated prefill server: the ranks, a pool of pages, and a
device that computes one chunk at a time, in the order of the calls.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from lab.sim.event_queue import EventQueue
from lab.sim.fabric import Pages
from lab.sim.host import Host
from lab.sim.plan import PlannedRequest, Shape
from pdproto.node.prefill.node import Prefill


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: its process and its node."""

    host: Host
    node: Prefill


class RankedServer:
    """A server from its start to its end. ended: called with each request that is over, and whether
    it succeeded.
    """

    def __init__(
        self, name: str, event_queue: EventQueue, shape: Shape, pages: Pages,
        ended: Callable[[PlannedRequest, bool], None],
    ) -> None:
        self.name: Final = name
        self.pages: Final = pages
        self.ranks: Final[list[Rank]] = []
        self.dead = False
        self.event_queue: Final = event_queue
        self.shape: Final = shape
        self.ended: Final = ended
        self._device_free_at = 0.0

    @property
    def hosts(self) -> list[Host]:
        """The processes of this server, by rank."""
        return [rank.host for rank in self.ranks]

    @property
    def nodes(self) -> list[Prefill]:
        """The nodes of this server, by rank."""
        return [rank.node for rank in self.ranks]

    def held(self) -> str:
        """The resources that are not free, as text; "" if all are."""
        return f"{len(self.pages.owner)} pages" if self.pages.owner else ""

    def arrive(self, request: PlannedRequest) -> None:
        """Take a client's request."""
        raise NotImplementedError

    def abort(self, room: int) -> None:
        """Abort the request, because the client has left."""
        raise NotImplementedError

    def open_requests(self) -> Iterable[PlannedRequest]:
        """The requests that have come and have not ended."""
        raise NotImplementedError

    def die(self) -> None:
        """End the server. Its open requests count as failed."""
        self.dead = True
        for request in list(self.open_requests()):
            self.ended(request, False)

    def compute(self, then: Callable[..., None], *arguments: Any) -> None:
        """Compute a chunk on the device after all earlier ones, and then call `then`."""
        begins = max(self.event_queue.now, self._device_free_at)
        self._device_free_at = begins + self.shape.forward_s
        self.event_queue.at(self._device_free_at, then, *arguments)
