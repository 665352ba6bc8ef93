"""The handle of a hand-over at a prefill rank."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from pdproto.node.data_path import Posted
from pdproto.node.handle import ENDED, Handle, Opener
from pdproto.runtime import checked
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.limits import CHUNKS_MAX
from pdproto.runtime.role import SourceRole
from pdproto.runtime.sending import SendingEndpoint
from pdproto.runtime.wire import Done, Life, row_digest
from pdproto.spec.handoff.ends import Sending
from pdproto.spec.handoff.poll import KVPoll

LANE_BYTES_MAX: Final = 8 << 20  # on their way to one sink; the last chunk may exceed it


class Lane:
    """The chunks of one sender that are on their way to one sink.

    Their bytes are bounded. So when a hand-over fails, few chunks have begun to move; the others
    are never posted. Two large chunks are enough to keep an engine busy: one is packed while the
    other moves.

    posted: the number of chunks posted so far. offset: of the next chunk in the sink's lease.
    """

    __slots__ = ("_bytes", "offset", "posted")

    def __init__(self) -> None:
        self.posted = self.offset = self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether another chunk may be posted now."""
        return self._bytes < LANE_BYTES_MAX

    def begin(self, posted: Posted) -> None:
        """Count a chunk that has been posted."""
        self.posted += 1
        self.offset = posted.behind
        self._bytes += posted.bytes

    def end(self, length: int) -> None:
        """Count the end of a write of `length` bytes."""
        self._bytes -= length


class SenderNode(Opener, Protocol):
    """The node that a sender belongs to."""

    @property
    def role(self) -> SourceRole:
        """The tables of the source, ready to run."""

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See MarksPages. For any thread."""

    def hand_over(
        self, sender: "Sender", pages: tuple[int, ...], last: bool, metadata: bytes
    ) -> None:
        """In the loop: take one more chunk of the sender."""


class Sender(Handle):
    """One hand-over, as a prefill rank's scheduler sees it. Every method returns at once."""

    __slots__ = ("_handed", "_lanes", "_last", "addresses", "chunks", "given_use", "metadata",
                 "misfit", "once", "prompt", "room", "use", "wanted")

    _node: SenderNode
    endpoint: SendingEndpoint

    def __init__(
        self, node: SenderNode, room: int, given_use: int | None = None,
        prompt: bytes | None = None,
    ) -> None:
        super().__init__(node, SendingEndpoint(node.role, self), Sending.UNKNOWN)
        self._handed = 0  # chunks, counted by the application's thread
        self._last = False
        self._lanes: Final[dict[int, Lane]] = {}
        self.room: Final = room
        self.given_use: Final = given_use  # the use that the caller gives
        self.use = given_use or 0  # of the room (uses.py)
        self.prompt: Final = prompt  # by the caller's name
        self.once = False  # of an early life: see Introduce
        self.addresses: dict[int, bytes] = {}
        self.wanted: dict[int, int] = {}  # by sink, how many pages it has published
        self.chunks: list[Sequence[int]] = []
        self.metadata = b""
        self.misfit = ""  # why its pages do not fit those of a sink; empty if they do

    def adopt(self, early: "Sender") -> None:
        """Take over the state of an endpoint that a sink has met before the room was opened."""
        self.endpoint, self.endpoint.owner = early.endpoint, self
        self.addresses, self.wanted = early.addresses, early.wanted
        self.blame, self.reason, self.transient = early.blame, early.reason, early.transient
        self.stage, self.status, self.ended = early.stage, early.status, early.ended
        self.settled, self.misfit, self.entered = early.settled, early.misfit, early.entered

    def done(self, life: Life) -> Done:
        """The message to a sink that every chunk has been written."""
        return Done(life, tuple(map(len, self.chunks)), self.metadata,
                    row_digest(life, self.metadata), self.use)

    def send(self, pages: Sequence[int], *, last: bool = True, metadata: bytes = b"") -> None:
        """Hand over pages of the pool, in the order of the request's tokens.

        Pages on a device are read behind the work that the calling thread has given its current
        stream there until now. last: no more pages follow. metadata: the request's metadata row,
        with the last pages (at most 1 MiB). The pages belong to the hand-over until `released` is
        true. Raises LocalProtocolError before `poll` returns WAITING_FOR_INPUT, after the last
        pages, and for too many chunks; TypeError or ValueError for anything but pages that there
        are, and for metadata that is no bytes, or too long. Nothing is sent then.
        """
        if self._last:
            raise LocalProtocolError(f"room {self.room}: the last pages have been sent")
        if self._handed >= CHUNKS_MAX:
            raise LocalProtocolError(f"room {self.room}: over {CHUNKS_MAX:,} chunks")
        if self.poll() is KVPoll.BOOTSTRAPPING:
            raise LocalProtocolError(f"room {self.room}: no sink has published where the pages go")
        marked = self._node.mark(checked.numbers("pages", pages))
        row, is_last = checked.row("metadata", metadata), checked.flag("last", last)
        self._node.ask(lambda: self._node.hand_over(self, marked, is_last, row))
        self._last = is_last
        self._handed += 1

    def lane(self, sink: int) -> Lane:
        """In the loop: the lane to the sink of this index."""
        if sink not in self._lanes:
            self._lanes[sink] = Lane()
        return self._lanes[sink]

    def is_wanted(self) -> bool:
        """Whether the hand-over has not failed. Chunks of a failed one are skipped. For any thread.
        """
        return self.stage is not Sending.FAILED

    def abort(self, reason: str = "aborted by prefill") -> None:
        """Abort the hand-over. It ends with FAILED, unless it has ended already."""
        self._give_up(reason)

    def close(self, reason: str = "closed by prefill") -> None:
        """End the use of this hand-over. If it has not ended, it is aborted with this reason.

        If it has ended, or for a second call, this does nothing. The pages are free when `released`
        is true, as after an abort.
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


def in_doubt_reason(sink: str, reason: str) -> str:
    """Why a write in doubt fails its hand-over. reason: the engine's; may be empty."""
    return f"the engine gave up writing to {sink}" + (f": {reason}" if reason else "")


def refusal_reason(sink: str, reason: str) -> str:
    """Why a write that did not land fails its hand-over. reason: the engine's; may be empty."""
    return f"a write to {sink} was refused: {reason or 'it has fenced this hand-over'}"
