"""The messages between two nodes, as bytes: tagged, versioned structs in msgpack.

Rule 1: any bytes are a batch or a RemoteProtocolError. There is no third outcome.
Rule 2: every size that a peer controls has a limit, and the limit is in its type.
Rule 3: a frame is a message of the tables (`Frame.message`) with what the tables leave open: where
        to write, why it failed. The two ranks that a message names are the two ends of the
        connection; the batch says who speaks, and in which of its incarnations.

A batch has all frames of a node to one peer in one turn of its loop.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from pdproto.runtime.errors import RemoteProtocolError
from pdproto.spec.handoff import ends, group, routing
from pdproto.spec.language.symbols import Message

VERSION: Final = 2
BATCH_BYTES_MAX: Final = 4 << 20
FRAMES_MAX: Final = 256  # in one batch: a loop takes it in one go
NAME_MAX: Final = 128
REASON_MAX: Final = 1_024
SINKS_MAX: Final = 32  # of one source: more ranks of decode are fed by no rank of prefill
CHUNKS_MAX: Final = 4_096
PAGES_MAX: Final = 1 << 24
ADDRESS_MAX: Final = 1_024
METADATA_MAX: Final = 1 << 20
DIGEST_BYTES: Final = 8
LAYOUT_TOLD_MAX: Final = 512
PAYLOAD_MAX: Final = 1 << 20

ROOM_MAX: Final = (1 << 63) - 1

U63 = Annotated[int, Meta(ge=0, le=ROOM_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_MAX)]
Sinks = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=SINKS_MAX)]
Pages = Annotated[int, Meta(ge=0, le=PAGES_MAX)]


class Life(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The identity of a hand-over: a life of a room at one incarnation of the sink's group.

    generation: counts the lives of that incarnation, whatever their rooms; decided once for all
    sinks of the group.
    """

    room: U63
    incarnation: U63
    generation: U63

    def __str__(self) -> str:
        return f"room {self.room} ({self.incarnation:x}.{self.generation})"


