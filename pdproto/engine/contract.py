"""The contract of engines: the rules that each engine keeps, however it moves bytes.

The sink owns staging memory and leases it, a piece for each (life, source). The address of a lease
travels to that source, which writes there with an engine of the same kind. An engine that can fence
memory in place also leases memory of others: a *target*, such as pages of a KV cache.

Rule 1: a write ends in exactly one outcome. LANDED: all its bytes are in the sink's memory.
        REFUSED: not all of them are, and no more will come. ERROR: its bytes may or may not land.
        A source that sends the caller's memory without a copy (it gathers) reads none of it
        after the outcome (source.py).
Rule 2: after a fence is done, no byte of that source reaches the memory of that lease or any memory
        leased later, even if the writer was stopped for long and then goes on.
Rule 3: only `release` ends a lease. No clock ends it, and neither does the death of a source.
Rule 4: every call returns at once. The caller asks for its result later, after a wake.
Rule 5: a peer that sends malformed bytes is dropped. Other peers do not notice.

tests/engine/test_contract.py checks each engine of its table `ENGINES` against these rules.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Meta, Struct
from numpy.typing import NDArray

from pdproto.runtime.errors import RemoteProtocolError

ADDRESS_MAX: Final = 512  # bytes of an encoded address
ENGINE_MAX: Final = 32  # characters of an engine's name

# Contiguous memory of any element type; its bytes are sent.
Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]

# Pins memory, so that a device copies from it by itself. Returns the call that ends that. Raises
# OSError if the device refuses.
Pin: TypeAlias = Callable[[NDArray[Any]], Callable[[], None]]

POLL_S: Final = 0.000_05  # between two questions to a device
CLOSE_S: Final = 5.0  # the wait for copies that a device still makes when their engine is closed

U63 = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Extent(NamedTuple):
    """Memory that a library reads. gpu: whose it is, by its number for CUDA; None for the host's.
    """

    address: int
    length: int
    gpu: int | None = None


class DeviceBytes(Protocol):
    """Bytes of a write that lie on a device. The device copies them to where the engine says, or
    the engine's library reads them.

    nbytes: their number. extents: where they are, back to back, for as long as this object lives.
    pin: pins host memory that they are copied to.
    """

    @property
    def nbytes(self) -> int: ...

    @property
    def extents(self) -> Sequence[Extent]: ...

    @property
    def pin(self) -> Pin: ...

    def copy_to(self, place: Any) -> Callable[[], bool]:
        """Begin to copy them to `nbytes` bytes of a region: an array of host memory, uint8 [byte],
        or memory that `SharesMemory.map` returned. Returns the question whether nothing reads or
        writes these bytes any more; that raises RuntimeError if they are not all in place then.
        """


class EngineError(Exception):
    """The engine refuses a call; the message says what to do instead."""


class EngineBusy(EngineError):  # noqa: N818 - it is no failure: the caller waits
    """There is no room now: try again later.

    `post`: too many bytes or writes are in flight, until `has_room` is true. `lease`: the system
    refuses memory, or the files for it.
    """


class Scope(Enum):
    """The effect of a fence: which sources it keeps out of which memory.

    A narrower scope disturbs fewer hand-overs.
    """

    PAGE = "page"  # one source, out of the memory of one lease
    PEER = "peer"  # one source, out of all memory of the sink
    POOL = "pool"  # all sources, out of all memory of the sink
    NONE = "none"  # no fence: the lease must be held until the writer has provably ended


class Result(Enum):
    """How a write ended; see rule 1."""

    LANDED = auto()
    REFUSED = auto()
    ERROR = auto()


class Address(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a source may write: `length` bytes at `offset` of a region of the engine at `endpoint`.

    token: proves that the sink has granted the lease, and identifies it.
    """

    engine: Annotated[str, Meta(min_length=1, max_length=ENGINE_MAX)]
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
        """Read an address that a peer sent. Raises RemoteProtocolError if it is malformed."""
        if len(data) > ADDRESS_MAX:
            raise RemoteProtocolError(f"address: {len(data)} bytes, at most {ADDRESS_MAX}")
        try:
            return _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(f"address: {error}") from None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Address)


class Target(Protocol):
    """Memory of the caller that a lease uses instead of staging memory."""

    def places(self, offset: int, length: int) -> Iterable[memoryview]:
        """The memory for the bytes of this write, back to back: writable, `length` bytes in all.

        The engine's thread calls it as each write begins, and iterates as bytes come. The write is
        within the lease. Raises RemoteProtocolError, at once, if no correct source writes there.
        """


@dataclass(frozen=True, slots=True)
class Lease:
    """Memory that one source may write to in one life. length: in bytes."""

    number: int
    life: Hashable
    source: str
    length: int
    address: Address


@dataclass(frozen=True, slots=True)
class Ticket:
    """A fence on the lease of this number. `SinkEngine.fenced` says when it is done."""

    lease: int


@runtime_checkable
class PinsMemory(Protocol):
    """A sink engine whose staging memory a device can pin."""

    def pin(self, lease: Lease, pin: Pin) -> None:
        """Pin the memory of a lease, which stays pinned for later leases. For one thread at a time.

        Raises EngineError if the device refuses.
        """


