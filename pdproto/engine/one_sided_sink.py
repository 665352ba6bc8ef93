"""The sink of an engine whose library writes by address: it grants writes, and gives up memory.

    source: WRITE                                               COPIED
    sink:          GRANTED, with the address and, the first           LANDED
                   time, the description of the piece
    sink:          REFUSED, at any point

A source that is refused during a write still says COPIED when its library has ended the write, and
writes nothing more. A source whose library has failed says nothing: its bytes may still land.
The rules are in one_sided.py.
"""

import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

from pdproto.engine.contract import EngineError
from pdproto.engine.frames import Frame, Kind, Why
from pdproto.engine.leases import Held, Leases
from pdproto.engine.memory import PAGE_BYTES, Backing
from pdproto.engine.one_sided import Piece, Transport, complete
from pdproto.engine.ports import callable_at, listening
from pdproto.engine.sink import CAPACITY_BYTES, FRAMES_A_TURN, Sink
from pdproto.engine.sink_line import SinkLine
from pdproto.net.hosts import LOOPBACK, joined
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import SINK_CONNECTIONS_MAX, SINK_WRITES_MAX

EXPECTED: Final = frozenset({Kind.WRITE, Kind.COPIED})


class OneSidedSink(Sink["OneSidedLine"]):
    """Staging memory that a library writes to.

    transport: the library; it is closed with the sink. host, port: where sources ask to write, port
    0 picks one. granule: see memory.Pool. Raises EngineError if it cannot listen there.
    """

    granule: ClassVar[int] = PAGE_BYTES

    def __init__(
        self,
        transport: Transport,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        capacity_bytes: int = CAPACITY_BYTES,
        connections_max: int = SINK_CONNECTIONS_MAX,
    ) -> None:
        self.transport: Final = complete(transport)
        try:
            named = callable_at(transport.engine, host)
            listener = listening(host, port)
        except EngineError:
            transport.close()
            raise
        super().__init__(
            leases=Leases(
                engine=transport.engine,
                endpoint=joined(named, listener.getsockname()[1]),
                capacity_bytes=capacity_bytes,
                abandons=True,
                make=self._make,
                granule=self.granule,
            ),
            listener=listener,
            line=lambda sock: OneSidedLine(self, sock),
            connections_max=connections_max,
        )

    def _make(self, region: int, length: int) -> Backing:
        """A piece of staging memory; see memory.Pool."""
        return Piece(self.transport, region, length)

    def _over(self, held: Held) -> None:
        """Tell the writers of memory that was given up to stop."""
        if held.backing is None:
            self.loop.call(lambda: self._stop(held))

    def _stop(self, held: Held) -> None:
        for line in self.lines:
            self.serve(line, partial(line.stop, held))

    def _end(self) -> None:
        super()._end()
        self.transport.close()


@dataclass(frozen=True, slots=True)
class Open:
    """A write that the library of a source may execute. stopped: it was refused meanwhile."""

    held: Held
    piece: Backing
    bytes: int
    stopped: bool = False


class OneSidedLine(SinkLine):
    """One source's connection."""

    def __init__(self, sink: OneSidedSink, sock: socket.socket) -> None:
        super().__init__(sock)
        self._sink: Final = sink
        self._leases: Final = sink.leases
        self._described: Final[set[int]] = set()  # regions
        self._writes: Final[dict[int, Open]] = {}
        self._numbered = 0

    def receive(self) -> None:
        """Read the frames that have come, up to `FRAMES_A_TURN`."""
        with suppress(BlockingIOError):
            for _ in range(FRAMES_A_TURN):
                frame = self.receive_frame(EXPECTED)
                if frame is None:
                    continue
                if frame.kind is Kind.WRITE:
                    self._begin(frame)
                else:
                    self._end(frame.write)

    def stop(self, held: Held) -> None:
        """Refuse the writes to memory that was given up, so that the source stops them."""
        for number, write in list(self._writes.items()):
            if write.held is held and not write.stopped:
                self._writes[number] = replace(write, stopped=True)
                self._refuse(number, held.why)

    def ended(self) -> None:
        """See sink.Line. The source's process may still run and write, so its leases stay busy."""
        self._sink.transport.expect(-len(self._writes))
        with self._leases.lock:
            free = [self._drop_holder(write.piece) for write in self._writes.values()
                    if not write.piece.stays_held]
        self._writes.clear()
        if any(free):
            self._sink.wake()

    def _begin(self, frame: Frame) -> None:
        if frame.write <= self._numbered:
            raise RemoteProtocolError(f"write {frame.write} after write {self._numbered}")
        if len(self._writes) >= SINK_WRITES_MAX:
            raise RemoteProtocolError(f"more than {SINK_WRITES_MAX} writes at once")
        self._numbered = frame.write
        with self._leases.lock:
            held = self._leases.redeem(frame, self.challenge)
            piece = held.backing if isinstance(held, Held) else None
            if isinstance(held, Held) and piece is not None:
                self._leases.enter(held)
                piece.hand_out(self)
        if not isinstance(held, Held) or piece is None:
            self._refuse(frame.write, held.why if isinstance(held, Held) else held)
            return
        self._writes[frame.write] = Open(held, piece, frame.length)
        self._sink.transport.expect(1)
        self.name(held.lease.source)
        self._grant(frame.write, piece)

    def _grant(self, number: int, piece: Backing) -> None:
        description = b""
        if piece.region not in self._described:
            description = piece.describe()
            self._described.add(piece.region)
        granted = Frame(Kind.GRANTED, number, piece.address, len(description), piece.region,
                        version=self.version)
        self._sink.send(self, granted.encode() + description)

    def _end(self, number: int) -> None:
        write = self._writes.pop(number, None)
        if write is None:
            raise RemoteProtocolError(f"write {number} is reported as copied, but is not under way")
        self._sink.transport.expect(-1)
        others = any(other.piece is write.piece for other in self._writes.values())
        with self._leases.lock:
            landed = not write.stopped and self._leases.land(write.held, write.bytes)
            free = not others and self._drop_holder(write.piece)
            done = self._leases.leave(write.held)
        if free or done:
            self._sink.wake()
        if landed:
            self._sink.send(self, self.landed(number))
        elif not write.stopped:
            self._refuse(number, write.held.why)

    def _drop_holder(self, piece: Backing) -> bool:
        """Note that no write of this connection goes to the piece any more. Returns whether memory
        has become free. The caller has the lock.
        """
        free = self._leases.pool.drop_holder(piece, self)
        if free:
            piece.close()
        return free

    def _refuse(self, number: int, why: Why) -> None:
        with self._leases.lock:
            self._leases.refused_writes += 1
        self._sink.send(self, self.refused(number, why))
