"""A batch: all frames of one node to another in a turn, as bytes.

Rule 1: any bytes decode to a batch or raise RemoteProtocolError. There is no third outcome.
Rule 2: a batch of every version begins with the same four fields, so that a node can refuse one
        that it cannot read, and name the versions of both ends.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import BATCH_BYTES_MAX, FRAMES_MAX
from pdproto.runtime.versions import OLDEST, VERSION, fingerprint, in_version, refusal
from pdproto.runtime.wire import U63, AnyFrame, Name, Reason

FRAMES_SENT: Final = 64  # in a batch, which a loop reads in one step: 256 messages took 22 ms

U32 = Annotated[int, Meta(ge=0, lt=1 << 32)]


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
) -> tuple[bytes, int]:
    """The bytes of a batch with as many of these frames as are sent in one, and how many."""
    count = min(len(frames), FRAMES_SENT)
    while True:
        data = encode(node, incarnation, floor, frames[:count], unheard_ms=unheard_ms,
                      version=version, call=call)
        if len(data) <= BATCH_BYTES_MAX or count <= 1:
            return data, count
        count //= 2


def unencodable(
    frames: Sequence[AnyFrame], version: int
) -> list[tuple[AnyFrame, Exception]]:
    """The frames that have no bytes in this version, or that no peer reads, each with the error."""
    found: list[tuple[AnyFrame, Exception]] = []
    for frame in frames:
        try:
            decode(encode("-", 0, 0, (frame,), version=version))
        except Exception as error:
            found.append((frame, error))
    return found


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
