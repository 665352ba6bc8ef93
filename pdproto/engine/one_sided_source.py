"""The source of an engine whose library writes by address: it asks, and then has it written.

A library's calls may wait for a peer, or copy, so that each connection has a thread for them. It
asks the library how transfers stand, and sleeps in between: a thread that spins would take the time
of those that move the bytes.

Rule 1: what has begun has its outcome when the library has ended it, even if it was refused
        meanwhile. If its connection ends, that is an error at once, and the library goes on.
Rule 2: what the library reads from is kept until it has ended, or is closed.
"""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from time import sleep
from typing import Final

from pdproto.engine.contract import EngineError, Result
from pdproto.engine.frames import FRAME_BYTES, Frame, Kind, decode
from pdproto.engine.one_sided import (
    DESCRIPTION_MAX,
    Description,
    Handle,
    Transport,
    address_of,
    check_versions,
)
from pdproto.engine.source import BYTES_MAX, WRITES_MAX, Posted, Source, dial
from pdproto.runtime.errors import RemoteProtocolError

log = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 4 << 20  # in one transfer: how late a refusal may stop a write
MOVES_MAX: Final = 16  # that one connection's library calls are under way for
PAUSE_SECONDS: Final = 50e-6  # between two questions how transfers stand
EXPECTED: Final = frozenset({Kind.GRANTED, Kind.LANDED, Kind.REFUSED})


class OneSidedSource(Source):
    """Writes to sinks by means of a library.

    transport: the library; it is closed with the source. bytes_max, writes_max: in flight, beyond
    which `post` raises EngineBusy; the last write may pass bytes_max.
    """

    def __init__(
        self, transport: Transport, *, bytes_max: int = BYTES_MAX, writes_max: int = WRITES_MAX
    ) -> None:
        self.transport: Final = transport
        self.movers: Final[set[Mover]] = set()
        self._readable: Final[dict[tuple[int, int], int]] = {}  # how many writes read from it
        self._reading: Final = threading.Lock()
        self._closed = False
        super().__init__(
            line=lambda endpoint: OneSidedLine(self, endpoint),
            bytes_max=bytes_max,
            writes_max=writes_max,
        )

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        super().close()
        left = [move for mover in list(self.movers) for move in mover.leave()]
        self.transport.close()
        left.clear()  # Until now, the library may have read from what they hold.

    def enlist(self, view: memoryview) -> None:
        """Have the library read from this memory."""
        place = address_of(view), view.nbytes
        with self._reading:
            readers = self._readable.get(place, 0)
            if not readers:
                self.transport.register(*place)
            self._readable[place] = readers + 1

    def delist(self, view: memoryview) -> None:
        """Nothing is read from it any more."""
        place = address_of(view), view.nbytes
        with self._reading:
            self._readable[place] -= 1
            if not self._readable[place]:
                del self._readable[place]
                self.transport.unregister(place[0])


@dataclass(slots=True, eq=False)
class Move:
    """A granted write. description: what the library is to be told first, if it has not been.

    target: an address of the sink's. segments: source, target and length of what has not begun.
    refused: nothing more of it is to begin. problem: why it has failed. wrong: what the sink has
    said that the library does not take.
    """

    posted: Posted
    peer: str
    description: Description | None
    target: int
    views: tuple[memoryview, ...] = field(repr=False)
    segments: Iterator[tuple[int, int, int]] = field(init=False, repr=False)
    enlisted: int = 0  # of the views
    handle: Handle = None
    refused: bool = False
    copied: bool = False
    problem: str = ""
    wrong: str = ""

    def __post_init__(self) -> None:
        self.segments = self._cut()

    def _cut(self) -> Iterator[tuple[int, int, int]]:
        target = self.target
        for view in self.views:
            address = address_of(view)
            for start in range(0, view.nbytes, SEGMENT_BYTES):
                length = min(SEGMENT_BYTES, view.nbytes - start)
                yield address + start, target + start, length
            target += view.nbytes


