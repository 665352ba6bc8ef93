"""Staging memory: pieces that are mapped once and leased many times. Their total size is bounded.

Mapping memory and touching it for the first time costs more than the copy into it. So a piece is
kept after a lease has ended without a fenced writer. A piece is up to an eighth larger than the
lease, so that few sizes serve all leases. Pages that are never touched take no memory.

A shared piece is a file without a name, so it disappears with the process. Its size is sealed: if a
peer could shorten the file during a copy, the copy would kill this process.
"""

import fcntl
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, Protocol
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.board import NOTHING, SEALS, Spot, barrier
from pdproto.engine.contract import EngineBusy, Pin

PAGE_BYTES: Final = mmap.PAGESIZE


def size_class(length: int) -> int:
    """The size of the piece that serves `length` bytes."""
    step = max(PAGE_BYTES, 1 << max(length.bit_length() - 4, 0))
    return max(-(-length // step) * step, PAGE_BYTES)


class View(Protocol):
    """The memory of a lease: a memoryview, or memory of a device."""

    def __getitem__(self, at: slice, /) -> Any: ...

    def toreadonly(self) -> Any:
        """The memory for a reader."""

    def release(self) -> None:
        """Nobody uses this view any more."""


class Backing:
    """One piece of staging memory. region: its name, never used again. bytes: its size.

    holders: the connections over which it has been handed out, and the words that the connection
    shares about it, if it shares any. stays_held: a connection that ends without a report stays a
    holder. is_left: a connection has ended in the middle of a write.
    """

    __slots__ = ("_word", "bytes", "holders", "is_left", "region")

    stays_held: ClassVar[bool] = False

    def __init__(self, region: int, length: int) -> None:
        self.region: Final = region
        self.bytes: Final = length
        self.holders: Final[dict[object, Spot | None]] = {}
        self.is_left = False
        self._word = NOTHING

    def hand_out(self, holder: object, spot: Spot | None = None) -> None:
        """Note a connection that may write to the memory."""
        self.holders[holder] = spot
        if spot is not None:
            spot.grant(self._word)

    def grant(self, word: int) -> None:
        """Let the source of the lease with this word write, and no other (board.py)."""
        self._word = word
        for spot in self.holders.values():
            if spot is not None:
                spot.grant(word)

    def withdraw(self) -> bool:
        """Let nobody begin to write. Returns whether somebody may go on writing."""
        self.grant(NOTHING)
        barrier()
        return self.is_left or any(spot is not None and spot.has_writer
                                   for spot in self.holders.values())

    def view(self, length: int) -> View:
        """Its first bytes, for a lease."""
        raise NotImplementedError

    def handle(self) -> int:
        """A file descriptor of a shared piece, for another process to map."""
        raise ValueError(f"region {self.region} is not shared, or given up")

    @property
    def address(self) -> int:
        """Where a library writes to it."""
        raise ValueError(f"region {self.region} is written to by no library")

    def describe(self) -> bytes:
        """The encoded description with which a peer's library can write to it."""
        raise ValueError(f"region {self.region} is written to by no library")

    def pin(self, pin: Pin) -> None:
        """Pin the memory, unless it is pinned or given up, until its last view is gone.

        Raises OSError if the device refuses.
        """

    def close(self) -> None:
        """Give the memory up."""

    def unheld(self) -> None:
        """No other process has the memory mapped any more."""


class HostPiece(Backing):
    """A piece in host memory. whole: its bytes, uint8 [byte]; every lease is a view of them. None
    after the piece is given up.
    """

    __slots__ = ("_is_pinned", "file", "memory", "whole")

    def __init__(self, region: int, length: int, *, shared: bool) -> None:
        super().__init__(region, length)
        self.file: int | None = None
        self._is_pinned = False
        if not shared:
            self.memory = mmap.mmap(-1, length)
            self.whole: NDArray[np.uint8] | None = np.frombuffer(self.memory, np.uint8)
            return
        self.file = os.memfd_create(f"pdproto-{region}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.file, length)
            fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, SEALS)
            self.memory = mmap.mmap(self.file, length)
            self.whole = np.frombuffer(self.memory, np.uint8)
        except OSError:
            os.close(self.file)
            raise

    def view(self, length: int) -> memoryview:
        """See Backing."""
        assert self.whole is not None  # noqa: S101 - it is not given up
        return self.whole.data[:length]

    def handle(self) -> int:
        """See Backing."""
        return super().handle() if self.file is None else os.dup(self.file)

    def pin(self, pin: Pin) -> None:
        """See Backing."""
        whole = self.whole
        if whole is not None and not self._is_pinned:
            # A view may be the source of a copy that the device does: unpin after the last one.
            finalize(whole, pin(whole)).atexit = False
            self._is_pinned = True

    def close(self) -> None:
        """Unmap the memory, now or when the last view of it is gone."""
        self.whole = None
        if self.file is not None:
            os.close(self.file)
            self.file = None
        with suppress(BufferError):  # The last view to go unmaps it.
            self.memory.close()


def require_shared() -> None:
    """Raise OSError if this host refuses memory that processes share, and so refuses each lease."""
    try:
        HostPiece(0, PAGE_BYTES, shared=True).close()
    except OSError as error:
        raise OSError(f"this host refuses memory that processes share (memfd_create): {error}; "
                      f"open both sides with another engine (tcp, mooncake, nixl)") from error


class Pool:
    """All staging memory of one sink engine. The caller holds its own lock during every call.

    capacity_bytes: the limit for leased, kept and abandoned memory together. shared: whether pieces
    are files. make: makes a piece of a region and length, if the engine has its own kind; it raises
    OSError if the system refuses memory. granule: sizes of pieces are multiples of so many bytes.
    """

    def __init__(
        self,
        capacity_bytes: int,
        *,
        shared: bool,
        make: Callable[[int, int], Backing] | None = None,
        granule: int = PAGE_BYTES,
    ) -> None:
        self.capacity_bytes: Final = capacity_bytes
        self.leased_bytes = self.kept_bytes = self.abandoned_bytes = 0
        self.retired: Final[list[Backing]] = []  # evicted; their holders must be told to unmap them
        self._granule: Final = granule
        self._make: Final = make or partial(HostPiece, shared=shared)
        self._kept: Final[dict[int, list[Backing]]] = {}  # by size, in order of first use
        self._abandoned: Final[dict[Backing, bool]] = {}  # value: whether it was evicted
        self._regions = 0
        self._retiring = 0  # bytes of pieces that were evicted and are still mapped

    def take(self, length: int) -> Backing | None:
        """A piece of at least `length` bytes, not cleared; None if the capacity does not suffice.

        Raises ValueError if `length` exceeds the whole capacity, EngineBusy if the system refuses
        memory and no kept piece is left that could be given back to it.
        """
        size = -(-size_class(length) // self._granule) * self._granule
        if size > self.capacity_bytes:
            raise ValueError(f"lease: {length} bytes; all staging memory is {self.capacity_bytes}")
        if kept := self._kept.get(size):
            backing = kept.pop()
            self.kept_bytes -= size
        else:
            # Memory that holders are unmapping need not be evicted a second time.
            while self.bytes + size - self._retiring > self.capacity_bytes and self._evict():
                pass
            if self.bytes + size > self.capacity_bytes:
                return None
            backing = self._new(size)
        self.leased_bytes += size
        return backing

    def _new(self, size: int) -> Backing:
        while True:
            self._regions += 1
            try:
                return self._make(self._regions, size)
            except OSError as error:
                if not self._evict():
                    raise EngineBusy(f"lease: no staging memory of {size} bytes: {error}"
                                     ) from error

    @property
    def bytes(self) -> int:
        """The bytes of all pieces: leased, kept and abandoned."""
        return self.leased_bytes + self.kept_bytes + self.abandoned_bytes

    def keep(self, backing: Backing) -> None:
        """Take back a piece that no writer uses, and keep it for the next lease."""
        self.leased_bytes -= backing.bytes
        self.kept_bytes += backing.bytes
        self._kept.setdefault(backing.bytes, []).append(backing)

    def abandon(self, backing: Backing) -> None:
        """Take back a piece that a holder may still write to. It is never leased again."""
        self.leased_bytes -= backing.bytes
        self._bury(backing, evicted=False)

    def drop_holder(self, backing: Backing, holder: object) -> bool:
        """Note that a holder has unmapped the piece. Returns whether memory has become free."""
        backing.holders.pop(holder, None)
        if not backing.holders:
            backing.unheld()
        if backing not in self._abandoned or backing.holders:
            return False
        evicted = self._abandoned.pop(backing)
        self.abandoned_bytes -= backing.bytes
        self._retiring -= backing.bytes * evicted
        return True

    def close(self) -> None:
        """Give back all kept pieces. Abandoned pieces are unmapped already."""
        for kept in self._kept.values():
            for backing in kept:
                backing.close()
        self._kept.clear()
        self._abandoned.clear()
        self.kept_bytes = self.abandoned_bytes = self._retiring = 0

    def _evict(self) -> bool:
        """Give back one kept piece. Returns whether there was one."""
        for size, kept in self._kept.items():
            if kept:
                backing = kept.pop(0)
                self.kept_bytes -= size
                if backing.holders:
                    self.retired.append(backing)
                self._bury(backing, evicted=True)
                return True
        return False

    def _bury(self, backing: Backing, *, evicted: bool) -> None:
        """Unmap a piece. It counts as abandoned while another process has it mapped."""
        backing.close()
        if backing.holders:
            self._abandoned[backing] = evicted
            self.abandoned_bytes += backing.bytes
            self._retiring += backing.bytes * evicted
