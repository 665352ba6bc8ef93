"""The shared memory engine's source: copies into memory that the sink has handed out.

The engine's thread copies bytes in host memory, a segment at a time, and numpy releases the
interpreter lock during each. So no such copy is running while the thread handles a message of the
sink, or after it ended. A device copies its own bytes, and cannot be stopped:

Rule: while a device copies, it reads the bytes of the write and writes to the sink's memory. So the
      write has its outcome, and the memory is unmapped and said to be DROPPED, only after that.
"""

import logging
import mmap
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep
from typing import Any, Final
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from pdproto.engine import shared_sink
from pdproto.engine.contract import CLOSE_S, POLL_S, Pin, Result
from pdproto.engine.frames import FRAME_BYTES, VERSION, Frame, Kind, agreed, decode
from pdproto.engine.source import BYTES_MAX, WRITES_MAX, Posted, Source
from pdproto.runtime.errors import RemoteProtocolError

log = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 4 << 20  # copied in a millisecond; a refusal stops a write after it
FIRST: Final = frozenset({Kind.CHALLENGE})
EXPECTED: Final = frozenset({Kind.GRANTED, Kind.LANDED, Kind.REFUSED, Kind.REVOKED})


class SharedSource(Source):
    """Writes to sinks on this host, into their memory.

    bytes_max, writes_max: the limits of what is in flight; beyond them `post` raises EngineBusy.
    The last write may exceed bytes_max.
    """

    engine = shared_sink.ENGINE
    gathers = True
    carries = True

    def __init__(self, *, bytes_max: int = BYTES_MAX, writes_max: int = WRITES_MAX) -> None:
        self._copies: Final[deque[Copy]] = deque()
        self._carries: Final[dict[int, Carry]] = {}  # by write, in the order in which they began
        super().__init__(
            line=lambda endpoint: SharedLine(self, endpoint),
            bytes_max=bytes_max,
            writes_max=writes_max,
            work=self._work,
        )

    def close(self) -> None:
        """See contract.SourceEngine. It drops copies that were interrupted, and waits for those
        that a device has begun, `CLOSE_S` at most: a slower device keeps the memory mapped.
        """
        super().close()
        self._copies.clear()

    def _end(self) -> None:
        """See Source. Sinks hear first that nobody writes to their memory any more."""
        self.attach(lambda: None)
        end = monotonic() + CLOSE_S
        while self._carries and monotonic() < end:
            self._ask()
            sleep(POLL_S)
        for line in self._lines.values():
            if isinstance(line, SharedLine):
                line.part()
        super()._end()

    # For the connections, on the loop's thread.

    def map(self, file: int) -> "Region":
        """Map memory that a sink has handed out. Raises OSError or ValueError if that fails."""
        return Region(np.frombuffer(mmap.mmap(file, os.fstat(file).st_size), np.uint8))

    def copy(self, copy: "Copy") -> None:
        """Queue a copy for the engine's thread."""
        self._copies.append(copy)

    def carry(
        self, line: "SharedLine", posted: Posted, region: "Region", target: Any, number: int
    ) -> None:
        """Have the device of the bytes copy them to this target in the region of this number."""
        carried = posted.carried
        assert carried is not None  # noqa: S101 - the caller has looked
        posted.begun = True
        try:
            region.pin(carried.pin)
            is_over = carried.copy_to(target)
        except (OSError, RuntimeError, ValueError) as error:
            self.finish(posted, Result.ERROR, str(error))
            return
        self._carries[posted.number] = Carry(line, posted, number, is_over)

    def carrying(self, posted: Posted) -> "Carry | None":
        """The copy of a write by its device, if it is not over."""
        return self._carries.get(posted.number)

    def carries_into(self, line: "SharedLine", region: int) -> bool:
        """Whether a device copies into this region."""
        return any(carry.line is line and carry.region == region
                   for carry in self._carries.values())

    def _work(self) -> bool:
        """Copy one segment, and ask the devices. Returns whether there is more to do."""
        if self._carries:
            self._ask()
        if self._copies:
            copy = self._copies[0]
            if copy.posted.ended or copy.step():
                self._copies.popleft()
                if not copy.posted.ended:
                    self.serve(copy.posted.address.endpoint, partial(copy.line.copied, copy.posted))
        elif self._carries:
            sleep(POLL_S)
        return bool(self._copies or self._carries)

    def _ask(self) -> None:
        """End the copies that devices have made."""
        for number, carry in list(self._carries.items()):
            failure = ""
            try:
                if not carry.is_over():
                    continue
            except RuntimeError as error:  # the device has failed
                failure = str(error)
            del self._carries[number]
            self._end_carry(carry, failure)

    def _end_carry(self, carry: "Carry", failure: str) -> None:
        posted, line = carry.posted, carry.line
        if posted.ended:
            pass  # the connection has ended
        elif carry.is_refused:
            self.finish(posted, Result.REFUSED, shared_sink.FENCED)
        elif failure:
            self.finish(posted, Result.ERROR, failure)
        else:
            self.serve(posted.address.endpoint, partial(line.copied, posted))
        self.serve(posted.address.endpoint, partial(line.carried_into, carry.region))


