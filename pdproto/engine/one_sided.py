"""What engines have in common whose libraries write into another process' memory by its address.

Such a library (Mooncake, NIXL) asks nobody when it writes, and neither has a fence: what was begun
lands, deregistered or not, whenever the writer gets to it. So these engines ask first, over a
connection of their own, and give memory up that a writer may still be at:

Rule 1: a source writes where the sink has granted it, a write at a time, and says when the library
        has ended it. Who says nothing is taken to be writing.
Rule 2: an address is landing memory once. A piece that is given up is never leased again, nor is
        its address range ever used for anything else: what lands there late is nobody's. Its pages
        go back to the system; it counts as abandoned until no writer may be at it.
Rule 3: that a library reports success is no proof of anything but that it has ended. The digest of
        what has landed is.

Rule 2 is the fence, of one source out of the memory of one lease. It needs no help of the library,
of the writer or of a clock, and it is one for landing memory only: pages cannot be given up.
Whoever can reach a library's port can write to all landing memory: that is the library's.
"""

import mmap
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct

from pdproto.engine.contract import Buffer, EngineError
from pdproto.engine.memory import Backing
from pdproto.runtime.errors import RemoteProtocolError

DESCRIPTION_MAX: Final = 1 << 16  # bytes of an encoded description

Handle: TypeAlias = Any  # what a library names a transfer by

# Given up, and kept from being anything else while the process lives. Address space only.
_reserved: Final[dict[int, mmap.mmap]] = {}


class Description(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a source needs to know of a sink's library to write to one piece of its memory.

    peer: the library's name for the sink. data: what else the library of the source is told.
    """

    version: Annotated[str, Meta(max_length=64)]
    peer: Annotated[str, Meta(min_length=1, max_length=256)]
    data: bytes = b""

    def encode(self) -> bytes:
        return _encoder.encode(self)

    @classmethod
    def decode(cls, data: bytes | bytearray) -> "Description":
        """Read what a sink sent; RemoteProtocolError for anything else."""
        try:
            return _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise RemoteProtocolError(f"description: {error}") from None


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Description)


class Transport(Protocol):
    """A library, started. Any thread may call; `meet` and `begin` may wait for a peer."""

    @property
    def engine(self) -> str: ...

    @property
    def version(self) -> str: ...

    def register(self, address: int, length: int) -> None:
        """Let peers write to this memory, or let it be written from. EngineError if not."""

    def unregister(self, address: int) -> None:
        """Take that back. It is no fence."""

    def describe(self, address: int, length: int) -> Description:
        """What a peer has to know to write to this registered memory."""

    def expect(self, writes: int) -> None:
        """So many more writes of peers may be under way; fewer, if negative."""

    def meet(self, description: Description) -> None:
        """Get to know a peer and its memory. RemoteProtocolError for what is no description."""

    def begin(self, peer: str, source: int, target: int, length: int) -> Handle:
        """Begin to write. EngineError if the library refuses to."""

    def ended(self, handle: Handle) -> bool | None:
        """Whether the library says that it went well, and None while it is under way.

        With the answer it forgets the handle.
        """

    def close(self) -> None: ...


class Piece(Backing):
    """A piece of landing memory that a library writes to. holders: who may be writing."""

    __slots__ = ("_registered", "_transport", "address")

    def __init__(self, transport: Transport, region: int, length: int) -> None:
        super().__init__(region, length, shared=False)
        self._transport: Final = transport
        self.address: Final = address_of(memoryview(self.memory))
        transport.register(self.address, length)
        self._registered = True

    def close(self) -> None:
        """Give it up (rule 2). Called again when nobody can be writing to it any more."""
        if self._registered and not self.holders:
            self._registered = False
            self._transport.unregister(self.address)
        self.memory.madvise(mmap.MADV_REMOVE)
        _reserved[self.address] = self.memory

    def describe(self) -> bytes:
        return self._transport.describe(self.address, self.bytes).encode()


def pieces_of(transport: Transport) -> Callable[[int, int], Backing]:
    """How a pool makes pieces that this library writes to."""
    return partial(Piece, transport)


def address_of(view: Buffer) -> int:
    """Where the bytes of a view are in this process."""
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def load(
    modules: Mapping[str, str], *, engine: str, command: str, at_least: tuple[int, ...]
) -> tuple[Any, str]:
    """The module and the version of the first of these packages that is installed.

    Raises EngineError, with the command that mends it, if there is none, or one that is too old.
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
    """The numbers that a version begins with, three at most: (0, 3, 13) of 0.3.13.post1."""
    found = re.match(r"\d+(\.\d+){0,2}", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def check_versions(engine: str, *, ours: str, theirs: str) -> None:
    """RemoteProtocolError, which names both, unless both ends speak alike."""
    if release(ours) != release(theirs):
        raise RemoteProtocolError(f"the sink has {engine} {theirs[:64]}, and this source {ours}:"
                                  " install the same release on both")
