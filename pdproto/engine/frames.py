"""The messages between the two ends of a built-in engine: frames of 72 bytes.

    magic        4 bytes, "pde" and the version, a digit
    kind         1 byte
    oldest       1 byte, of a CHALLENGE, then 2 unused ones
    write        8 bytes: the number of the write in this connection; the source counts from 1
    offset       8 bytes
    length       8 bytes; of a REFUSED, the reason (Why)
    region       8 bytes
    token        32 bytes: 8 of the lease's number, 24 that only the sink can make

Integers are little-endian and unsigned. Over TCP the bytes of a SEGMENT follow its frame. A
malformed frame raises RemoteProtocolError.

The sink begins each connection with a CHALLENGE.

Rule 1: a CHALLENGE has the same form in all versions. Its magic names the newest version that the
        sink reads, and `oldest` the oldest one.
Rule 2: the source writes the newest version that both ends read, and the sink answers in it. If
        there is none, the source leaves, and says which versions each end reads.
Rule 3: a release reads and writes the version of the release before it (runtime/versions.py). So
        servers are upgraded one after the other.

Over TCP no token is sent. A CHALLENGE has 32 random bytes in the place of the token, new for each
connection. A WRITE has a proof in that place: 8 bytes of the lease's number, and a digest that only
a holder of the token can make, over the challenge and all of the frame. So a process that reads the
connection learns no token, and cannot use the bytes that it has read.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import blake2b
from hmac import compare_digest
from secrets import token_bytes
from struct import Struct
from typing import Final

from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.versions import refusal

VERSION: Final = 1
OLDEST: Final = 1
NAME: Final = b"pde"
LAYOUT: Final = Struct("<4sBB2xQQQQ32s")
FRAME_BYTES: Final = LAYOUT.size
TOKEN_BYTES: Final = 32
NUMBER_BYTES: Final = 8  # of a token
DIGEST_BYTES: Final = TOKEN_BYTES - NUMBER_BYTES


class Kind(IntEnum):
    """The kinds of frames: the sender of each, and its meaning."""

    WRITE = 1  # source: a write of so many bytes, at an offset of the token's lease, begins
    SEGMENT = 2  # source, TCP: so many bytes of the write follow
    COPIED = 3  # source, with a library: all bytes of the write are in place
    DROPPED = 4  # source, shared memory: it has unmapped the region
    GRANTED = 5  # sink: write them into the region; its file or description may come along
    LANDED = 6  # sink: the write has ended well
    REFUSED = 7  # sink: the write has ended; its later bytes are thrown away
    REVOKED = 8  # sink, shared memory: unmap the region
    CHALLENGE = 9  # sink: its first frame, which the proofs of a TCP connection are about


class Why(IntEnum):
    """Why a sink has refused a write."""

    FENCED = 0
    OVER = 1
    UNKNOWN = 2
    NO_FILE = 3
    TOO_MANY = 4


TEXTS: Final = {
    Why.FENCED: "the sink has fenced this hand-over",
    Why.OVER: "the hand-over has ended at the sink, and its memory is given back",
    Why.UNKNOWN: "no memory of this sink has this address: it is made up, or of another process",
    Why.NO_FILE: "the sink cannot hand out this memory, because its system gives it no file: its "
                 "log has the reason",
    Why.TOO_MANY: "this connection has as much memory of the sink mapped as it may have",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; fields that its kind does not use are zero. oldest: see rule 1. version: that the
    frame is written in.
    """

    kind: Kind
    write: int = 0
    offset: int = 0
    length: int = 0
    region: int = 0
    token: bytes = b""
    oldest: int = 0
    version: int = VERSION

    @property
    def why(self) -> str:
        """Of a REFUSED: the reason, also of a sink that knows more of them."""
        told = next((why for why in Why if why == self.length), None)
        return f"the sink gives a reason that is unknown here, {self.length}" if told is None \
            else TEXTS[told]

    def encode(self) -> bytes:
        """The bytes of the frame."""
        return LAYOUT.pack(
            NAME + b"%d" % self.version, self.kind, self.oldest, self.write, self.offset,
            self.length, self.region, self.token)


def decode(data: bytes | bytearray, expected: frozenset[Kind]) -> Frame:
    """Read a frame. Raises RemoteProtocolError if it is malformed, of no expected kind, or of a
    version that this end does not read.
    """
    if len(data) != FRAME_BYTES:
        raise RemoteProtocolError(f"frame: {len(data)} bytes, want {FRAME_BYTES}")
    magic, kind, oldest, write, offset, length, region, token = LAYOUT.unpack(data)
    written = magic.removeprefix(NAME)
    if written == magic or not written.isdigit():
        raise RemoteProtocolError(f"frame begins with {magic!r}, want {NAME!r} and a digit")
    version = int(written)
    if version != VERSION and kind != Kind.CHALLENGE:
        _require_common(version, version)
    if kind not in expected:
        names = ", ".join(sorted(wanted.name for wanted in expected))
        raise RemoteProtocolError(f"frame of kind {kind}, want one of {names}")
    return Frame(Kind(kind), write, offset, length, region, token, oldest, version)


def challenge(token: bytes = b"") -> Frame:
    """The first frame of a sink, over TCP with 32 random bytes (rule 1)."""
    return Frame(Kind.CHALLENGE, token=token, oldest=OLDEST)


def agreed(first: Frame) -> Frame:
    """The first frame of a sink, with the version that the source writes from then on (rule 2).

    Raises RemoteProtocolError if the two ends have no version in common.
    """
    _require_common(first.version, first.oldest or None)
    return replace(first, version=min(first.version, VERSION))


def _require_common(newest: int, oldest: int | None) -> None:
    why = refusal("the peer's data port", newest, oldest, "this one", (VERSION, OLDEST))
    if why is not None:
        raise RemoteProtocolError(f"{why}: want releases of pdproto that follow one another")


class Mint:
    """Makes the tokens of one sink, and recognizes them without storing any.

    So it knows the number of a lease that is over, and that a token was never granted. The sink
    refuses both writes, and keeps no list of leases that are over.
    """

    def __init__(self) -> None:
        self._secret: Final = token_bytes(32)

    def token(self, number: int) -> bytes:
        """The token of the lease with this number."""
        name = number.to_bytes(NUMBER_BYTES, "little")
        return name + self._proof(name)

    def number(self, token: bytes) -> int:
        """The number of the token's lease. Raises RemoteProtocolError if another made the token."""
        return self._checked(token, self.token(_number(token)))

    def proven(self, frame: Frame, challenge: bytes) -> int:
        """The number of the lease whose token the sender of the frame has. Raises
        RemoteProtocolError if the frame does not prove that it has one.
        """
        return self._checked(frame.token, proof(frame, self.token(_number(frame.token)), challenge))

    @staticmethod
    def _checked(shown: bytes, right: bytes) -> int:
        if not compare_digest(shown, right):
            raise RemoteProtocolError("token: this sink has not granted it")
        return _number(shown)

    def _proof(self, name: bytes) -> bytes:
        return blake2b(name, key=self._secret, digest_size=DIGEST_BYTES).digest()


def proof(frame: Frame, token: bytes, challenge: bytes) -> bytes:
    """The proof that the sender of this frame has the token. It is good for this frame of this
    connection only.
    """
    said = challenge + replace(frame, token=b"").encode()
    return token[:NUMBER_BYTES] + blake2b(said, key=token, digest_size=DIGEST_BYTES).digest()


def _number(token: bytes) -> int:
    return int.from_bytes(token[:NUMBER_BYTES], "little")
