"""The TCP engine's sink: its own thread stores the bytes, and asks the lease before each receive.

So a fence needs no help of the writer: it is done when the one receive that may be running has
returned. Later bytes are read and thrown away. This holds for staging memory and for pages.

    source: WRITE, then SEGMENTs with their bytes, one write after the other
    sink:   LANDED or REFUSED for each, as soon as it is known
"""

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from pdproto.engine.contract import Scope
from pdproto.engine.frames import Frame, Kind, Why
from pdproto.engine.leases import Held, Leases
from pdproto.engine.ports import callable_at, listening
from pdproto.engine.sink import CAPACITY_BYTES, FRAMES_A_TURN, Sink
from pdproto.engine.sink_line import SinkLine
from pdproto.net.hosts import LOOPBACK, joined
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import SINK_CONNECTIONS_MAX

ENGINE: Final = "tcp"
RECEIVE_BYTES: Final = 1 << 20  # in one call, because a fence waits for a running call
TURN_BYTES: Final = 4 << 20  # from one connection, before the others are served
PIECES_MAX: Final = 128  # of memory in one receive; the system allows 1024
NOWHERE: Final = memoryview(b"")
EXPECTED: Final = frozenset({Kind.WRITE, Kind.SEGMENT})


class TcpSink(Sink["TcpLine"]):
    """Staging memory, or targets, that sources on other hosts write to over TCP.

    host, port: where to listen; port 0 picks one. advertised: the address that sources connect to,
    if it is not `host`; it is needed for a wildcard. capacity_bytes: of staging memory. Raises
    EngineError if it cannot listen there.
    """

    target_scope = Scope.PAGE

    def __init__(
        self,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        advertised: str | None = None,
        capacity_bytes: int = CAPACITY_BYTES,
        connections_max: int = SINK_CONNECTIONS_MAX,
    ) -> None:
        named = callable_at(ENGINE, advertised or host)
        listener = listening(host, port)
        super().__init__(
            leases=Leases(
                engine=ENGINE,
                endpoint=joined(named, listener.getsockname()[1]),
                capacity_bytes=capacity_bytes,
                abandons=False,
            ),
            listener=listener,
            line=lambda sock: TcpLine(self, sock),
            connections_max=connections_max,
        )


@dataclass(slots=True)
class Arriving:
    """The write that a source is sending.

    held: its lease; None after it is refused. window: memory that the next receives fill. rest: the
    memory after that. places: yields the memory after `rest`.
    """

    number: int
    held: Held | None
    bytes: int
    places: Iterator[memoryview]
    left: int  # bytes that have not come yet
    rest: memoryview = NOWHERE
    window: deque[memoryview] = field(default_factory=deque)

    def pieces(self, length: int) -> list[memoryview]:
        """The memory for the next bytes: `length` of them, or fewer."""
        if not self.window:
            while length:
                place, self.rest = self.rest or next(self.places), NOWHERE
                if place.nbytes > length:
                    place, self.rest = place[:length], place[length:]
                self.window.append(place)
                length -= place.nbytes
        return list(islice(self.window, PIECES_MAX))

    def filled(self, count: int) -> None:
        """Note that `count` more bytes have come."""
        while count and count >= self.window[0].nbytes:
            count -= self.window.popleft().nbytes
        if count:
            self.window[0] = self.window[0][count:]

    def refuse(self) -> None:
        """Give up the memory of the write: its other bytes are thrown away."""
        self.held, self.places, self.rest = None, iter(()), NOWHERE
        self.window.clear()


class TcpLine(SinkLine):
    """One source's connection."""

    def __init__(self, sink: TcpSink, sock: socket.socket) -> None:
        super().__init__(sock)
        self._sink: Final = sink
        self._leases: Final = sink.leases
        self._write: Arriving | None = None
        self._segment_left = 0
        self._numbered = 0
        self._waste: bytearray | None = None

    def receive(self) -> None:
        """Read the bytes that have come, up to `TURN_BYTES` or `FRAMES_A_TURN`."""
        left, frames = TURN_BYTES, FRAMES_A_TURN
        with suppress(BlockingIOError):
            while left > 0 and frames:
                if self._write is not None and self._segment_left:
                    left -= self._receive_segment(self._write)
                else:
                    self._receive_frame()
                    frames -= 1

    def ended(self) -> None:
        """See sink.Line."""
        self._write = None

    def _receive_frame(self) -> None:
        frame = self.receive_frame(EXPECTED)
        if frame is None:
            return
        if frame.kind is Kind.WRITE:
            self._begin(frame)
        else:
            self._begin_segment(frame)

    def _begin(self, frame: Frame) -> None:
        if frame.write <= self._numbered:
            raise RemoteProtocolError(f"write {frame.write} after write {self._numbered}")
        if self._write is not None and self._write.held is not None:
            raise RemoteProtocolError(f"write {frame.write} begins inside {self._write.number}")
        self._numbered = frame.write
        places: Iterator[memoryview] = iter(())
        with self._leases.lock:
            found = self._leases.redeem(frame, self.challenge)
            held = found if isinstance(found, Held) else None
            if held is not None:
                self.name(held.lease.source)
                places = filter(len, held.places(frame.offset, frame.length))
        self._write = Arriving(frame.write, held, frame.length, places, frame.length)
        if not isinstance(found, Held):
            self._refuse(self._write, found)
        elif not frame.length:
            self._land(self._write, found)

    def _land(self, write: Arriving, held: Held) -> None:
        with self._leases.lock:
            landed = self._leases.land(held, write.bytes)
        if landed:
            self._write = None
            self._sink.send(self, self.landed(write.number))
        else:
            self._refuse(write, held.why)

    def _refuse(self, write: Arriving, why: Why) -> None:
        """Tell the source at once. Bytes that it has sent meanwhile are thrown away."""
        with self._leases.lock:
            self._leases.refused_writes += 1
        write.refuse()
        self._sink.send(self, self.refused(write.number, why))

    def _begin_segment(self, frame: Frame) -> None:
        write = self._write
        if write is None or frame.write != write.number:
            raise RemoteProtocolError(f"segment of write {frame.write}, which has not begun")
        if not 0 < frame.length <= write.left:
            raise RemoteProtocolError(
                f"segment of {frame.length} bytes, write {write.number} has {write.left} to come"
            )
        self._segment_left = frame.length

    def _receive_segment(self, write: Arriving) -> int:
        length = min(self._segment_left, RECEIVE_BYTES)
        held = write.held
        if held is not None:
            with self._leases.lock:
                entered = self._leases.enter(held)
            if not entered:
                self._refuse(write, held.why)
                held = None
        count = self._throw_away(length) if held is None else self._place(write, held, length)
        write.left -= count
        self._segment_left -= count
        if held is not None and not write.left:
            self._land(write, held)
        return count

    def _place(self, write: Arriving, held: Held, length: int) -> int:
        """Receive into the memory of the write. A fence that began meanwhile is done afterwards."""
        try:
            count = self.checked(self.sock.recvmsg_into(write.pieces(length))[0])
            write.filled(count)
            return count
        finally:
            with self._leases.lock:
                done = self._leases.leave(held)
            if done:
                self._sink.wake()

    def _throw_away(self, length: int) -> int:
        if self._waste is None:
            self._waste = bytearray(RECEIVE_BYTES)
        return self.checked(self.sock.recv_into(memoryview(self._waste)[:length]))
