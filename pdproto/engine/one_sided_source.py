"""The source of an engine whose library writes by address: it asks the sink, and then writes.

A library's calls may wait for a peer, or copy. So each connection has a thread for them. The thread
polls the library for the status of transfers, and sleeps in between: a spinning thread would take
processor time from the threads that move the bytes.

Rule 1: a write that has begun gets its outcome when the library has ended it, even if it was
        refused meanwhile. If its connection ends, its outcome is an error at once, although the
        library may go on.
Rule 2: memory that the library reads is kept until the library has ended, or is closed.
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
from typing import Any, Final

from pdproto.engine.contract import EngineError, Extent, Result
from pdproto.engine.frames import FRAME_BYTES, VERSION, Frame, Kind, agreed, decode
from pdproto.engine.one_sided import Description, Transport, address_of, check_versions, complete
from pdproto.engine.source import BYTES_MAX, WRITES_MAX, Posted, Source, dial, opening
from pdproto.net import threads
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import DESCRIPTION_MAX

log = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 4 << 20  # in one transfer; a refusal stops a write after it
GPU_SEGMENT_BYTES: Final = 64 << 20  # from memory of a GPU: 0.1 ms within it, 1.3 ms at 50 GB/s
MOVES_MAX: Final = 16  # writes of one connection that the library executes at a time
PAUSE_SECONDS: Final = 50e-6  # between two polls of the library
FIRST: Final = frozenset({Kind.CHALLENGE})
EXPECTED: Final = frozenset({Kind.GRANTED, Kind.LANDED, Kind.REFUSED})


class OneSidedSource(Source):
    """Writes to sinks by means of a library.

    transport: the library; it is closed with the source. bytes_max, writes_max: the limits of what
    is in flight; beyond them `post` raises EngineBusy. The last write may exceed bytes_max.
    """

    def __init__(
        self, transport: Transport, *, bytes_max: int = BYTES_MAX, writes_max: int = WRITES_MAX
    ) -> None:
        self.transport: Final = complete(transport)
        self.movers: Final[set[Mover]] = set()
        self._readable: Final[dict[Extent, int]] = {}  # number of writes, by memory
        self._reading: Final = threading.Lock()
        self._closed = False
        super().__init__(
            line=lambda endpoint: OneSidedLine(self, endpoint),
            bytes_max=bytes_max,
            writes_max=writes_max,
        )

    def close(self) -> None:
        """See contract.SourceEngine."""
        if self._closed:
            return
        self._closed = True
        super().close()
        left = [mover.leave() for mover in list(self.movers)]
        self.transport.close()
        for moves in left:  # Until now, the library may have read the memory of these writes.
            moves.clear()

    def register(self, memory: Extent) -> None:
        """Let the library read this memory."""
        with self._reading:
            readers = self._readable.get(memory, 0)
            if not readers:
                self.transport.register(memory)
            self._readable[memory] = readers + 1

    def unregister(self, memory: Extent) -> None:
        """Note that one write less reads this memory."""
        with self._reading:
            self._readable[memory] -= 1
            if not self._readable[memory]:
                del self._readable[memory]
                self.transport.unregister(memory.address)


@dataclass(slots=True, eq=False)
class Move:
    """A granted write.

    description: of the sink's memory, if the library does not know it yet. target: an address in
    the sink's process. extents: where the bytes are. views: of those in host memory. segments:
    source and target of the transfers that have not begun. registered: so many of the extents are.
    refused: why no other transfer may begin; empty if one may. problem: why the write has failed.
    wrong: the part of the sink's description that the library rejects.
    """

    posted: Posted
    peer: str
    description: Description | None
    target: int
    views: tuple[memoryview, ...] = field(repr=False)
    extents: tuple[Extent, ...] = field(init=False)
    segments: Iterator[tuple[Extent, int]] = field(init=False, repr=False)
    registered: int = 0
    handle: Any = None
    refused: str = ""
    copied: bool = False
    problem: str = ""
    wrong: str = ""

    def __post_init__(self) -> None:
        carried = self.posted.carried
        self.extents = (*(Extent(address_of(view), view.nbytes) for view in self.views),
                        *(() if carried is None else carried.extents))
        self.segments = cut(self.extents, self.target)


def cut(extents: tuple[Extent, ...], target: int) -> Iterator[tuple[Extent, int]]:
    """Source and target of each transfer of a write."""
    for address, nbytes, gpu in extents:
        most = SEGMENT_BYTES if gpu is None else GPU_SEGMENT_BYTES
        for start in range(0, nbytes, most):
            yield Extent(address + start, min(most, nbytes - start), gpu), target + start
        target += nbytes


class Mover:
    """The thread that makes the library execute the writes of one connection."""

    def __init__(self, line: "OneSidedLine", source: OneSidedSource, endpoint: str) -> None:
        self._line: Final = line
        self._source: Final = source
        self._transport: Final = source.transport
        self._endpoint: Final = endpoint
        self._queue: Final[SimpleQueue[Move | None]] = SimpleQueue()
        self._ending = self._leaving = False
        self._moving: list[Move] = []
        self._thread: Final = threads.ServiceThread(
            self._run, f"{source.engine} to {endpoint}")
        self._thread.start()
        source.movers.add(self)

    def put(self, move: Move) -> None:
        """Queue a write."""
        self._queue.put(move)

    def end(self) -> None:
        """Begin no other transfer, and end when the library has ended those under way."""
        self._ending = True
        self._queue.put(None)

    def leave(self) -> list[Move]:
        """End now. Returns the writes that the library may still execute."""
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
        except BaseException as error:  # see Rule 4 of net/threads.py
            # A defect of ours, or undocumented behaviour of the library: it ends the engine.
            self._source.loop.call(partial(_raise, error))
        self._source.movers.discard(self)

    def _take(self) -> bool:
        """Take queued writes; wait for one if none is under way. Returns False at the end."""
        while not self._ending and len(self._moving) < MOVES_MAX:
            if self._moving and self._queue.empty():
                break
            move = self._queue.get()
            if move is not None:
                self._moving.append(move)
        return not self._ending or (bool(self._moving) and not self._leaving)

    def _step(self, move: Move) -> bool:
        """Begin the next transfer of a write if the last has ended. Returns whether the write is
        over.
        """
        try:
            if move.description is not None:
                # Later writes to the same piece need it, even if this one is empty or refused.
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
                self._register(move)
                move.handle = self._transport.begin(move.peer, *segment)
                return False
        except EngineError as error:
            move.problem = str(error)
        except RemoteProtocolError as error:
            move.wrong = str(error)  # the exception itself would keep the library's frames alive
        for memory in move.extents[: move.registered]:
            self._source.unregister(memory)
        step = partial(self._line.moved, move)
        self._source.loop.call(partial(self._source.serve, self._endpoint, step))
        return True

    def _register(self, move: Move) -> None:
        while move.registered < len(move.extents):
            self._source.register(move.extents[move.registered])
            move.registered += 1


def _raise(error: BaseException) -> None:
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
        self._challenge: Frame | None = None  # until it has come, no write begins
        self._version = VERSION
        self._early: list[Posted] = []
        self._over = self._at_end = False
        self._inbox: Final = bytearray()
        self._granted: Frame | None = None  # its description has not come yet
        self._peers: Final[dict[int, str]] = {}  # by region
        self._moves: Final[dict[int, Move]] = {}
        self._failed: Final[set[int]] = set()  # writes that the sink may still refuse
        self._has_failed = False
        self._mover: Mover | None = None

    @property
    def unsent(self) -> bool:
        """See source.Line."""
        return not self._connected or bool(self._outbox)

    def begin(self, posted: Posted) -> None:
        """See source.Line."""
        if self._challenge is not None:
            self._send(opening(posted, self._challenge))
        else:
            self._early.append(posted)

    def receive(self) -> None:
        """See source.Line. It reads all bytes first, so that it does not meet a sink that is gone.
        """
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
        """See source.Line. The first call finds out whether connecting has succeeded."""
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
        """See source.Line."""
        self._over = True
        self._moves.clear()
        if self._mover is not None:
            self._mover.end()

    def moved(self, move: Move) -> None:
        """Note that the library has ended a write, or does not execute it."""
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
            self._send(Frame(Kind.COPIED, posted.number, version=self._version).encode())
            if move.refused:
                self._refuse(posted.number, move.refused)
        self._reconnect()

    def _read(self) -> bool:
        """Take one answer out of the inbox. Returns whether there was one."""
        if self._granted is None:
            if len(self._inbox) < FRAME_BYTES:
                return False
            frame = decode(self._inbox[:FRAME_BYTES],
                           EXPECTED if self._challenge is not None else FIRST)
            del self._inbox[:FRAME_BYTES]
            if frame.kind is Kind.CHALLENGE:
                self._challenge = agreed(frame)
                self._version = self._challenge.version
                early, self._early = self._early, []
                for posted in early:
                    self.begin(posted)
            elif frame.kind is not Kind.GRANTED:
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
            raise RemoteProtocolError(f"write {frame.write} is granted, but does not wait for it")
        posted.begun = True
        move = Move(posted, peer, description, frame.offset + posted.offset, posted.views)
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
            move.refused = frame.why
        else:
            self._refuse(number, frame.why)
        self._reconnect()

    def _refuse(self, number: int, why: str) -> None:
        self._moves.pop(number, None)
        posted = self._source.answered(self, number)
        self._source.finish(posted, Result.REFUSED, why)

    def _fail(self, posted: Posted, problem: str) -> None:
        """End a write with an error. Its bytes may still land, so the sink is not told of its end.
        """
        reason = f"{self._endpoint}: {problem}"
        log.warning("write %d by %s to the sink at %s has failed: %s", posted.number,
                    self._source.engine, self._endpoint, problem)
        del self._moves[posted.number], self.open[posted.number]
        self._failed.add(posted.number)
        self._has_failed = True
        self._source.finish(posted, Result.ERROR, reason)

    def _reconnect(self) -> None:
        """End the connection if a write has failed and no other write needs it.

        Until then the sink counts the memory as abandoned. The next write opens a new connection.
        """
        if self._has_failed and not self.open:
            raise ConnectionAbortedError("a write over this connection has failed")

    def _send(self, frame: bytes) -> None:
        self._outbox.extend(frame)
        self.flush()