@dataclass(eq=False, slots=True)
class Region:
    """Memory of a sink. memory: [byte], of the host or of a device."""

    memory: Any
    is_pinned: bool = False

    def pin(self, pin: Pin) -> None:
        """Pin it once, so that a device copies to it by itself, until its last view is gone.

        Raises OSError if the device refuses.
        """
        if not self.is_pinned and isinstance(self.memory, np.ndarray):
            finalize(self.memory, pin(self.memory)).atexit = False
        self.is_pinned = True


@dataclass(slots=True)
class Copy:
    """A copy under way. target: uint8, the memory that is not filled yet. views: not copied yet."""

    line: "SharedLine"
    posted: Posted
    target: NDArray[np.uint8] = field(repr=False)
    views: deque[memoryview] = field(repr=False)

    def step(self) -> bool:
        """Copy a segment. Returns whether it was the last one."""
        left = SEGMENT_BYTES
        while self.views and left:
            view = self.views.popleft()
            piece = np.frombuffer(view[:left], np.uint8)
            self.posted.begun = True
            np.copyto(self.target[: piece.size], piece)
            self.target = self.target[piece.size :]
            if view.nbytes > left:
                self.views.appendleft(view[left:])
            left -= piece.size
        return not self.views


@dataclass(eq=False, slots=True)
class Carry:
    """A copy by a device. is_over: see DeviceBytes. is_refused: the sink has refused the write."""

    line: "SharedLine"
    posted: Posted
    region: int
    is_over: Callable[[], bool] = field(repr=False)
    is_refused: bool = False


