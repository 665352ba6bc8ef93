"""What a prefill rank's scheduler holds of a hand-over."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from pdproto.node.handle import ENDED, Handle, Opener
from pdproto.node.lane import Lane
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.role import SourceRole
from pdproto.runtime.sending import SendingEndpoint
from pdproto.runtime.wire import CHUNKS_MAX, METADATA_MAX, Done, Life, row_digest
from pdproto.spec.handoff.ends import Sending
from pdproto.spec.handoff.poll import KVPoll


class SenderNode(Opener, Protocol):
    """The node that a sender belongs to."""

    @property
    def role(self) -> SourceRole: ...

    def hand_over(
        self, sender: "Sender", pages: tuple[int, ...], last: bool, metadata: bytes
    ) -> None: ...


class Sender(Handle):
    """One hand-over, as a prefill rank's scheduler sees it. Every method returns at once."""

    __slots__ = ("_handed", "_lanes", "_last", "addresses", "chunks", "metadata", "misfit",
                 "room", "use")

    _node: SenderNode
    endpoint: SendingEndpoint

    def __init__(self, node: SenderNode, room: int) -> None:
        super().__init__(node, SendingEndpoint(node.role, self), Sending.UNKNOWN)
        self._handed = 0  # of any thread that sends
        self._last = False
        self._lanes: Final[dict[int, Lane]] = {}
        self.room: Final = room
        self.use = 0  # of the room
        self.addresses: dict[int, bytes] = {}
        self.chunks: list[Sequence[int]] = []
        self.metadata = b""
        self.misfit = ""  # why its pages do not go with those of a sink, if so

    def adopt(self, early: "Sender") -> None:
        """Take over what has come for this room before it was opened."""
        self.endpoint, self.endpoint.owner = early.endpoint, self
        self.addresses, self.blame, self.reason = early.addresses, early.blame, early.reason
        self.stage, self.status, self.ended = early.stage, early.status, early.ended
        self.settled, self.misfit, self.entered = early.settled, early.misfit, early.entered

    def done(self, life: Life) -> Done:
        """What tells a sink that all has been written."""
        return Done(life, tuple(map(len, self.chunks)), self.metadata,
                    row_digest(life, self.metadata), self.use)

    def send(self, pages: Sequence[int], *, last: bool = True, metadata: bytes = b"") -> None:
        """Hand over pages of the pool, in the order of the request's tokens.

        last: nothing follows. metadata: the request's metadata row, with the last pages (at most
        1 MiB). The pages belong to the hand-over until `released`. Raises LocalProtocolError before
        the poll says WAITING_FOR_INPUT, and after the last pages.
        """
        if self._last:
            raise LocalProtocolError(f"room {self.room}: the last pages have been sent")
        if len(metadata) > METADATA_MAX:
            raise LocalProtocolError(f"room {self.room}: metadata of {len(metadata):,} bytes; "
                                     f"{METADATA_MAX:,} is the limit")
        if self._handed >= CHUNKS_MAX:
            raise LocalProtocolError(f"room {self.room}: over {CHUNKS_MAX:,} chunks")
        if self.poll() is KVPoll.BOOTSTRAPPING:
            raise LocalProtocolError(f"room {self.room}: no sink has published where the pages go")
        self._last = last
        self._handed += 1
        self._node.ask(lambda: self._node.hand_over(self, tuple(pages), last, metadata))

    def lane(self, sink: int) -> Lane:
        """In the loop: what is on its way to the sink of this index."""
        if sink not in self._lanes:
            self._lanes[sink] = Lane()
        return self._lanes[sink]

    def is_wanted(self) -> bool:
        """Whether the hand-over has not failed: else nothing of it begins to move. For any thread.
        """
        return self.stage is not Sending.FAILED

    def abort(self, reason: str = "aborted by prefill") -> None:
        """Give the hand-over up. It ends with FAILED, unless it has ended already."""
        self._give_up(reason)

    def close(self, reason: str = "closed by prefill") -> None:
        """The scheduler is done with it: what has not ended is given up, for this reason.

        Of one that has ended nothing is left to give back, so a second call does nothing. The pages
        are free when `released` says so, as after an abort.
        """
        if self.poll() not in ENDED:
            self._give_up(reason)

    def __repr__(self) -> str:
        return f"<Sender of room {self.room}: {self.endpoint!r}>"


class Written(NamedTuple):
    """A write that was posted and has not ended.

    sink: index in the endpoint's peers. bytes: 0 for a data path that does not report them.
    """

    endpoint: SendingEndpoint
    sink: int
    chunk: int
    bytes: int


class ByRoom:
    """Senders that wait for something of their room, first come first served."""

    def __init__(self) -> None:
        self._senders: Final[dict[int, deque[Sender]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sender: Sender) -> None:
        self._count += 1
        self._senders.setdefault(sender.room, deque()).append(sender)

    def take(self, room: int) -> Sender | None:
        """The first that waits for this room, and waits no longer."""
        waiting = self._senders.get(room)
        sender = waiting.popleft() if waiting else None
        self._count -= sender is not None
        if not waiting:
            self._senders.pop(room, None)
        return sender

    def __iter__(self) -> Iterator[Sender]:
        """All that wait now, room by room. For any thread, whatever comes or goes meanwhile."""
        return iter([sender for waiting in list(self._senders.values())
                     for sender in list(waiting)])

    def drop(self, sender: Sender) -> None:
        """It waits no longer, if it does."""
        waiting = self._senders.get(sender.room)
        if waiting and sender in waiting:
            waiting.remove(sender)
            self._count -= 1
            if not waiting:
                del self._senders[sender.room]


def gave_up(sink: str, reason: str) -> str:
    """Why a write nobody knows the end of fails its hand-over. reason: as the engine says."""
    return f"the engine gave up writing to {sink}" + (f": {reason}" if reason else "")


def refusal(sink: str, reason: str) -> str:
    """Why a write that did not land fails its hand-over. reason: as the engine says, if it does."""
    return f"a write to {sink} was refused: {reason or 'it has fenced this hand-over'}"
