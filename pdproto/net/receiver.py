"""What a decode rank's scheduler holds of a hand-over."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.wire import PAGES_MAX, REASON_MAX, Done, Life
from pdproto.spec.handoff.ends import Receiving
from pdproto.spec.handoff.poll import KVPoll

if TYPE_CHECKING:
    from pdproto.net.decode import DecodeNode


class Receiver:
    """One hand-over, as a decode rank's scheduler sees it. Every method returns at once."""

    __slots__ = ("_node", "began", "blame", "endpoint", "life", "metadata", "on_released", "pages",
                 "reason", "released", "sinks", "slot", "stage", "stands", "unverified", "watchers")

    def __init__(
        self, node: "DecodeNode", life: Life, sources: tuple[str, ...], sinks: tuple[str, ...]
    ) -> None:
        self._node = node
        self.sinks: Final = sinks
        self.life: Final = life
        self.endpoint: Final = Endpoint(node.role.of(sources=len(sources)), life, sources, self)
        self.pages: dict[str, tuple[int, ...]] | None = None
        self.slot: int | None = None
        self.metadata: dict[str, bytes] = {}  # by source, as each has sent it
        self.unverified: dict[str, Done] = {}
        self.blame = ""
        self.reason: str | None = None
        self.released = False
        self.on_released: Callable[[], None] | None = None
        self.watchers: tuple[Callable[[], None], ...] = ()  # called in the loop, after each step
        self.began = 0.0
        self.stage = Receiving.UNKNOWN
        self.stands = KVPoll.BOOTSTRAPPING  # what a poll answers; the loop's to write

    @property
    def room(self) -> int:
        return self.life.room

    def poll(self) -> KVPoll:
        """Where the hand-over stands. Asking changes nothing."""
        return self.stands

    def publish(
        self, pages: Sequence[int] | Mapping[str, Sequence[int]], slot: int = 0
    ) -> None:
        """Give the hand-over its memory: pages of the pool, and a slot for the metadata row.

        pages: for each source those that it fills, in its order; or one list for all. They belong
        to the hand-over until `released`: after a failure as soon as nothing is copied into them,
        after Success when it is closed. Raises LocalProtocolError for a second call.
        """
        if self.pages is not None:
            raise LocalProtocolError(f"{self.life} has its pages")
        sources = self.endpoint.peers
        of = pages if isinstance(pages, Mapping) else dict.fromkeys(sources, pages)
        if of.keys() != set(sources):
            raise LocalProtocolError(f"{self.life}: want pages for {', '.join(sources)}")
        for source, numbers in of.items():
            if len(numbers) > PAGES_MAX or len(set(numbers)) != len(numbers):
                raise LocalProtocolError(f"{self.life}, {source}: want at most {PAGES_MAX:,} "
                                         f"pages, each once")
        self.pages = {source: tuple(numbers) for source, numbers in of.items()}
        self.slot = slot
        self._node.ask(lambda: self._node.want_memory(self))

    @property
    def every_page(self) -> set[int]:
        """The pages that it has been given, for whichever source."""
        return set().union(*(self.pages or {}).values())

    @property
    def failure(self) -> str | None:
        """Why the hand-over has failed, from whichever side it comes; None if it has not."""
        return (self.reason or self.blame or "failed") if self.poll() is KVPoll.FAILED else None

    def abort(self, reason: str = "aborted by decode") -> None:
        """Give the hand-over up. It ends with FAILED, unless it has ended already."""
        self._node.ask(lambda: self._node.give_up(self, reason[:REASON_MAX]))

    def close(self) -> None:
        """The answer has been generated: the pages of a hand-over that succeeded are free."""
        self._node.ask(lambda: self._node.finish(self))

    def __repr__(self) -> str:
        return f"<Receiver of {self.life}: {self.endpoint!r}>"