class Mover:
    """The thread that has one connection's writes made."""

    def __init__(self, line: "OneSidedLine", source: OneSidedSource, endpoint: str) -> None:
        self._line: Final = line
        self._source: Final = source
        self._transport: Final = source.transport
        self._endpoint: Final = endpoint
        self._queue: Final[SimpleQueue[Move | None]] = SimpleQueue()
        self._ending = self._leaving = False
        self._moving: list[Move] = []
        self._thread: Final = threading.Thread(
            target=self._run, name=f"{source.engine} to {endpoint}", daemon=True
        )
        source.movers.add(self)
        self._thread.start()

    def put(self, move: Move) -> None:
        self._queue.put(move)

    def end(self) -> None:
        """Begin nothing more, and end when the library has ended what is under way."""
        self._ending = True
        self._queue.put(None)

    def leave(self) -> list[Move]:
        """End now. Returns what the library may still be at."""
        self._leaving = True
        self.end()
        self._thread.join()
        return self._moving

    def _run(self) -> None:
        try:
            while self._take():
                still = [move for move in self._moving if not self._step(move)]
                if still and len(still) == len(self._moving):
                    sleep(PAUSE_SECONDS)
                self._moving = still
        except Exception as error:
            # A mistake of ours, or nothing that its documentation speaks of: it ends the engine.
            self._source.loop.call(partial(_raise, error))
        self._source.movers.discard(self)

    def _take(self) -> bool:
        """Take what there is to move, and wait for it if there is nothing; False at the end."""
        while not self._ending and len(self._moving) < MOVES_MAX:
            if self._moving and self._queue.empty():
                break
            move = self._queue.get()
            if move is not None:
                self._moving.append(move)
        return not self._ending or (bool(self._moving) and not self._leaving)

    def _step(self, move: Move) -> bool:
        """Begin the next transfer of a write if the last has ended; whether the write is over."""
        try:
            if move.description is not None:
                # Later writes to the same piece rely on it, even if this one is empty or refused.
                self._transport.meet(move.description)
                move.description = None
            if move.handle is not None:
                well = self._transport.ended(move.handle)
                if well is None:
                    return False
                move.handle = None
                if not well:
                    raise EngineError(f"{self._source.engine} has not transferred all of it")
            segment = None
            if not (self._ending or move.refused):
                segment = next(move.segments, None)
            if segment is not None:
                self._enlist(move)
                move.handle = self._transport.begin(move.peer, *segment)
                return False
        except EngineError as error:
            move.problem = str(error)
        except RemoteProtocolError as error:
            move.wrong = str(error)  # kept itself, it would keep the library's frames alive
        for view in move.views[: move.enlisted]:
            self._source.delist(view)
        step = partial(self._line.moved, move)
        self._source.loop.call(partial(self._source.serve, self._endpoint, step))
        return True

    def _enlist(self, move: Move) -> None:
        while move.enlisted < len(move.views):
            self._source.enlist(move.views[move.enlisted])
            move.enlisted += 1


def _raise(error: Exception) -> None:
    raise error