class Exported(Protocol):
    """Memory of a device that other processes may map. memory: its bytes, [byte]. extent: for a
    library. description: for `SharesMemory.map` in another process of this host.
    """

    @property
    def memory(self) -> Any: ...

    @property
    def extent(self) -> Extent: ...

    @property
    def description(self) -> bytes: ...

    def free(self) -> None:
        """Give it back to the device, when the last view of this process is gone. No other process
        may have it mapped any more.
        """


class SharesMemory(Protocol):
    """A device whose memory the processes of this host share."""

    def export(self, length: int) -> Exported:
        """Memory of `length` bytes that another process may map. Raises RuntimeError without
        memory.
        """

    def map(self, description: bytes) -> Any:
        """The memory that another process exported, [byte]. It is unmapped when the last view of
        it is gone. Raises OSError if this device cannot reach it, ValueError for
        bytes that describe no memory.
        """


@runtime_checkable
class OnDevice(Protocol):
    """An engine whose staging memory is on a device."""

    def use(self, device: SharesMemory | None) -> None:
        """The device of the pools on this side. Call it before the first lease or write.

        Raises EngineError for None: the pools are in host memory.
        """


@dataclass(frozen=True, slots=True)
class EndedWrite:
    """The end of a write. write: the number that `post` returned. reason: empty if it landed."""

    write: int
    result: Result
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Departed:
    """The connection of a source has ended.

    Its writes may be incomplete; its leases go on (rule 3).
    """

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class SinkCounts:
    """The memory of a sink engine now, and its writes so far."""

    leases: int = 0
    leased_bytes: int = 0
    target_bytes: int = 0  # of memory that is not the engine's own, leased
    pooled_bytes: int = 0  # free, kept for the next lease
    abandoned_bytes: int = 0  # given up: a fenced writer may still reach it
    fences: int = 0
    fences_pending: int = 0
    landed_writes: int = 0
    landed_bytes: int = 0
    refused_writes: int = 0
    connections: int = 0
    dropped_peers: int = 0  # for malformed bytes


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """The writes of a source engine: those in flight now, and the ended ones by their result."""

    writes: int = 0
    bytes: int = 0
    landed_writes: int = 0
    landed_bytes: int = 0
    refused_writes: int = 0
    failed_writes: int = 0
    connections: int = 0


class SinkEngine(Protocol):
    """Decode's side. Any thread may call it. It calls `wake` from any thread."""

    @property
    def scope(self) -> Scope:
        """The scope of a fence on staging memory."""

    @property
    def target_scope(self) -> Scope:
        """The scope of a fence on a target; NONE if a running write could still reach it."""

    def out_of_reach(self, host: str) -> str | None:
        """Why a source at this address cannot write here; None if no reason is known."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Call `wake` when a fence is done, when memory is free again, and when a source departs.
        """

    def lease(
        self, life: Hashable, source: str, length: int, target: Target | None = None
    ) -> Lease | None:
        """Lease memory of `length` bytes. Returns None while there is not enough.

        target: lease this memory instead. Raises ValueError if there is never so much memory,
        EngineBusy while the system refuses it, and EngineError for a target unless `target_scope`
        is PAGE.
        """

    def view(self, lease: Lease) -> Any:
        """The memory of the lease, uint8 [byte], read-only: a memoryview; or, of an engine that is
        `OnDevice`, what the device calls its memory.

        Raises EngineError if the lease is fenced or released, and for a target: its owner has it.
        """

    def fence(self, lease: Lease) -> Ticket:
        """Begin to keep the source out of the lease's memory.

        A second call returns the same ticket.
        """

    def fenced(self, ticket: Ticket) -> bool:
        """Whether the fence is done."""

    def release(self, lease: Lease) -> None:
        """End the lease: its memory may be leased again. Drop every view of it before."""

    def departed(self) -> list[Departed]:
        """The sources whose connections have ended since the last call."""

    def counts(self) -> SinkCounts:
        """The numbers of this engine, as of now."""

    def close(self) -> None:
        """End every connection and give back all memory. A second call does nothing."""


class SourceEngine(Protocol):
    """Prefill's side. Any thread may call it. It calls `wake` from any thread."""

    def attach(self, wake: Callable[[], None]) -> None:
        """Call `wake` when there are outcomes."""

    def connect(self, address: Address) -> None:
        """Begin to connect, so that the first write need not wait for it."""

    @property
    def has_room(self) -> bool:
        """Whether a write of any size may be posted now (back-pressure)."""

    def post(
        self, address: Address, offset: int, views: Sequence[Buffer],
        carried: DeviceBytes | None = None,
    ) -> int:
        """Begin to write the views, back to back, `offset` bytes into the lease; or bytes that a
        device carries, if the engine takes such (`Source.carries`).

        Returns the write's number. The bytes must not change until its outcome has been read.
        Raises EngineBusy without room, ValueError for a write beyond the end of the lease.
        """

    def completed(self) -> list[EndedWrite]:
        """The writes that have ended since the last call, in the order in which they ended."""

    def counts(self) -> SourceCounts:
        """The numbers of this engine, as of now."""

    def close(self) -> None:
        """End every connection. Writes in flight get no outcome. A second call does nothing."""
