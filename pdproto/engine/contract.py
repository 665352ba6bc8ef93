"""What any engine of the data plane promises, whatever moves its bytes.

The sink owns landing memory and leases it, a piece for each (life, source). The address of a lease
travels to that source, which writes there with an engine of the same kind. An engine that can fence
memory in place leases what is not its own as well: a *target*, such as pages of a KV cache.

Rule 1: a write ends in exactly one outcome. LANDED: all its bytes are in the sink's memory.
        REFUSED: not all of them are, and no more will come. ERROR: nobody knows, they may still.
        A source that gathers reads no byte of the caller's after any of these (source.py).
Rule 2: once a fence is done nothing of that source reaches the memory of that lease, nor any
        memory leased later, however long the writer was stopped and whatever it does then.
Rule 3: only `release` ends a lease. No clock does, and neither does the death of a source.
Rule 4: every call returns at once; what became of it is asked for, after a wake.
Rule 5: whatever bytes a peer sends, it is served or dropped. The others do not notice.

tests/engine/test_contract.py holds an engine to these; another one is a line of its `ENGINES`.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec
from msgspec import Meta, Struct
from numpy.typing import NDArray

from pdproto.runtime.errors import RemoteProtocolError

ADDRESS_MAX: Final = 512  # bytes of an encoded address

# Contiguous memory of whatever elements, which is taken as its bytes.
Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]

U63 = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class EngineError(Exception):
    """The engine cannot do what it was asked for; the message says what to do instead."""


class EngineBusy(EngineError):  # noqa: N818 - it is no failure: the caller waits
    """Too much is in flight. Wait for outcomes: `has_room` says when to try again."""


class Scope(Enum):
    """What a fence keeps out at least: the finer, the less is lost with it."""

    PAGE = "page"  # one source, out of the memory of one lease
    PEER = "peer"  # one source, out of all memory of the sink
    POOL = "pool"  # everybody, out of all memory of the sink
    NONE = "none"  # nobody: the lease must be held until the writer is proven gone


class Result(Enum):
    """How a write ended; see rule 1."""

    LANDED = auto()
    REFUSED = auto()
    ERROR = auto()


class Address(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a source may write: `length` bytes at `offset` of a region of the engine at `endpoint`.

    token: proves that the sink has granted it, and says which lease it is.
    """

    engine: Annotated[str, Meta(min_length=1, max_length=32)]
    endpoint: Annotated[str, Meta(min_length=1, max_length=128)]
    region: U63
    offset: U63
    length: U63
    token: Annotated[bytes, Meta(max_length=128)]

    def encode(self) -> bytes:
        """The bytes that travel in `publish`."""
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Address":
        """Read an address that a peer sent; RemoteProtocolError for anything else."""
        if len(data) > ADDRESS_MAX:
            raise RemoteProtocolError(f"address: {len(data)} bytes, at most {ADDRESS_MAX}")
        try:
            return _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(f"address: {error}") from None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Address)


class Target(Protocol):
    """Memory of the caller's own, in place of landing memory: where the writes of one lease go."""

    def places(self, offset: int, length: int) -> Iterable[memoryview]:
        """Where the bytes of this write go, back to back: writable, `length` bytes in all.

        Asked on the engine's thread as each write begins, within the lease, and looked through as
        its bytes come. RemoteProtocolError, at once, if no honest write has these bounds.
        """


@dataclass(frozen=True, slots=True)
class Lease:
    """Memory for what one source writes in one life. length: in bytes."""

    number: int
    life: Hashable
    source: str
    length: int
    address: Address


@dataclass(frozen=True, slots=True)
class Ticket:
    """A fence that has been asked for, of the lease of this number."""

    lease: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the write that `post` gave this number has ended. reason: empty if it landed."""

    write: int
    result: Result
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Departed:
    """The connection of a source has ended. What it began may be incomplete; see rule 3."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class SinkCounts:
    """What a sink engine holds now, and what it has done so far."""

    leases: int = 0
    leased_bytes: int = 0
    target_bytes: int = 0  # of memory that is not the engine's own, leased
    pooled_bytes: int = 0  # free, kept for the next lease
    abandoned_bytes: int = 0  # nobody's, and still in the reach of a fenced writer
    fences: int = 0
    fences_pending: int = 0
    landed_writes: int = 0
    landed_bytes: int = 0
    refused_writes: int = 0
    connections: int = 0
    dropped_peers: int = 0  # for what they sent


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What a source engine has in flight now, and what became of the rest."""

    writes: int = 0
    bytes: int = 0
    landed_writes: int = 0
    landed_bytes: int = 0
    refused_writes: int = 0
    failed_writes: int = 0
    connections: int = 0


class SinkEngine(Protocol):
    """Decode's side. Any thread may call; `wake` is called from any thread."""

    @property
    def scope(self) -> Scope:
        """Of a fence on landing memory, which can be given up for another piece."""

    @property
    def target_scope(self) -> Scope:
        """Of a fence on a target, which cannot: NONE where a write runs on in what was given up."""

    def out_of_reach(self, host: str) -> str | None:
        """Why a source at this address cannot write here; None if it can, as far as one knows."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when a fence is done, memory is free again or a source departs."""

    def lease(
        self, life: Hashable, source: str, length: int, target: Target | None = None
    ) -> Lease | None:
        """Memory for `length` bytes; None while there is none. ValueError if there never will.

        target: lease this memory instead. EngineError unless `target_scope` is PAGE.
        """

    def view(self, lease: Lease) -> memoryview:
        """What has landed, uint8 [byte], read-only. EngineError once fenced or released, and for a
        target, which its owner can look at.
        """

    def fence(self, lease: Lease) -> Ticket:
        """Begin to keep the source out of the lease's memory. Again: the same ticket."""

    def fenced(self, ticket: Ticket) -> bool:
        """Whether that fence is done."""

    def release(self, lease: Lease) -> None:
        """End the lease: its memory may be leased again. Drop every view of it before."""

    def departed(self) -> list[Departed]:
        """The sources whose connections have ended since the last call."""

    def counts(self) -> SinkCounts: ...

    def close(self) -> None:
        """End every connection and give back all memory. Again: nothing."""


class SourceEngine(Protocol):
    """Prefill's side. Any thread may call; `wake` is called from any thread."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when there are outcomes."""

    def connect(self, address: Address) -> None:
        """Begin to connect, so that the first write need not wait for it."""

    @property
    def has_room(self) -> bool:
        """Whether a write of any size may be posted now (back-pressure)."""

    def post(self, address: Address, offset: int, views: Sequence[Buffer]) -> int:
        """Begin to write the views, back to back, `offset` bytes into the lease.

        Returns the write's number. The bytes must not change until its outcome has been read.
        Raises EngineBusy without room, ValueError for what does not fit into the lease.
        """

    def completed(self) -> list[Outcome]:
        """The writes that have ended since the last call, in the order in which they did."""

    def counts(self) -> SourceCounts: ...

    def close(self) -> None:
        """End every connection; what is in flight has no outcome. Again: nothing."""
