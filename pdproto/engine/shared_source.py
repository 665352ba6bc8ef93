"""The shared memory engine's source: copies into memory that the sink has handed out.

The engine's thread makes all copies, a segment at a time, and numpy releases the interpreter lock
during each. So no copy is running while the thread handles a message of the sink, or after it
ended.
"""

import mmap
import os
import socket
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.engine import shared_sink
from pdproto.engine.contract import Result
from pdproto.engine.frames import FRAME_BYTES, Frame, Kind, decode
from pdproto.engine.source import BYTES_MAX, WRITES_MAX, Posted, Source
from pdproto.runtime.errors import RemoteProtocolError

SEGMENT_BYTES: Final = 4 << 20  # copied in a millisecond; a refusal stops a write after it
EXPECTED: Final = frozenset({Kind.GRANTED, Kind.LANDED, Kind.REFUSED, Kind.REVOKED})


class SharedSource(Source):
    """Writes to sinks on this host, into their memory.

    bytes_max, writes_max: the limits of what is in flight; beyond them `post` raises EngineBusy.
    The last write may exceed bytes_max.
    """

    engine = shared_sink.ENGINE
    gathers = True

    def __init__(self, *, bytes_max: int = BYTES_MAX, writes_max: int = WRITES_MAX) -> None:
        self._copies: Final[deque[Copy]] = deque()
        super().__init__(
            line=lambda endpoint: SharedLine(self, endpoint),
            bytes_max=bytes_max,
            writes_max=writes_max,
            work=self._work,
        )

    def close(self) -> None:
        """See contract.SourceEngine. It also drops copies that were interrupted."""
        super().close()
        self._copies.clear()

    def copy(self, copy: "Copy") -> None:
        """Queue a copy for the engine's thread."""
        self._copies.append(copy)

    def _work(self) -> bool:
        """Copy one segment. Returns whether there are more."""
        if self._copies:
            copy = self._copies[0]
            if copy.posted.ended or copy.step():
                self._copies.popleft()
                if not copy.posted.ended:
                    self.serve(copy.posted.address.endpoint, partial(copy.line.copied, copy.posted))
        return bool(self._copies)


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


class SharedLine:
    """The connection to one sink, and the memory that the sink has handed out over it."""

    def __init__(self, source: SharedSource, endpoint: str) -> None:
        if not endpoint.startswith("@"):
            raise OSError(f"{endpoint!r} is not the name of a local socket (@name)")
        self.sock: Final = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.open: Final[dict[int, Posted]] = {}
        self._source: Final = source
        self._outbox: Final[deque[bytes]] = deque()
        self._mapped: Final[dict[int, NDArray[np.uint8]]] = {}
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
        address = posted.address
        frame = Frame(Kind.WRITE, posted.number, posted.offset, posted.bytes, token=address.token)
        self._send(frame)

    def copied(self, posted: Posted) -> None:
        """Tell the sink that all bytes of the write are in place."""
        self._send(Frame(Kind.COPIED, posted.number))

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
                    self._answer(decode(packet, EXPECTED), files)
                finally:
                    for file in files:
                        os.close(file)

    def flush(self) -> None:
        """See source.Line."""
        with suppress(BlockingIOError):
            while self._outbox:
                self.sock.send(self._outbox[0])
                self._outbox.popleft()

    def ended(self) -> None:
        """See source.Line."""
        self._mapped.clear()

    def _answer(self, frame: Frame, files: list[int]) -> None:
        match frame.kind:
            case Kind.GRANTED:
                self._granted(frame, files)
            case Kind.LANDED:
                self._source.finish(self._source.answered(self, frame.write), Result.LANDED)
            case Kind.REFUSED:
                posted = self._source.answered(self, frame.write)
                self._source.finish(posted, Result.REFUSED, "the sink has fenced this hand-over")
            case _:
                if self._mapped.pop(frame.region, None) is not None:
                    self._send(Frame(Kind.DROPPED, region=frame.region))

    def _granted(self, frame: Frame, files: list[int]) -> None:
        posted = self.open.get(frame.write)
        if posted is None or posted.begun:
            raise RemoteProtocolError(f"write {frame.write} is granted, but does not wait for it")
        for file in files:
            self._map(frame.region, file)
        memory = self._mapped.get(frame.region)
        if memory is None or frame.offset != posted.offset or frame.length > memory.size:
            raise RemoteProtocolError(f"write {frame.write} is granted without its memory")
        target = memory[posted.offset : posted.offset + posted.bytes]
        if target.size != posted.bytes:
            raise RemoteProtocolError(f"write {frame.write} is granted in too little memory")
        self._source.copy(Copy(self, posted, target, deque(posted.views)))

    def _map(self, region: int, file: int) -> None:
        length = os.fstat(file).st_size
        try:
            mapped = mmap.mmap(file, length)
        except (OSError, ValueError) as error:
            raise RemoteProtocolError(f"region {region} cannot be mapped: {error}") from None
        self._mapped[region] = np.frombuffer(mapped, np.uint8)

    def _send(self, frame: Frame) -> None:
        self._outbox.append(frame.encode())
        if len(self._outbox) == 1:
            self.flush()
