"""The shared memory engine's source: copies into memory that the sink has handed out.

The engine's thread copies bytes in host memory, a segment at a time, and numpy releases the
interpreter lock during each. Before each it looks at the grant (board.py), and after the last, so
it knows the outcome without a message. A device copies its own bytes, and cannot be stopped.

Rule: while bytes are copied, they are read, and the sink's memory is written to. So the write has
      its outcome, and the memory is unmapped and said to be DROPPED, only after that.
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

from pdproto.engine import board, shared_sink
from pdproto.engine.board import (
    LANDED_BYTES,
    LANDED_WRITES,
    REFUSED_WRITES,
    Board,
    Spot,
    word_of,
)
from pdproto.engine.contract import CLOSE_S, POLL_S, Pin, Result
from pdproto.engine.frames import FRAME_BYTES, VERSION, Frame, Kind, agreed, decode
from pdproto.engine.source import BYTES_MAX, WRITES_MAX, Posted, Source
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import REGIONS_MAX

log = logging.getLogger(__name__)

# Of a process with too many files the kernel leaves one out of the message.
NO_FILE: Final = "its file has not come: has this process too many open files (ulimit -n)?"
SEGMENT_BYTES: Final = 4 << 20  # copied in a millisecond; a refusal stops a write after it
FIRST: Final = frozenset({Kind.CHALLENGE})
EXPECTED: Final = frozenset({Kind.GRANTED, Kind.REFUSED, Kind.REVOKED})


class SharedSource(Source):
    """Writes to sinks on this host, into their memory.

    bytes_max, writes_max: the limits of what is in flight; beyond them `post` raises EngineBusy.
    The last write may exceed bytes_max. Raises OSError where the host refuses `membarrier`.
    """

    engine = shared_sink.ENGINE
    gathers = True
    carries = True

    def __init__(self, *, bytes_max: int = BYTES_MAX, writes_max: int = WRITES_MAX) -> None:
        board.barrier()  # a host that refuses it has no shared memory
        self._copies: Final[deque[Copy]] = deque()
        self._carries: Final[dict[int, Carry]] = {}  # by write, in the order in which they began
        super().__init__(
            line=lambda endpoint: SharedLine(self, endpoint),
            bytes_max=bytes_max,
            writes_max=writes_max,
            work=self._work,
        )

    def why_closed(self, _sock: socket.socket) -> str:
        """Why a sink has closed this connection."""
        return "it has closed the connection"

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
        for copy in self._copies:
            if copy.posted.begun:
                copy.region.leave()
        for line in self._lines.values():
            if isinstance(line, SharedLine):
                line.part()
        super()._end()

    # For the connections, on the loop's thread.

    def map(self, file: int) -> Any:
        """Map memory that a sink has handed out, [byte]. Raises OSError or ValueError if that
        fails.
        """
        return np.frombuffer(mmap.mmap(file, os.fstat(file).st_size), np.uint8)

    def copy(self, line: "SharedLine", posted: Posted, region: "Region", target: Any) -> None:
        """Copy the bytes of a write to this target in the region, or have their device do it."""
        if posted.carried is not None:
            self._carry(line, posted, region, target)
        else:
            self._copies.append(Copy(line, posted, region, target, deque(posted.views)))

    def _carry(self, line: "SharedLine", posted: Posted, region: "Region", target: Any) -> None:
        carried = posted.carried
        assert carried is not None  # noqa: S101 - the caller has looked
        if not region.enter(posted):
            line.end(posted, Result.REFUSED, board.CLOSED)
            return
        try:
            region.pin(carried.pin)
            is_over = carried.copy_to(target)
        except (OSError, RuntimeError, ValueError) as error:
            line.copied(posted, region, str(error) or repr(error))
            return
        self._carries[posted.number] = Carry(line, posted, region, is_over)

    def _work(self) -> bool:
        """Copy one segment, and ask the devices. Returns whether there is more to do."""
        if self._carries:
            self._ask()
        if self._copies:
            if self._copies[0].step():
                self._copies.popleft().end()
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
            carry.line.copied(carry.posted, carry.region, failure)


@dataclass(eq=False, slots=True)
class Region:
    """Memory of a sink. memory: [byte], of the host or of a device. spot: its words. writers: how
    many copies into it are under way. is_revoked: the sink has asked to unmap it meanwhile.
    """

    number: int
    memory: Any
    spot: Spot
    writers: int = 0
    is_revoked: bool = False
    is_pinned: bool = False

    def enter(self, posted: Posted) -> bool:
        """Begin to copy. Returns False if the sink has withdrawn the grant of this write."""
        word = word_of(posted.address.token)
        if not (self.spot.allows(word) if self.writers else self.spot.enter(word)):
            return False
        self.writers += 1
        posted.begun = True
        return True

    def allows(self, posted: Posted) -> bool:
        """Whether the sink still lets this write go on."""
        return self.spot.allows(word_of(posted.address.token))

    def leave(self) -> None:
        """Note the end of a copy."""
        self.writers -= 1
        if not self.writers:
            self.spot.leave()

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
    region: Region
    target: NDArray[np.uint8] = field(repr=False)
    views: deque[memoryview] = field(repr=False)

    def step(self) -> bool:
        """Copy a segment. Returns whether nothing is left to copy, or nothing may be copied."""
        posted, region = self.posted, self.region
        if posted.ended or not (region.allows(posted) if posted.begun else region.enter(posted)):
            return True
        left = SEGMENT_BYTES
        while self.views and left:
            view = self.views.popleft()
            piece = np.frombuffer(view[:left], np.uint8)
            np.copyto(self.target[: piece.size], piece)
            self.target = self.target[piece.size :]
            if view.nbytes > left:
                self.views.appendleft(view[left:])
            left -= piece.size
        return not self.views

    def end(self) -> None:
        """Nothing more is copied."""
        if self.posted.begun:
            self.line.copied(self.posted, self.region)
        elif not self.posted.ended:
            self.line.end(self.posted, Result.REFUSED, board.CLOSED)


@dataclass(eq=False, slots=True)
class Carry:
    """A copy by a device. is_over: see DeviceBytes."""

    line: "SharedLine"
    posted: Posted
    region: Region
    is_over: Callable[[], bool] = field(repr=False)


class SharedLine:
    """The connection to one sink, and the memory that the sink has handed out over it."""

    def __init__(self, source: SharedSource, endpoint: str) -> None:
        if not endpoint.startswith("@"):
            raise OSError(f"{endpoint!r} is not the name of a local socket (@name)")
        self.sock: Final = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.open: Final[dict[int, Posted]] = {}
        self._source: Final = source
        self._endpoint: Final = endpoint
        self._outbox: Final[deque[bytes]] = deque()
        self._version = VERSION
        self._early: Final[list[Posted]] = []  # before the sink has said its versions
        self._board: Board | None = None  # it comes with them
        self._mapped: Final[dict[int, Region]] = {}
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
        region = self._mapped.get(posted.address.region)
        if self._board is None:
            self._early.append(posted)
        elif region is not None and not region.is_revoked:
            self._copy(posted, region)
        else:
            self._send(Frame(Kind.WRITE, posted.number, posted.offset, posted.bytes,
                             token=posted.address.token, version=self._version))

    def copied(self, posted: Posted, region: Region, failure: str = "") -> None:
        """A copy that had begun has ended. failure: of the device that made it."""
        is_granted = region.allows(posted)
        region.leave()  # before the outcome: the lease may be released at once
        if posted.ended:
            pass  # its connection has ended
        elif failure:
            self.end(posted, Result.ERROR, failure)
        elif is_granted:
            self.end(posted, Result.LANDED)
        else:
            self.end(posted, Result.REFUSED, board.WITHDRAWN)
        if region.is_revoked and not region.writers:
            self._source.serve(self._endpoint, partial(self._drop, region))

    def end(self, posted: Posted, result: Result, reason: str = "") -> None:
        """End a write, and count it. The sink counts a write that it has stopped itself."""
        del self.open[posted.number]
        if self._board is not None and result is Result.LANDED:
            self._board.count(LANDED_WRITES, 1)
            self._board.count(LANDED_BYTES, posted.bytes)
        elif self._board is not None and result is Result.REFUSED and not posted.begun:
            self._board.count(REFUSED_WRITES, 1)
        self._source.finish(posted, result, reason)

    def receive(self) -> None:
        """See source.Line."""
        with suppress(BlockingIOError):
            while True:
                packet, files, _, _ = socket.recv_fds(
                    self.sock, FRAME_BYTES + 1, 1, socket.MSG_CMSG_CLOEXEC)
                try:
                    if not packet:
                        raise ConnectionResetError(self._source.why_closed(self.sock))
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
            for region in list(self._mapped.values()):
                if not region.writers:
                    self._drop(region)

    def ended(self) -> None:
        """See source.Line. Memory and board stay mapped while bytes are copied into it."""
        if self._board is not None and not any(one.writers for one in self._mapped.values()):
            self._board.close()
        self._mapped.clear()

    def _take(self, packet: bytes, files: list[int]) -> None:
        if self._board is not None:
            self._answer(decode(packet, EXPECTED), files)
            return
        self._version = agreed(decode(packet, FIRST)).version
        if not files:
            raise RemoteProtocolError(f"the sink's first frame comes without its board: {NO_FILE}")
        self._board = Board(files[0])
        for posted in self._early:
            self.begin(posted)
        self._early.clear()

    def _answer(self, frame: Frame, files: list[int]) -> None:
        if frame.kind is Kind.GRANTED:
            self._granted(frame, files)
        elif frame.kind is Kind.REFUSED:
            posted = self._source.answered(self, frame.write)
            self._source.finish(posted, Result.REFUSED, frame.why)
        elif frame.region in self._mapped:
            region = self._mapped[frame.region]
            region.is_revoked = True
            if not region.writers:
                self._drop(region)

    def _granted(self, frame: Frame, files: list[int]) -> None:
        posted = self.open.get(frame.write)
        if posted is None or posted.begun:
            raise RemoteProtocolError(f"write {frame.write} is granted, but does not wait for it")
        try:
            for file in files:
                self._map(frame.region, file, frame.offset)
            region = self._mapped.get(frame.region)
            if region is None:
                raise OSError(NO_FILE)
        except OSError as error:  # of this host or its device: other writes to the sink go on
            self._send(Frame(Kind.DROPPED, region=frame.region, version=self._version))
            self.end(posted, Result.REFUSED, f"region {frame.region}: {error}")
            return
        if frame.length > len(region.memory):
            raise RemoteProtocolError(f"write {frame.write} is granted past its memory")
        self._copy(posted, region)

    def _copy(self, posted: Posted, region: Region) -> None:
        target = region.memory[posted.offset : posted.offset + posted.bytes]
        if len(target) == posted.bytes:
            self._source.copy(self, posted, region, target)
        else:  # the address does not say the truth, and other writes over this connection go on
            self.end(posted, Result.REFUSED, f"it is past the end of region {region.number}")

    def _map(self, region: int, file: int, spot: int) -> None:
        if self._board is None or spot >= REGIONS_MAX:
            raise RemoteProtocolError(f"region {region} has no spot {spot}")
        try:
            self._mapped[region] = Region(region, self._source.map(file), Spot(self._board, spot))
        except ValueError as error:
            raise RemoteProtocolError(f"region {region} cannot be mapped: {error}") from None

    def _drop(self, region: Region) -> None:
        """Unmap a region, and say so."""
        del self._mapped[region.number]
        self._send(Frame(Kind.DROPPED, region=region.number, version=self._version))

    def _send(self, frame: Frame) -> None:
        self._outbox.append(frame.encode())
        if len(self._outbox) == 1:
            self.flush()
