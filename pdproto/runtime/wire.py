"""The messages between two nodes: tagged, versioned structs, which batch.py writes as msgpack.

Rule 1: every size that a peer controls has a limit, and the limit is in its type.
Rule 2: a frame is a message of the tables (`Frame.message`) with the data that the tables leave
        out: an address, the reason of a failure. The two ranks that a message names are the two
        ends of the connection. The batch names the sender and its incarnation.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_args

from msgspec import Meta, Struct

from pdproto.runtime.limits import (
    CHUNKS_MAX,
    COMPONENTS_MAX,
    EARLIER_LIVES_MAX,
    LAYOUT_TOLD_MAX,
    LEASE_ADDRESS_MAX,
    METADATA_MAX,
    NAME_MAX,
    PAGES_MAX,
    PAYLOAD_MAX,
    PROMPT_BYTES_MAX,
    REASON_MAX,
    ROOM_MAX,
    SINKS_MAX,
)
from pdproto.runtime.versions import (
    Versioned,
)
from pdproto.spec.handoff import ends, group, group_attempts, routing
from pdproto.spec.language.symbols import Message

DIGEST_BYTES: Final = 8

U63 = Annotated[int, Meta(ge=0, le=ROOM_MAX)]
Owner: TypeAlias = tuple[str, int]  # of lives: a member (transport/keys.py) and its incarnation
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_MAX)]
Earlier = Annotated[tuple[U63, ...], Meta(max_length=EARLIER_LIVES_MAX)]
Sinks = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=SINKS_MAX)]
Pages = Annotated[int, Meta(ge=0, le=PAGES_MAX)]
Prompt = Annotated[bytes, Meta(min_length=1, max_length=PROMPT_BYTES_MAX)]
Buffers = Annotated[int, Meta(ge=0, lt=1 << 31)]


class Life(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False,
           cache_hash=True):
    """The identity of a hand-over: a life of a room at one incarnation of the sink's group.

    generation: counts the lives of that incarnation, over all rooms; the same at all its sinks.
    use, prompt: the caller's number of the request in its room, and its name for all that the KV
    depends on; None if it gives none. member: that the group belongs to, whose name its keys prove;
    None where nodes have no keys of their own. So no two members have a life in common, whatever
    numbers they say.
    """

    room: U63
    incarnation: U63
    generation: U63
    use: U63 | None = None
    prompt: Prompt | None = None
    member: Name | None = None

    @property
    def owner(self) -> Owner:
        """Who has begun the life."""
        return self.member or "", self.incarnation

    @property
    def server(self) -> str | int:
        """Who counts as one decode server: a member, which may say any number of incarnations."""
        return self.member or self.incarnation

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
    once: no other life of decode has the request of this one (spec/handoff/ended.py).
    """

    message = ends.introduce
    sinks: Sinks
    endpoint: Name
    layout: PageLayout | None = None
    earlier: Earlier = ()
    once: bool = False


class Publish(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="publish"):
    """A sink tells a source where it may write.

    address: of the memory leased to this life for this source, in the engine's own encoding. pages:
    how many pages the source is to write. layout, earlier, once: as in `Introduce`, which may be
    lost.
    """

    message = ends.publish
    address: Annotated[bytes, Meta(max_length=LEASE_ADDRESS_MAX)]
    pages: Pages
    sinks: Sinks
    endpoint: Name
    layout: PageLayout | None = None
    earlier: Earlier = ()
    once: bool = False


class Abort(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="abort"):
    """A sink aborts a life. endpoint: the ZeroMQ endpoint of the sink. transient: Handle.transient.
    """

    message = ends.abort
    reason: Reason
    endpoint: Name
    transient: bool = False


class Expecting(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="expecting"):
    """A source that has the request answers a repeated introduction."""

    message = ends.expecting


class Done(Frame, frozen=True, array_like=True, forbid_unknown_fields=True, tag="done"):
    """A source has written all its chunks.

    chunks: the number of pages in each chunk, in order. metadata: the request's metadata row.
    digest: of the row and the life, see `row_digest`. use: of the room (prefill/binding.py).
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
    """A source tells a sink that the hand-over has failed, and why. transient: Handle.transient."""

    message = ends.failed
    reason: Reason
    transient: bool = False


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
    """The room does not run on this data-parallel rank, and will not. transient: Handle.transient.
    """

    message = routing.refuse
    rank: U63
    reason: Reason
    transient: bool = False


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