class OneSidedLine:
    """The connection to one sink."""

    def __init__(self, source: OneSidedSource, endpoint: str) -> None:
        self.sock: Final = dial(endpoint)
        self.open: Final[dict[int, Posted]] = {}
        self._source: Final = source
        self._endpoint: Final = endpoint
        self._outbox: Final = bytearray()
        self._connected = False
        self._over = self._at_end = False
        self._inbox: Final = bytearray()
        self._granted: Frame | None = None  # whose description has not come
        self._peers: Final[dict[int, str]] = {}  # by region
        self._moves: Final[dict[int, Move]] = {}
        self._failed: Final[set[int]] = set()  # that the sink may still refuse
        self._has_failed = False
        self._mover: Mover | None = None

    @property
    def unsent(self) -> bool:
        return not self._connected or bool(self._outbox)

    def begin(self, posted: Posted) -> None:
        token = posted.address.token
        self._send(Frame(Kind.WRITE, posted.number, posted.offset, posted.bytes, token=token))

    def receive(self) -> None:
        """Take all that has come, and only then act on it: a sink that is gone is not met."""
        with suppress(BlockingIOError):
            while not self._at_end:
                data = self.sock.recv(1 << 16)
                self._inbox.extend(data)
                self._at_end = not data
        while self._read():
            pass
        if self._at_end:
            raise ConnectionResetError("it has closed the connection")

    def flush(self) -> None:
        """Send what there is. The first call after connecting learns how that went."""
        if not self._connected:
            if failed := self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(failed, "cannot connect")
            with suppress(OSError):
                self.sock.getpeername()
                self._connected = True
        with suppress(BlockingIOError):
            while self._connected and self._outbox:
                del self._outbox[: self.sock.send(self._outbox)]

    def ended(self) -> None:
        self._over = True
        self._moves.clear()
        if self._mover is not None:
            self._mover.end()

    def moved(self, move: Move) -> None:
        """The library has ended a write, or will not make it."""
        posted = move.posted
        if self._over:
            return
        if move.wrong:
            posted.begun = False
            raise RemoteProtocolError(move.wrong)
        if move.problem:
            self._fail(posted, move.problem)
        else:
            move.copied = True
            self._send(Frame(Kind.COPIED, posted.number))
            if move.refused:
                self._refuse(posted.number)
        self._start_anew()

    def _read(self) -> bool:
        """Take one answer out of the inbox; whether there was one."""
        if self._granted is None:
            if len(self._inbox) < FRAME_BYTES:
                return False
            frame = decode(self._inbox[:FRAME_BYTES], EXPECTED)
            del self._inbox[:FRAME_BYTES]
            if frame.kind is not Kind.GRANTED:
                self._answer(frame)
            elif frame.length > DESCRIPTION_MAX:
                raise RemoteProtocolError(f"description: {frame.length} bytes")
            else:
                self._granted = frame
            return True
        frame, length = self._granted, self._granted.length
        if self._at_end or len(self._inbox) < length:
            return False
        self._granted = description = None
        if length:
            transport = self._source.transport
            description = Description.decode(self._inbox[:length])
            del self._inbox[:length]
            check_versions(transport.engine, ours=transport.version, theirs=description.version)
            self._peers[frame.region] = description.peer
        self._grant(frame, description)
        return True

    def _grant(self, frame: Frame, description: Description | None) -> None:
        posted = self.open.get(frame.write)
        peer = self._peers.get(frame.region)
        if posted is None or posted.begun or peer is None:
            raise RemoteProtocolError(f"write {frame.write} is granted, and does not wait for that")
        posted.begun = True
        target = frame.offset + posted.offset
        move = Move(posted, peer, description, target, posted.views)
        self._moves[frame.write] = move
        if self._mover is None:
            self._mover = Mover(self, self._source, self._endpoint)
        self._mover.put(move)

    def _answer(self, frame: Frame) -> None:
        number = frame.write
        move = self._moves.get(number)
        if frame.kind is Kind.LANDED:
            if move is None or not move.copied:
                raise RemoteProtocolError(f"write {number} has landed before it was written")
            del self._moves[number]
            self._source.finish(self._source.answered(self, number), Result.LANDED)
        elif number in self._failed:
            self._failed.discard(number)
        elif move is not None and not move.copied:
            move.refused = True
        else:
            self._refuse(number)
        self._start_anew()

    def _refuse(self, number: int) -> None:
        self._moves.pop(number, None)
        posted = self._source.answered(self, number)
        self._source.finish(posted, Result.REFUSED, "the sink keeps this write out")

    def _fail(self, posted: Posted, problem: str) -> None:
        """Nobody can tell what of it lands, and so the sink is not told that it has ended."""
        reason = f"{self._endpoint}: {problem}"
        log.warning("write %d by %s to the sink at %s has failed: %s", posted.number,
                    self._source.engine, self._endpoint, problem)
        del self._moves[posted.number], self.open[posted.number]
        self._failed.add(posted.number)
        self._has_failed = True
        self._source.finish(posted, Result.ERROR, reason)

    def _start_anew(self) -> None:
        """End the connection if a write has failed and no other needs it.

        The sink counts the memory as abandoned until then; the next write makes a connection.
        """
        if self._has_failed and not self.open:
            raise ConnectionAbortedError("a write over this connection has failed")

    def _send(self, frame: Frame) -> None:
        self._outbox.extend(frame.encode())
        self.flush()
