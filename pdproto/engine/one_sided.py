"""The common part of engines whose library writes into the memory of another process by address.

Such a library (Mooncake, NIXL) does not ask the sink before it writes, and has no fence: a write
that has begun lands at some time, even if the memory was deregistered. So these engines ask first,
over a connection of their own, and give up memory that a writer may still reach:

Rule 1: a source writes only after the sink has granted that one write, and reports when the library
        has ended it. A source that reports nothing counts as writing.
Rule 2: a piece of memory that was given up is never leased again, and its address range is never
        used again. So late bytes there do no harm. Its pages go back to the system. It counts as
        abandoned until no writer can reach it. A device keeps no address range without memory. So
        there a piece is given back when its writers have reported, and one whose writer is gone
        without a report is kept, and counts as abandoned, for as long as the process lives.
Rule 3: a success that the library reports only proves that the write has ended. The digest proves
        that the bytes are right.

Rule 2 is the fence: it keeps one source out of the memory of one lease, without help of the
library, the writer or a clock. It works for staging memory only: pages cannot be given up. Any host
that can reach a port of the library can write to all staging memory: the library does not prevent
it.
"""

import mmap
import re
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct

from pdproto.engine.contract import Buffer, EngineError, Extent, SharesMemory
from pdproto.engine.device_pieces import DevicePiece
from pdproto.engine.memory import HostPiece
from pdproto.runtime.errors import RemoteProtocolError

Handle: TypeAlias = Any  # the library's name for a transfer

# Address ranges that were given up: they stay reserved until the process ends, without memory.
_reserved: Final[dict[int, mmap.mmap]] = {}
# Memory of devices that was given up, and that a writer may still reach.
KEPT: Final[set["PieceOnDevice"]] = set()


class Description(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The data with which a source's library can write to one piece of a sink's memory.

    peer: the library's name for the sink. data: for the library of the source.
    """

    version: Annotated[str, Meta(max_length=64)]
    peer: Annotated[str, Meta(min_length=1, max_length=256)]
    data: bytes = b""

    def encode(self) -> bytes:
        """The bytes that are sent to the source."""
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes | bytearray) -> "Description":
        """Read a description that a sink sent. Raises RemoteProtocolError if it is malformed."""
        try:
            return _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(f"description: {error}") from None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Description)


class Transport(Protocol):
    """A running library. Any thread may call it; `meet` and `begin` may wait for a peer."""

    @property
    def engine(self) -> str:
        """The name of the engine."""

    @property
    def version(self) -> str:
        """The version of the library."""

    def register(self, memory: Extent) -> None:
        """Register memory, for writes of peers or as the source of writes. Raises EngineError."""

    def unregister(self, address: int) -> None:
        """Deregister memory. This is no fence."""

    def describe(self, memory: Extent) -> Description:
        """The description with which a peer can write to this registered memory."""

    def expect(self, writes: int) -> None:
        """Count so many more writes of peers that may be under way; fewer if negative."""

    def meet(self, description: Description) -> None:
        """Connect to a peer's memory.

        Raises RemoteProtocolError if the description is malformed.
        """

    def begin(self, peer: str, source: Extent, target: int) -> Handle:
        """Begin to write this registered memory. Raises EngineError if the library refuses."""

    def ended(self, handle: Handle) -> bool | None:
        """Whether the write succeeded, as the library says; None while it is under way.

        After an answer the handle is no longer valid.
        """

    def close(self) -> None:
        """End the library's instance. No other call follows."""


PARTS: Final = tuple(name for name in vars(Transport) if not name.startswith("_"))


def complete(transport: Transport) -> Transport:
    """The transport. Raises EngineError for one that lacks a part, which a thread would call later.
    """
    lacking = [name for name in PARTS if not hasattr(transport, name)]
    if lacking:
        raise EngineError(f"{type(transport).__name__} lacks {', '.join(lacking)}: want every part "
                          f"of a Transport, which are {', '.join(PARTS)}")
    return transport


class Piece(HostPiece):
    """A piece of staging memory that a library writes to. holders: the possible writers."""

    __slots__ = ("_registered", "_transport", "address")

    def __init__(self, transport: Transport, region: int, length: int) -> None:
        super().__init__(region, length, shared=False)
        self._transport: Final = transport
        self.address: Final = address_of(memoryview(self.memory))
        transport.register(Extent(self.address, length))
        self._registered = True

    def close(self) -> None:
        """Give the piece up (rule 2). The call is repeated when no writer can reach it any more."""
        self.whole = None
        if self._registered and not self.holders:
            self._registered = False
            self._transport.unregister(self.address)
        self.memory.madvise(mmap.MADV_REMOVE)
        _reserved[self.address] = self.memory

    def describe(self) -> bytes:
        """See Backing."""
        return self._transport.describe(Extent(self.address, self.bytes)).encode()


class PieceOnDevice(DevicePiece):
    """A piece of staging memory of a device that a library writes to. Raises EngineError if the
    library does not register it.
    """

    __slots__ = ("_registered", "_transport")

    stays_held = True

    def __init__(
        self, transport: Transport, device: SharesMemory, region: int, length: int
    ) -> None:
        super().__init__(region, length, device)
        self._transport: Final = transport
        self._registered = False
        try:
            transport.register(self.extent)
        except EngineError:
            self.close()
            raise
        self._registered = True

    @property
    def address(self) -> int:
        """See Backing."""
        return self.extent.address

    def close(self) -> None:
        """Give the piece up (rule 2)."""
        if self.holders:
            KEPT.add(self)
        super().close()

    def unheld(self) -> None:
        """See Backing."""
        if self._is_closed and self._registered:
            self._registered = False
            self._transport.unregister(self.address)
            KEPT.discard(self)
        super().unheld()

    def describe(self) -> bytes:
        """See Backing."""
        return self._transport.describe(self.extent).encode()


def address_of(view: Buffer) -> int:
    """The address of the bytes of a view in this process."""
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def load(
    modules: Mapping[str, str], *, engine: str, command: str, at_least: tuple[int, ...]
) -> tuple[Any, str]:
    """The module and the version of the first of these packages that is installed.

    Raises EngineError, with the command to install it, if there is none or it is too old.
    """
    for package, module in modules.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            continue
        if release(found) < at_least:
            wanted = ".".join(map(str, at_least))
            raise EngineError(f"engine {engine!r}: {package} {found} is installed, and {wanted} or"
                              f" later is needed: {command}")
        try:
            return import_module(module), found
        except ImportError as error:
            raise EngineError(f"engine {engine!r}: {package} {found} does not load: {error}"
                              " (Debian: apt-get install libibverbs1)") from error
    raise EngineError(f"engine {engine!r} is not installed: {command}")


def release(text: str) -> tuple[int, ...]:
    """The first numbers of a version, at most three: (0, 3, 13) of 0.3.13.post1."""
    found = re.match(r"\d+(\.\d+){0,2}", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def check_versions(engine: str, *, ours: str, theirs: str) -> None:
    """Raise RemoteProtocolError, with both versions, unless both ends have the same release."""
    if release(ours) != release(theirs):
        raise RemoteProtocolError(f"the sink has {engine} {theirs[:64]}, and this source {ours}:"
                                  " install the same release on both")
