"""What a scheduler holds of a hand-over, at either end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import index
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex

from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import REASON_MAX, ROOM_MAX, Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.symbols import State

if TYPE_CHECKING:
    from pdproto.node.node import Node

ENDED: Final = (KVPoll.SUCCESS, KVPoll.FAILED)


@dataclass(frozen=True, slots=True)
class HandoffMetrics:
    """What one end of one hand-over has come to.

    seconds: since it was opened; of one that has ended, until then. bytes, chunks: that have landed
    at sinks (of a sender: once for each sink), or that sources have brought and whose digests agree
    (of a receiver). Bytes are counted as they are written, with their digests, and are 0 where the
    data plane does not say. repeats: waits without an answer, after which something was said again.
    """

    seconds: float
    bytes: int
    chunks: int
    repeats: int


def room_number(room: object) -> int:
    """The number of a room. Raises TypeError or ValueError for what none can be."""
    if isinstance(room, bool) or not isinstance(room, SupportsIndex):
        raise TypeError(f"room {room!r}: want a whole number, got {type(room).__name__}")
    number = index(room)
    if not 0 <= number <= ROOM_MAX:
        raise ValueError(f"room {number}: want 0 to {ROOM_MAX:,} (63 bits, as messages carry it)")
    return number


class Handle:
    """One end of one hand-over. Every method returns at once. `until` (transport/aio.py) awaits it.

    All that has no underscore, and is no method, is the loop's to write and anybody's to read.
    """

    __slots__ = ("_node", "began", "blame", "ended", "endpoint", "entered", "landed_bytes",
                 "landed_chunks", "on_released", "opened", "reason", "released", "repeats",
                 "settled", "stage", "stands", "watchers")

    def __init__(self, node: "Node", endpoint: Endpoint, stage: State) -> None:
        self._node = node
        self.endpoint = endpoint
        self.blame = ""
        self.reason: str | None = None
        self.released = False
        self.on_released: Callable[[], None] | None = None
        self.watchers: tuple[Callable[[], None], ...] = ()  # called in the loop, after each step
        self.opened = self.entered = monotonic()  # the latter: its stage
        self.began = self.ended = 0.0
        self.landed_bytes = self.landed_chunks = self.repeats = 0
        self.stage = stage
        self.stands = KVPoll.BOOTSTRAPPING  # what a poll answers
        self.settled = KVPoll.BOOTSTRAPPING  # the same, but no end before the pages are free

    def watch(
        self, on_released: Callable[[], None] | None, watcher: Callable[[Self], None] | None
    ) -> None:
        """Have these called in the loop: when its pages are free again, and after each step."""
        self.on_released = on_released
        self.watchers = () if watcher is None else (partial(watcher, self),)

    def poll(self) -> KVPoll:
        """Where the hand-over stands. Asking changes nothing."""
        return self.stands

    @property
    def failure(self) -> str | None:
        """Why the hand-over has failed, from whichever side it comes; None if it has not."""
        return (self.reason or self.blame or "failed") if self.poll() is KVPoll.FAILED else None

    @property
    def metrics(self) -> HandoffMetrics:
        """What this hand-over has come to, as of now. Asking changes nothing."""
        seconds = (self.ended or monotonic()) - self.opened
        return HandoffMetrics(max(0.0, seconds), self.landed_bytes, self.landed_chunks,
                              self.repeats)

    def tell_released(self) -> None:
        """In the loop: its pages are free again."""
        self.released = True
        if self.on_released is not None:
            self.on_released()

    def _give_up(self, reason: str) -> None:
        self._node.ask(lambda: self._node.give_up(self, reason[:REASON_MAX]))


def handles_of(lives: Mapping[Life, Endpoint]) -> list[Any]:
    """The senders or receivers of these lives. For any thread: a life that the loop forgets
    meanwhile has none any more, and is left out.
    """
    owners = [endpoint.owner for endpoint in list(lives.values())]
    return [owner for owner in owners if isinstance(owner, Handle)]
