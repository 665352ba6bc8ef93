"""The handle of a hand-over at a decode rank."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from pdproto.node.decode.incarnations import KnownIncarnations
from pdproto.node.handle import Handle, Opener
from pdproto.runtime import checked
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.role import SinkRole
from pdproto.runtime.wire import Done, Life
from pdproto.spec.handoff.ends import Receiving

NOWHERE: Final[Mapping[str, bytes]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Addressed:
    """Which data-parallel rank of a prefill server a hand-over's sources are of, where the
    application has found it. server: the address of its registry. ranks: how many it has.
    """

    server: str
    ranks: int
    rank: int


class ReceiverNode(Opener, Protocol):
    """The node that a receiver belongs to."""

    @property
    def role(self) -> SinkRole:
        """The tables of the sink, ready to run."""

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See MarksPages. For any thread."""

    def want_memory(self, receiver: "Receiver") -> None:
        """In the loop: queue the receiver for staging memory."""

    def close_handoff(self, owner: Any, reason: str) -> None:
        """In the loop: the application has closed the hand-over."""


@dataclass(slots=True)
class Delivery:
    """The chunks of a source. done: the message that they have been written. since: when it came; 0
    once the span has been given away. use: of the room (uses.py); None if the message has a
    problem.
    """

    done: Done
    since: float
    is_verifying: bool = True
    use: int | None = None


class Receiver(Handle):
    """One hand-over, as a decode rank's scheduler sees it. Every method returns at once."""

    __slots__ = ("addresses", "deliveries", "every_page", "incarnations", "is_settling", "life",
                 "once", "page_lists", "queued", "sinks", "slot")

    _node: ReceiverNode

    def __init__(
        self, node: ReceiverNode, life: Life, sources: tuple[str, ...], sinks: tuple[str, ...]
    ) -> None:
        endpoint = Endpoint(node.role.automaton_for(sources=len(sources)), life, sources, self)
        super().__init__(node, endpoint, Receiving.UNKNOWN)
        self.sinks: Final = sinks
        self.life: Final = life
        self.once = False  # see DecodeNode.open
        self.incarnations = KnownIncarnations(sources)
        self.page_lists: tuple[tuple[int, ...], ...] | None = None  # by index of a source
        self.every_page: Collection[int] = ()  # of all sources, each once
        self.slot: int | None = None
        self.is_settling = False  # its pages become free when no copy into them is under way
        self.queued = 0.0  # since when it waits for staging memory
        self.addresses: Mapping[str, bytes] = NOWHERE  # of its lease, by source
        self.deliveries: dict[str, Delivery] = {}  # by source

    @property
    def room(self) -> int:
        """The number of the room."""
        return self.life.room

    @property
    def is_verifying(self) -> bool:
        """Whether chunks of a source are being verified."""
        return any(one.is_verifying for one in self.deliveries.values())

    @property
    def metadata(self) -> dict[str, bytes]:
        """The metadata row, by source, as each has sent it."""
        return {source: one.done.metadata for source, one in self.deliveries.items()
                if one.use is not None and not one.is_verifying}

    @property
    def uses(self) -> dict[str, int]:
        """The use of the room, by source."""
        return {source: one.use for source, one in self.deliveries.items() if one.use is not None}

    @property
    def pages(self) -> dict[str, tuple[int, ...]] | None:
        """The pages that each source fills, in its order; None before they are published."""
        lists = self.page_lists
        return None if lists is None else dict(zip(self.endpoint.peers, lists, strict=True))

    def pages_of(self, source: str) -> tuple[int, ...]:
        """The pages that this source fills, in its order; empty before they are published."""
        lists, sources = self.page_lists, self.endpoint.peers
        return () if lists is None or source not in sources else lists[sources.index(source)]

    def aim(self, sources: tuple[str, ...]) -> None:
        """In the loop: these are its sources. It had none so far."""
        automaton = self._node.role.automaton_for(sources=len(sources))
        self.endpoint = Endpoint(automaton, self.life, sources, self)
        self.incarnations = KnownIncarnations(sources)

    def publish(
        self, pages: Sequence[int] | Mapping[str, Sequence[int]], slot: int | None = None
    ) -> None:
        """Give the hand-over its pages, and a slot for the metadata row if the application keeps
        rows in slots.

        pages: the pages that each source fills, in its order, by source; or one list for every
        source. They belong to the hand-over until `released` is true: after a failure, when no copy
        into them is under way; after Success, when the receiver is closed. Pages on a device are
        written behind the work that the calling thread has given its current stream there until
        now: it may be of the request that had them before. slot: no two hand-overs may have the
        same slot at a time.

        Raises LocalProtocolError for a second call, and for pages that do not match the sources;
        TypeError or ValueError for anything but pages that there are, each once, and a slot of 0 or
        more. If the pages are known at the start, give them to `DecodeNode.open`: that saves a
        message.
        """
        self.hold(pages, slot)
        self._node.ask(lambda: self._node.want_memory(self))

    def hold(
        self, pages: Sequence[int] | Mapping[str, Sequence[int]], slot: int | None
    ) -> None:
        """Note the pages and the slot, without a message. Raises as `publish` does."""
        if self.page_lists is not None:
            raise LocalProtocolError(f"{self.life} has its pages already")
        row = checked.whole_or_none("slot", slot)
        sources = self.endpoint.peers
        of = ({source: self.marked(numbers) for source, numbers in pages.items()}
              if isinstance(pages, Mapping) else dict.fromkeys(sources, self.marked(pages)))
        if of.keys() != set(sources):
            raise LocalProtocolError(f"{self.life}: want pages for {', '.join(sources)}")
        self.page_lists = tuple(of[source] for source in sources)
        self.every_page = (self.page_lists[0] if len(of) == 1
                           else frozenset().union(*self.page_lists))
        self.slot = row

    def marked(self, pages: Sequence[int]) -> tuple[int, ...]:
        """Pages of the application, as they are handed over; see MarksPages. Raises TypeError or
        ValueError for anything but pages that there are, each once.
        """
        numbers = checked.numbers("pages", pages)
        if len(set(numbers)) != len(numbers):
            raise ValueError(f"pages {checked.shown(numbers)}: want each page once")
        return self._node.mark(numbers)

    def abort(self, reason: str = "aborted by decode") -> None:
        """Abort the hand-over. It ends with FAILED, unless it has ended already."""
        self._give_up(reason)

    def close(self, reason: str = "closed by decode") -> None:
        """End the use of this hand-over, when the answer has been generated.

        If it succeeded, its pages become free. If it has not ended, it is aborted with this reason.
        A second call does nothing.
        """
        told = checked.reason(reason)
        self._node.ask(lambda: self._node.close_handoff(self, told))

    def __repr__(self) -> str:
        return f"<Receiver of {self.life}: {self.endpoint!r}>"