class Frame(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One message about one life."""

    message: ClassVar[Message[*tuple[Any, ...]]]
    life: Life


class Layout(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How the pages of a node lie that one peer writes or is written from. digest: of all that both
    ends must have in common. told: the same for people.
    """

    digest: Annotated[bytes, Meta(max_length=DIGEST_BYTES)]
    told: Annotated[str, Meta(max_length=LAYOUT_TOLD_MAX)]


class Introduce(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="introduce"):
    """sinks: all that this source feeds for this life. endpoint: where the sink listens. layout: of
    its pages for this source; None where the data paths see to it themselves.
    """

    message = ends.introduce
    sinks: Sinks
    endpoint: Name
    layout: Layout | None = None


class Publish(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="publish"):
    """address: of the memory leased to this life for this source, in the engine's terms. layout: as
    in `Introduce`, which may have been lost.
    """

    message = ends.publish
    address: Annotated[bytes, Meta(max_length=ADDRESS_MAX)]
    pages: Pages
    sinks: Sinks
    endpoint: Name
    layout: Layout | None = None


class Abort(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="abort"):
    message = ends.abort
    reason: Reason
    endpoint: Name


class Expecting(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="expecting"):
    message = ends.expecting


class Done(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="done"):
    """chunks: how many pages each carries, in order. metadata: the request's metadata row. digest:
    of the row and the life, see `row_digest`. use: which request of the room it is, see
    node/uses.py.
    """

    message = ends.done
    chunks: Annotated[tuple[Pages, ...], Meta(max_length=CHUNKS_MAX)]
    metadata: Annotated[bytes, Meta(max_length=METADATA_MAX)]
    digest: Annotated[bytes, Meta(max_length=DIGEST_BYTES)]
    use: U63 = 0

    def problem(self, pages: int) -> str:
        """The error of a source that was given so many pages; empty if there is none."""
        if sum(self.chunks) != pages:
            return f"has sent {sum(self.chunks)} pages, and {pages} were published"
        if self.digest != row_digest(self.life, self.metadata):
            length = len(self.metadata)
            return f"has sent a metadata row of {length} bytes, and its digest does not agree"
        return ""


def row_digest(life: Life, row: bytes) -> bytes:
    """Of a metadata row: keyed by the life, so that the row of another life does not pass."""
    key = f"{life.room}.{life.incarnation}.{life.generation}".encode()
    return blake2b(row, digest_size=DIGEST_BYTES, key=key).digest()


class Failed(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="failed"):
    message = ends.failed
    reason: Reason


class AbortAck(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="abort_ack"):
    message = ends.abort_ack


class Drained(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="drained"):
    message = ends.drained


class Disown(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="disown"):
    """A prefill rank to the one where decode looks for a room that has failed here. life: the room;
    the rest is the sender's own, for it knows no life of decode. endpoint: where it listens.
    """

    message = routing.disown
    reason: Reason
    endpoint: Name


class Request(Frame, frozen=True, array_like=True, forbid_unknown_fields=True,
              tag="group.request"):
    """The entry of a group to a rank. payload: the data of the request for the rank."""

    message = group.request
    payload: Annotated[bytes, Meta(max_length=PAYLOAD_MAX)]


class Vote(Frame, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A rank of a group to its entry. reason: of a rank that cannot take part, or go on."""

    reason: Reason = ""


class Ready(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.ready"):
    message = group.ready


class Dead(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.dead"):
    message = group.dead


class Ended(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.ended"):
    message = group.done


class Broke(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.broke"):
    message = group.broke


class Closed(Vote, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.closed"):
    message = group.closed


class Decided(Frame, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The entry of a group to a rank. number: of the decision, from 0 on."""

    number: U63


class Admit(Decided, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.admit"):
    message = group.admit
    slot: U63


class Fail(Decided, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.fail"):
    message = group.fail
    reason: Reason


class Release(Decided, frozen=True, array_like=True, forbid_unknown_fields=True,
              tag="group.release"):
    message = group.release


class Drop(Decided, frozen=True, array_like=True, forbid_unknown_fields=True, tag="group.drop"):
    message = group.drop
    reason: Reason


AnyVote: TypeAlias = Ready | Dead | Ended | Broke | Closed
AnyDecision: TypeAlias = Admit | Fail | Release | Drop
GroupFrame: TypeAlias = Request | AnyVote | AnyDecision
AnyFrame: TypeAlias = (
    Introduce | Expecting | Publish | Abort | Done | Failed | AbortAck | Drained | Disown
    | GroupFrame
)
FRAMES: Final[Mapping[str, type[Frame]]] = {
    kind.message.name: kind
    for kind in (Introduce, Expecting, Publish, Abort, Done, Failed, AbortAck, Drained)
}


class Batch(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All frames of one node to another in one turn.

    floor: every life of this node's incarnation below this generation is over for it, and nothing
    more will come about them, so that the peer may forget them. 0 from a node that opens none.
    To a source it is `sink_over` of all of them (ends.py), as the end of the process is.
    gone: why the node ends, in the last batch that it sends; None in all others. With the process
    goes every life that was begun with it, so this is `gone` of all of them at once (ends.py).
    unheard_ms: for how long the node has heard nothing of the peer, if that is longer than it
    should be: what the peer says does not arrive, though this does. 0 in all others.
    """

    version: int
    node: Name
    incarnation: U63
    floor: U63
    frames: Annotated[tuple[AnyFrame, ...], Meta(max_length=FRAMES_MAX)]
    gone: Reason | None = None
    unheard_ms: U63 = 0


class _Head(Struct, array_like=True):
    version: int


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Batch)
_head: Final = msgspec.msgpack.Decoder(_Head)


def encode(
    node: str, incarnation: int, floor: int, frames: Sequence[AnyFrame], gone: str | None = None,
    *, unheard_ms: int = 0,
) -> bytes:
    """The bytes of a batch. A batch without frames is a sign of life."""
    return _encoder.encode(
        Batch(VERSION, node, incarnation, floor, tuple(frames), gone, unheard_ms))


def encode_some(
    node: str, incarnation: int, floor: int, frames: Sequence[AnyFrame], *, unheard_ms: int = 0
) -> tuple[bytes, Sequence[AnyFrame]]:
    """The bytes of a batch of as many of these frames as one batch may have, and the others."""
    count = min(len(frames), FRAMES_MAX)
    data = encode(node, incarnation, floor, frames[:count], unheard_ms=unheard_ms)
    while len(data) > BATCH_BYTES_MAX and count > 1:
        count //= 2
        data = encode(node, incarnation, floor, frames[:count], unheard_ms=unheard_ms)
    return data, frames[count:]


def decode(data: bytes | memoryview) -> Batch:
    """The batch that the bytes are.

    Raises RemoteProtocolError for anything else, and names both versions if that is the reason.
    """
    if len(data) > BATCH_BYTES_MAX:
        raise RemoteProtocolError(f"a batch of {len(data):,} bytes; {BATCH_BYTES_MAX:,} is the "
                                  f"limit")
    try:
        batch = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(_complaint(data, error)) from error
    if batch.version != VERSION:
        raise RemoteProtocolError(_versions(batch.version))
    return batch


def _complaint(data: bytes | memoryview, error: Exception) -> str:
    try:
        version = _head.decode(data).version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        version = VERSION
    return _versions(version) if version != VERSION else f"not a batch: {error}"


def _versions(theirs: int) -> str:
    return f"the peer speaks version {theirs} of the protocol, and we speak version {VERSION}"
