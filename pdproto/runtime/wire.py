"""The messages between two nodes, as bytes: tagged, versioned structs in msgpack.

Rule 1: any bytes decode to a batch or raise RemoteProtocolError. There is no third outcome.
Rule 2: every size that a peer controls has a limit, and the limit is in its type.
Rule 3: a frame is a message of the tables (`Frame.message`) with the data that the tables leave
        out: an address, the reason of a failure. The two ranks that a message names are the two
        ends of the connection. The batch names the sender and its incarnation.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import (
    BATCH_BYTES_MAX,
    CHUNKS_MAX,
    COMPONENTS_MAX,
    EARLIER_LIVES_MAX,
    FRAMES_MAX,
    LAYOUT_TOLD_MAX,
    LEASE_ADDRESS_MAX,
    METADATA_MAX,
    NAME_MAX,
    PAGES_MAX,
    PAYLOAD_MAX,
    REASON_MAX,
    ROOM_MAX,
    SINKS_MAX,
)
from pdproto.runtime.versions import (
    OLDEST,
    VERSION,
    Versioned,
    fingerprint,
    in_version,
    refusal,
)
from pdproto.spec.handoff import ends, group, group_attempts, routing
from pdproto.spec.language.symbols import Message

DIGEST_BYTES: Final = 8
FRAMES_SENT: Final = 64  # in a batch, which a loop reads in one step: 256 messages took 22 ms

U63 = Annotated[int, Meta(ge=0, le=ROOM_MAX)]
U32 = Annotated[int, Meta(ge=0, lt=1 << 32)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_MAX)]
Earlier = Annotated[tuple[U63, ...], Meta(max_length=EARLIER_LIVES_MAX)]
Sinks = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=SINKS_MAX)]
Pages = Annotated[int, Meta(ge=0, le=PAGES_MAX)]
Buffers = Annotated[int, Meta(ge=0, lt=1 << 31)]


class Life(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The identity of a hand-over: a life of a room at one incarnation of the sink's group.

    generation: counts the lives of that incarnation, over all rooms; the same at all its sinks.
    use: the caller's number of the request in its room; None if it gives none.
    """

    room: U63
    incarnation: U63
    generation: U63
    use: U63 | None = None

    def __str__(self) -> str:
        return f"room {self.room} ({self.incarnation:x}.{self.generation})"


