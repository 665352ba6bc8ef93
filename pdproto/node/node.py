"""A core with endpoints: the common frame of both kinds of node, which differ in their parts."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pdproto.node.capabilities import Capabilities
from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.faults import Injection
from pdproto.node.handle import CLOSED, ENDED
from pdproto.node.part import Part
from pdproto.node.peer import Peer
from pdproto.node.ports import Transport
from pdproto.node.sides import Side
from pdproto.runtime.wire import AnyFrame


class Handles:
    """The calls of the application about the hand-overs of a node: the node of its handles.

    mark: see MarksPages. injection: the hand-overs that fail on purpose. clock, ask: see Opener.
    calls: by name of the table's call, the method that makes it.
    """

    def __init__(
        self, core: Core, endpoints: Endpoints, mark: Callable[[Sequence[int]], tuple[int, ...]],
        calls: Mapping[str, Callable[..., object]],
    ) -> None:
        self.mark: Final = mark
        self.clock: Callable[[], float]
        self.ask: Callable[[Callable[[], None]], None]
        self.injection: Final = Injection(core, endpoints, self.give_up)
        self.elsewhere = ""
        self._core: Final = core
        self._endpoints: Final = endpoints
        self.part: Final = Part("handles", begin=self._attach, end=self._end, unsaid=self._unsaid,
                                inherited=self._leave, calls=calls)

    def _attach(self, transport: Transport) -> None:
        self.clock, self.ask = transport.clock, transport.ask

    @abstractmethod
    def open_ends(self) -> Iterator[Any]:
        """The handles that may not have ended, of those that there are at the call. For any thread.
        """

    @abstractmethod
    def give_up(self, owner: Any, reason: str, /, *, transient: bool = False) -> None:
        """Abort the hand-over, for this reason (see Handle.note)."""

    def _leave(self, why: str) -> None:
        self.elsewhere = why

    def _unsaid(self, _peer: Peer, frame: AnyFrame, why: str) -> None:
        """A message could not be sent: its hand-over fails."""
        if (endpoint := self._endpoints.lives.get(frame.life)) is not None:
            self.give_up(endpoint.owner, why)

    def _end(self) -> None:
        """The node is closed: open hand-overs fail, and the peers are told."""
        for owner in self.open_ends():
            if owner.poll() not in ENDED:
                self.give_up(owner, CLOSED, transient=True)


class Node:
    """core: takes the turns. lives: the endpoint of each life. broken, open_ends: for any thread.

    Raises ValueError if two parts take the same, or none takes something of the tables.
    """

    def __init__(
        self, side: Side, core: Core, endpoints: Endpoints, capabilities: Capabilities,
        handles: Handles, parts: Sequence[Part],
    ) -> None:
        self.side: Final = side
        self.core: Final = core
        self.metrics: Final = core.metrics
        self.endpoints: Final = endpoints
        self.lives: Final = endpoints.lives
        self.faults: Final = handles.injection.faults
        self.broken: Final = capabilities.broken
        self.open_ends: Final = handles.open_ends
        self.give_up: Final = handles.give_up
        core.assemble(endpoints.part, capabilities.part, handles.part, *parts,
                      handles.injection.part)
        core.parts.must_take(endpoints.role.table)
        core.measure()
        core.metrics.gauge("num_remembered_lives",
                           "Lives about which a peer may still send a message", self.remembered)

    def remembered(self) -> int:
        """How many lives there are about which a peer may still send a message. For any thread."""
        return len(self.lives)

    def is_awaited(self, owner: Any) -> bool:
        """Whether a peer that is not lost may still send a message about the hand-over."""
        raise NotImplementedError