class SharedLine:
    """The connection to one sink, and the memory that the sink has handed out over it."""

    def __init__(self, source: SharedSource, endpoint: str) -> None:
        if not endpoint.startswith("@"):
            raise OSError(f"{endpoint!r} is not the name of a local socket (@name)")
        self.sock: Final = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.open: Final[dict[int, Posted]] = {}
        self._source: Final = source
        self._outbox: Final[deque[bytes]] = deque()
        self._version = VERSION
        self._early: list[Posted] | None = []  # before the sink has said its versions; then None
        self._mapped: Final[dict[int, Region]] = {}
        self._revoked: Final[set[int]] = set()  # regions into which a device still copies
        try:
            self.sock.setblocking(False)
            self.sock.connect("\0" + endpoint[1:])
        except OSError:
            self.sock.close()
            raise

    @property
    def unsent(self) -> bool:
        """See source.Line."""
        return bool(self._outbox)

    def begin(self, posted: Posted) -> None:
        """See source.Line."""
        if self._early is not None:
            self._early.append(posted)
            return
        self._send(Frame(Kind.WRITE, posted.number, posted.offset, posted.bytes,
                         token=posted.address.token, version=self._version))

    def copied(self, posted: Posted) -> None:
        """Tell the sink that all bytes of the write are in place."""
        self._send(Frame(Kind.COPIED, posted.number, version=self._version))

    def carried_into(self, region: int) -> None:
        """A device has stopped copying into this region: unmap it, if the sink has asked for it."""
        if region in self._revoked and not self._source.carries_into(self, region):
            self._drop(region)

    def receive(self) -> None:
        """See source.Line."""
        with suppress(BlockingIOError):
            while True:
                packet, files, _, _ = socket.recv_fds(
                    self.sock, FRAME_BYTES + 1, 1, socket.MSG_CMSG_CLOEXEC
                )
                try:
                    if not packet:
                        raise ConnectionResetError("it has closed the connection")
                    self._take(packet, files)
                finally:
                    for file in files:
                        os.close(file)

    def flush(self) -> None:
        """See source.Line."""
        with suppress(BlockingIOError):
            while self._outbox:
                self.sock.send(self._outbox[0])
                self._outbox.popleft()

    def part(self) -> None:
        """The source is closed: unmap all memory that no device copies into, and say so."""
        with suppress(OSError):
            for region in list(self._mapped):
                if not self._source.carries_into(self, region):
                    self._drop(region)

    def ended(self) -> None:
        """See source.Line. Memory stays mapped while a device copies into it."""
        self._mapped.clear()
        self._revoked.clear()

    def _take(self, packet: bytes, files: list[int]) -> None:
        if self._early is None:
            self._answer(decode(packet, EXPECTED), files)
            return
        self._version = agreed(decode(packet, FIRST)).version
        early, self._early = self._early, None
        for posted in early:
            self.begin(posted)

    def _answer(self, frame: Frame, files: list[int]) -> None:
        match frame.kind:
            case Kind.GRANTED:
                self._granted(frame, files)
            case Kind.LANDED:
                self._source.finish(self._source.answered(self, frame.write), Result.LANDED)
            case Kind.REFUSED:
                self._refused(self._source.answered(self, frame.write))
            case _:
                if self._source.carries_into(self, frame.region):
                    self._revoked.add(frame.region)
                elif frame.region in self._mapped:
                    self._drop(frame.region)

    def _refused(self, posted: Posted) -> None:
        carry = self._source.carrying(posted)
        if carry is not None:
            carry.is_refused = True
        elif not posted.ended:  # its device may have failed
            self._source.finish(posted, Result.REFUSED, shared_sink.FENCED)

    def _granted(self, frame: Frame, files: list[int]) -> None:
        posted = self.open.get(frame.write)
        if posted is None or posted.begun:
            raise RemoteProtocolError(f"write {frame.write} is granted, but does not wait for it")
        try:
            for file in files:
                self._map(frame.region, file)
        except OSError as error:  # of this host or its device: other writes to the sink go on
            self._send(Frame(Kind.DROPPED, region=frame.region, version=self._version))
            self._source.finish(posted, Result.REFUSED, f"region {frame.region}: {error}")
            return
        region = self._mapped.get(frame.region)
        if region is None or frame.offset != posted.offset or frame.length > len(region.memory):
            raise RemoteProtocolError(f"write {frame.write} is granted without its memory")
        target = region.memory[posted.offset : posted.offset + posted.bytes]
        if len(target) != posted.bytes:
            raise RemoteProtocolError(f"write {frame.write} is granted in too little memory")
        if posted.carried is not None:
            self._source.carry(self, posted, region, target, frame.region)
        else:
            self._source.copy(Copy(self, posted, target, deque(posted.views)))

    def _map(self, region: int, file: int) -> None:
        try:
            self._mapped[region] = self._source.map(file)
        except ValueError as error:
            raise RemoteProtocolError(f"region {region} cannot be mapped: {error}") from None

    def _drop(self, region: int) -> None:
        """Unmap a region, and say so."""
        self._revoked.discard(region)
        del self._mapped[region]
        self._send(Frame(Kind.DROPPED, region=region, version=self._version))

    def _send(self, frame: Frame) -> None:
        self._outbox.append(frame.encode())
        if len(self._outbox) == 1:
            self.flush()
