"""The handle of a hand-over: the object that a scheduler calls, at either end."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, Self

from pdproto.runtime import checked
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.symbols import State

ENDED: Final = (KVPoll.SUCCESS, KVPoll.FAILED)
CLOSED: Final = "the node has been closed"


@dataclass(frozen=True, slots=True)
class HandoffMetrics:
    """The numbers of one end of one hand-over.

    seconds: from its opening until its end, or until now. bytes, chunks: for a sender, landed at
    sinks, counted once for each sink; for a receiver, written by sources and verified. Bytes
    include digests; they are 0 for a data path that does not report them. repeats: how often a
    message was sent again because no answer came in time.
    """

    seconds: float
    bytes: int
    chunks: int
    repeats: int


class Opener(Protocol):
    """The node that a handle belongs to. elsewhere: why no call works in this process, if so."""

    elsewhere: str

    def clock(self) -> float:
        """Seconds of the node's clock. For any thread."""

    def ask(self, request: Callable[[], None]) -> None:
        """Run the request in the loop. For any thread."""

    def give_up(self, owner: Any, reason: str, *, transient: bool = False) -> None:
        """In the loop: abort the hand-over, for this reason (see Handle.note)."""


class Handle:
    """One end of one hand-over. Every method returns at once. `until` (transport/aio.py) awaits it.

    The node writes the attributes without an underscore, and any thread may read them.

    transient: of a failure, whether the whole request, sent again, may succeed: a server was lost,
    drained or slow. False of one that comes again (pages or prompts that do not fit), and where
    nobody knows, as of an abort by the application.
    """

    __slots__ = ("_node", "began", "blame", "ended", "endpoint", "entered", "landed_bytes",
                 "landed_chunks", "on_released", "opened", "reason", "released", "repeats",
                 "settled", "stage", "status", "transient", "untold", "watchers")

    def __init__(self, node: Opener, endpoint: Endpoint, stage: State) -> None:
        self._node = node
        self.endpoint = endpoint
        self.blame = ""
        self.reason: str | None = None
        self.released = self.untold = self.transient = False
        self.on_released: Callable[[], None] | None = None
        self.watchers: tuple[Callable[[], None], ...] = ()  # called in the loop, after each step
        self.opened = node.clock()
        self.entered = self.opened  # when its present stage began
        self.began = self.ended = 0.0
        self.landed_bytes = self.landed_chunks = self.repeats = 0
        self.stage = stage
        self.status = KVPoll.BOOTSTRAPPING  # the answer of a poll
        self.settled = KVPoll.BOOTSTRAPPING  # the same, but it ends only when the pages are free

    def watch(
        self, on_released: Callable[[], None] | None, watcher: Callable[[Self], None] | None
    ) -> None:
        """Set functions that the node calls in its loop.

        on_released: called when the pages are free again. watcher: called with this handle after
        each step of the hand-over. Raises TypeError for anything else.
        """
        for name, value in (("on_released", on_released), ("watcher", watcher)):
            if value is not None:
                checked.function(name, value)
        self.on_released = on_released
        self.watchers = () if watcher is None else (partial(watcher, self),)

    def poll(self) -> KVPoll:
        """The status of the hand-over. Asking changes nothing. Raises LocalProtocolError in a
        forked child, as every call does.
        """
        if self._node.elsewhere:
            raise LocalProtocolError(self._node.elsewhere)
        return self.status

    @property
    def failure(self) -> str | None:
        """The reason of the failure, at this side or the other; None if it has not failed."""
        return (self.reason or self.blame or "failed") if self.poll() is KVPoll.FAILED else None

    @property
    def metrics(self) -> HandoffMetrics:
        """The numbers of this hand-over, as of now. Asking changes nothing."""
        seconds = (self.ended or self._node.clock()) - self.opened
        return HandoffMetrics(max(0.0, seconds), self.landed_bytes, self.landed_chunks,
                              self.repeats)

    def note(self, blame: str, *, transient: bool = False) -> None:
        """In the loop: note why the hand-over fails if it does now; after its end this changes no
        failure.
        """
        self.blame = blame
        if self.reason is None:
            self.transient = transient

    def note_released(self) -> None:
        """In the loop: note that the pages are free. The application is told when the status,
        too, is that of this step.
        """
        self.released = self.untold = True

    def _give_up(self, reason: str) -> None:
        told = checked.reason(reason)
        self._node.ask(lambda: self._node.give_up(self, told))


def handles_of(lives: Mapping[Life, Endpoint]) -> Iterator[Any]:
    """The senders or receivers of the lives that there are at the call, which copies references
    alone. For any thread: a life that the loop forgets meanwhile may be missing.
    """
    return (owner for endpoint in list(lives.values())
            if isinstance(owner := endpoint.owner, Handle))


def log_fields(node: str, life: Life | None, room: int | None = None) -> dict[str, Any]:
    """The fields of a log line about a hand-over of this node."""
    if life is None:
        return {"rank": node, "room": room}
    return {"rank": node, "room": life.room, "incarnation": life.incarnation,
            "generation": life.generation}