class Frame(Versioned, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One message about one life."""

    message: ClassVar[Message[*tuple[Any, ...]]]
    life: Life


class PageLayout(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The layout of a node's pages that one peer writes or is written from.

    digest: over everything in which both ends must agree. told: the same as text for people.
    buffers: of a layer, for each component, and compared too; 0 if this end does not know them.
    """

    digest: Annotated[bytes, Meta(max_length=DIGEST_BYTES)]
    told: Annotated[str, Meta(max_length=LAYOUT_TOLD_MAX)]
    buffers: Annotated[tuple[Buffers, ...], Meta(max_length=COMPONENTS_MAX)] = ()


class Introduce(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="introduce"):
    """A sink tells a source of a new life.

    sinks: all sinks that this source feeds for this life. endpoint: the ZeroMQ endpoint of the
    sink. layout: of the sink's pages for this source; None if the data paths compare them. earlier:
    the generations of the lives of this room that come before it (spec/handoff/binding_ordered.py).
    """

    message = ends.introduce
    sinks: Sinks
    endpoint: Name
    layout: PageLayout | None = None
    earlier: Earlier = ()


class Publish(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="publish"):
    """A sink tells a source where it may write.

    address: of the memory leased to this life for this source, in the engine's own encoding. pages:
    how many pages the source is to write. layout, earlier: as in `Introduce`, which may be lost.
    """

    message = ends.publish
    address: Annotated[bytes, Meta(max_length=LEASE_ADDRESS_MAX)]
    pages: Pages
    sinks: Sinks
    endpoint: Name
    layout: PageLayout | None = None
    earlier: Earlier = ()


class Abort(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="abort"):
    """A sink aborts a life. endpoint: the ZeroMQ endpoint of the sink."""

    message = ends.abort
    reason: Reason
    endpoint: Name


class Expecting(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="expecting"):
    """A source that has the request answers a repeated introduction."""

    message = ends.expecting


class Done(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="done"):
    """A source has written all its chunks.

    chunks: the number of pages in each chunk, in order. metadata: the request's metadata row.
    digest: of the row and the life, see `row_digest`. use: of the room, see node/uses.py.
    """

    message = ends.done
    chunks: Annotated[tuple[Pages, ...], Meta(max_length=CHUNKS_MAX)]
    metadata: Annotated[bytes, Meta(max_length=METADATA_MAX)]
    digest: Annotated[bytes, Meta(max_length=DIGEST_BYTES)]
    use: U63 = 0

    def problem(self, pages: int) -> str:
        """The error of this frame; empty if there is none. pages: how many were published."""
        if sum(self.chunks) != pages:
            return f"has sent {sum(self.chunks)} pages, and {pages} were published"
        if self.digest != row_digest(self.life, self.metadata):
            return f"has sent {len(self.metadata)} bytes of metadata with another digest"
        return ""


def row_digest(life: Life, row: bytes) -> bytes:
    """The digest of a metadata row, keyed by the life: the row of another life does not match."""
    key = f"{life.room}.{life.incarnation}.{life.generation}".encode()
    return blake2b(row, digest_size=DIGEST_BYTES, key=key).digest()


class Failed(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="failed"):
    """A source tells a sink that the hand-over has failed, and why."""

    message = ends.failed
    reason: Reason


class AbortAck(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="abort_ack"):
    """A source answers an abort."""

    message = ends.abort_ack


class Drained(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="drained"):
    """A source will write nothing more for this life."""

    message = ends.drained


class Disown(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="disown"):
    """A prefill rank tells another rank, where decode looks for the room, that the room has failed.

    life: its room is that of the request; the sender knows no life of decode and chooses the rest.
    by, rank: the data-parallel ranks of sender and receiver. endpoint: of the sender.
    """

    message = routing.disown
    by: U63
    rank: U63
    reason: Reason
    endpoint: Name


class Meet(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="meet"):
    """Decode comes for a room, to a rank of the data-parallel rank that it has found for it."""

    message = routing.meet
    rank: U63
    endpoint: Name


class Met(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="met"):
    """The room runs on this data-parallel rank."""

    message = routing.met
    rank: U63


class Refuse(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="refuse"):
    """The room does not run on this data-parallel rank, and will not."""

    message = routing.refuse
    rank: U63
    reason: Reason


class Request(Frame, frozen=True, array_like=True, forbid_unknown_fields=True,
              tag="group.request"):
    """The entry of a group sends a request to a rank. payload: the data of the request."""

    message = group.request
    payload: Annotated[bytes, Meta(max_length=PAYLOAD_MAX)]


class Vote(Frame, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A rank of a group answers its entry. reason: why the rank cannot take part, or go on."""

    reason: Reason = ""


class Ready(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.ready"):
    """See `ready` in spec/handoff/group.py."""

    message = group.ready


class Dead(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.dead"):
    """See `dead` in spec/handoff/group.py."""

    message = group.dead


class Ended(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.ended"):
    """See `done` in spec/handoff/group.py."""

    message = group.done


class Broke(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.broke"):
    """See `broke` in spec/handoff/group.py."""

    message = group.broke


class Closed(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.closed"):
    """See `closed` in spec/handoff/group.py."""

    message = group.closed


class Decided(Frame, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The entry of a group tells a rank a decision. number: of the decision, from 0 on."""

    number: U63


class Admit(Decided, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.admit"):
    """See `admit` in spec/handoff/group.py. slot: the number of the slot."""

    message = group.admit
    slot: U63


class Fail(Decided, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.fail"):
    """See `fail` in spec/handoff/group.py."""

    message = group.fail
    reason: Reason


class Release(Decided, frozen=True, array_like=True, forbid_unknown_fields=True,
              tag="group.release"):
    """See `release` in spec/handoff/group.py."""

    message = group.release


class Drop(Decided, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.drop"):
    """See `drop` in spec/handoff/group.py."""

    message = group.drop
    reason: Reason


class PassReport(Versioned, frozen=True, array_like=True, forbid_unknown_fields=True,
                 tag="pass.report"):
    """A message of a rank in spec/handoff/group_attempts.py. attempt: of the chunks it reports."""

    life: Life
    said: Literal["ready", "dead", "half", "whole"]
    attempt: U63 = 0
    reason: Reason = ""
    message = property(lambda self: group_attempts.MESSAGES[self.said])


class PassDecision(Versioned, frozen=True, array_like=True, forbid_unknown_fields=True,
                   tag="pass.decision"):
    """A message of the entry in spec/handoff/group_attempts.py. attempt: that a rank begins."""

    life: Life
    said: Literal["run", "go_on", "finalize", "give_way", "admit", "fail"]
    number: U63
    attempt: U63 = 0
    message = property(lambda self: group_attempts.MESSAGES[self.said])


AnyVote: TypeAlias = Ready | Dead | Ended | Broke | Closed
AnyDecision: TypeAlias = Admit | Fail | Release | Drop
GroupFrame: TypeAlias = Request | AnyVote | AnyDecision | PassReport | PassDecision
RoutingFrame: TypeAlias = Disown | Meet | Met | Refuse
TransferFrame: TypeAlias = (
    Introduce | Expecting | Publish | Abort | Done | Failed | AbortAck | Drained
)
AnyFrame: TypeAlias = TransferFrame | RoutingFrame | GroupFrame
FRAMES: Final[Mapping[str, type[Frame]]] = {
    kind.message.name: kind for kind in get_args(TransferFrame)}


class Batch(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All frames of one node to another in one turn of its loop.

    floor: every life of this node's incarnation below it is over for the node, which sends nothing
    more about it, so the peer may forget it: `sink_over` of each (ends.py), as is the end of the
    process. 0 from a node that opens no lives. gone: why the node ends, in its last batch; else
    None. It is `gone` (ends.py) of every life begun with the process. unheard_ms: since the node
    heard from the peer, if too long; else 0. version, newest: of this batch, and that it reads.

    Every version begins with the same four fields, so that a batch of another one can be refused.
    format: the fingerprint of the version. call: where the node listens, until it has heard from
    the peer.
    """

    version: int
    format: U32
    node: Name
    call: Name | None
    incarnation: U63
    floor: U63
    frames: Annotated[tuple[AnyFrame, ...], Meta(max_length=FRAMES_MAX)]
    gone: Reason | None = None
    unheard_ms: U63 = 0
    newest: Annotated[int, Meta(ge=OLDEST)] = OLDEST


class _Head(Struct, array_like=True):
    """The four fields with which a batch of any version begins."""

    version: int
    format: U32
    node: Name
    call: Name | None


class _Number(Struct, array_like=True):
    version: int


class VersionError(RemoteProtocolError):
    """A batch of a version, or in a format, that this release does not read.

    call: where its sender listens, so that it can be told; None if the batch does not say so.
    """

    def __init__(self, why: str, call: str | None = None) -> None:
        super().__init__(why)
        self.call: Final = call


fingerprint(Batch, VERSION)  # which takes milliseconds, and a turn of a node has not so many

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Batch)
_head: Final = msgspec.msgpack.Decoder(_Head)
_number: Final = msgspec.msgpack.Decoder(_Number)
_refusal: Final = partial(refusal, "the peer", oldest=None, us="this node")


def batch_of(node: str, incarnation: int, frames: Sequence[AnyFrame]) -> Batch:
    """A batch of these frames, as a node of this version writes it."""
    return Batch(VERSION, fingerprint(Batch, VERSION), node, None, incarnation, 0, tuple(frames),
                 newest=VERSION)


def encode(
    node: str, incarnation: int, floor: int, frames: Sequence[AnyFrame], gone: str | None = None,
    *, unheard_ms: int = 0, version: int = VERSION, call: str | None = None,
) -> bytes:
    """The bytes of a batch in this version. A batch without frames is a sign of life."""
    batch = Batch(version, fingerprint(Batch, version), node, call, incarnation, floor,
                  tuple(frames), gone, unheard_ms, VERSION)
    return _encoder.encode(batch if version == VERSION else in_version(batch, version))


def encode_some(
    node: str, incarnation: int, floor: int, frames: Sequence[AnyFrame], *, unheard_ms: int = 0,
    version: int = VERSION, call: str | None = None,
) -> tuple[bytes, Sequence[AnyFrame]]:
    """The bytes of a batch with as many of these frames as are sent in one, and the rest."""
    count = min(len(frames), FRAMES_SENT)
    while True:
        data = encode(node, incarnation, floor, frames[:count], unheard_ms=unheard_ms,
                      version=version, call=call)
        if len(data) <= BATCH_BYTES_MAX or count <= 1:
            return data, frames[count:]
        count //= 2


def decode(data: bytes | memoryview) -> Batch:
    """The batch in these bytes. Raises RemoteProtocolError for bytes that are no batch, and
    VersionError, which names the versions of both ends, for a batch that this release cannot read.
    """
    if (size := len(data)) > BATCH_BYTES_MAX:
        raise RemoteProtocolError(f"a batch of {size:,} bytes; {BATCH_BYTES_MAX:,} is the limit")
    try:
        batch = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _complaint(data, error) from error
    if (why := _unreadable(batch.version, batch.format)) is not None:
        raise VersionError(why, batch.call)
    return batch


def _complaint(data: bytes | memoryview, error: Exception) -> RemoteProtocolError:
    broken = msgspec.MsgspecError, UnicodeDecodeError, RecursionError
    with suppress(*broken):
        head = _head.decode(data)
        if (why := _unreadable(head.version, head.format)) is not None:
            return VersionError(why, head.call)
    with suppress(*broken):
        if (why := _refusal(_number.decode(data).version)) is not None:
            return VersionError(why)
    return RemoteProtocolError(f"not a batch: {error}")


def _unreadable(version: int, theirs: int) -> str | None:
    """Why this release cannot read batches of this version in this format; None if it can."""
    if version != VERSION and (why := _refusal(version)) is not None:
        return why
    ours = fingerprint(Batch, version)
    if theirs == ours:
        return None
    return (f"version: the peer writes version {version} in the format {theirs:08x}, and this node "
            f"in the format {ours:08x}: both ends must be of one release")
