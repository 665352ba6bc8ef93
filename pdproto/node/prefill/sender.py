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
    """One sink of a sender, and the chunks that are on their way there.

    Their bytes are bounded. So when a hand-over fails, few chunks have begun to move; the others
    are never posted. Two large chunks are enough to keep an engine busy: one is packed while the
    other moves.

    address: of the sink's lease. wanted: how many pages it has published. posted: the number of
    chunks posted so far. offset: of the next chunk in the lease.
    """

    __slots__ = ("_bytes", "address", "offset", "posted", "wanted")

    def __init__(self, address: bytes, wanted: int) -> None:
        self.address: Final = address
        self.wanted = wanted
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

    def stood(self, seconds: float) -> float:
        """See Sender.stood. For any thread."""

    def hand_over(
        self, sender: "Sender", pages: tuple[int, ...], last: bool, metadata: bytes
    ) -> None:
        """In the loop: take one more chunk of the sender."""


class Sender(Handle):
    """One hand-over, as a prefill rank's scheduler sees it. Every method returns at once.

    lanes: by index of a sink; None of one that has not published.
    """

    __slots__ = ("_handed", "_last", "chunks", "given_use", "lanes", "metadata", "misfit", "once",
                 "prompt", "room", "use")

    _node: SenderNode
    endpoint: SendingEndpoint

    def __init__(
        self, node: SenderNode, room: int, given_use: int | None = None,
        prompt: bytes | None = None,
    ) -> None:
        super().__init__(node, SendingEndpoint(node.role, self), Sending.UNKNOWN)
        self._handed = 0  # chunks, counted by the application's thread
        self._last = False
        self.lanes: tuple[Lane | None, ...] = ()
        self.room: Final = room
        self.given_use: Final = given_use  # the use that the caller gives
        self.use = given_use or 0  # of the room (uses.py)
        self.prompt: Final = prompt  # by the caller's name
        self.once = False  # of an early life: see Introduce
        self.chunks: list[Sequence[int]] = []
        self.metadata = b""
        self.misfit = ""  # why its pages do not fit those of a sink; empty if they do

    def adopt(self, early: "Sender") -> None:
        """Take over the state of an endpoint that a sink has met before the room was opened."""
        self.endpoint, self.endpoint.owner = early.endpoint, self
        self.lanes = early.lanes
        self.blame, self.reason, self.transient = early.blame, early.reason, early.transient
        self.stage, self.status, self.ended = early.stage, early.status, early.ended
        self.settled, self.misfit, self.entered = early.settled, early.misfit, early.entered

    def done(self, life: Life) -> Done:
        """The message to a sink that every chunk has been written."""
        return Done(life, tuple(map(len, self.chunks)), self.metadata,
                    row_digest(life, self.metadata), self.use)

    def stood(self, seconds: float) -> float:
        """For how many of the last seconds of the node's clock some peer was suspected. A clock of
        the application that waits for decode stands still meanwhile, as those of the node do.
        """
        return self._node.stood(checked.seconds("seconds", seconds, or_0=True))

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
            raise LocalProtocolError(f"room {self.room}: some sink has not published where the "
                                     f"pages go")
        marked = self._node.mark(checked.numbers("pages", pages))
        row, is_last = checked.row("metadata", metadata), checked.flag("last", last)
        self._node.ask(lambda: self._node.hand_over(self, marked, is_last, row))
        self._last = is_last
        self._handed += 1

    def published(self, sink: int, address: bytes, wanted: int) -> None:
        """In the loop: the sink of this index has leased memory at this address, for so many pages.
        It may say so again.
        """
        lanes = self.lanes
        if sink >= len(lanes) or lanes[sink] is None:
            padded = [*lanes, *(None,) * (sink + 1 - len(lanes))]
            padded[sink] = Lane(address, wanted)
            self.lanes = tuple(padded)

    def lane(self, sink: int) -> Lane:
        """In the loop: the lane to the sink of this index. Raises LocalProtocolError for one that
        has not published.
        """
        lane = self.lanes[sink] if sink < len(self.lanes) else None
        if lane is None:
            raise LocalProtocolError(f"room {self.room}: sink {sink} has not published")
        return lane

    def known_lanes(self) -> list[Lane]:
        """The lanes to the sinks that have published. For any thread."""
        return [lane for lane in self.lanes if lane is not None]

    def posted(self, sink: int) -> int:
        """In the loop: how many chunks have been posted to the sink of this index."""
        lane = self.lanes[sink] if sink < len(self.lanes) else None
        return 0 if lane is None else lane.posted

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
    return f"a write to {sink} was refused: {reason or 'its engine gives no reason'}"
