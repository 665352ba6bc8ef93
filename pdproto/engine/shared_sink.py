"""The shared memory engine's sink: a writer of the same host copies straight into staging memory.

A writer can be stopped between reading a flag and its store, so a flag alone is no fence. Here a
fence withdraws the grant, and gives up the memory itself if a writer may go on: a late writer can
change only memory that is never leased again. Both are words that the ends share (board.py), so no
message is about a write: a source that has the memory mapped copies, and knows that it has landed.

    sink:   CHALLENGE, once, with the versions that it reads, and the file of the board
    source: WRITE, if it has not mapped the memory of this lease
    sink:          GRANTED, with the memory's file, or REFUSED; REVOKED when the memory is given up
    source:        DROPPED, when it has unmapped that memory

The connection is a local socket without a file. Only processes of the same user are served. They
can read the data of earlier leases: memory is not cleared between leases.
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from secrets import token_hex
from struct import Struct
from typing import ClassVar, Final

from pdproto.engine.board import (
    LANDED_BYTES,
    LANDED_WRITES,
    NOTHING,
    REFUSED_WRITES,
    Board,
    Spot,
    barrier,
    new_board,
)
from pdproto.engine.contract import Lease, SinkCounts, Target
from pdproto.engine.frames import FRAME_BYTES, VERSION, Frame, Kind, Why, challenge, decode
from pdproto.engine.leases import Held, Leases
from pdproto.engine.memory import PAGE_BYTES, Backing, require_shared
from pdproto.engine.sink import CAPACITY_BYTES, FRAMES_A_TURN, Sink
from pdproto.net.hosts import is_elsewhere
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import REGIONS_MAX, SINK_CONNECTIONS_MAX

ENGINE: Final = "shared-memory"
CREDENTIALS: Final = Struct("3i")  # process, user, group
EXPECTED: Final = frozenset({Kind.WRITE, Kind.DROPPED})


class SharedSink(Sink["SharedLine"]):
    """Staging memory that sources on this host map and write to. make, granule: see memory.Pool.

    Raises OSError where the host refuses `membarrier`, or memory that processes share.
    """

    engine: ClassVar[str] = ENGINE

    def __init__(
        self,
        *,
        capacity_bytes: int = CAPACITY_BYTES,
        connections_max: int = SINK_CONNECTIONS_MAX,
        make: Callable[[int, int], Backing] | None = None,
        granule: int = PAGE_BYTES,
    ) -> None:
        barrier()  # a host that refuses it has no shared memory
        require_shared()
        self.boards: Final[set[Board]] = set()  # of open connections; the lock of the leases
        endpoint = f"@pdproto-{token_hex(16)}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("\0" + endpoint[1:])
        listener.listen(128)
        listener.setblocking(False)
        super().__init__(
            leases=Leases(
                engine=self.engine, endpoint=endpoint, capacity_bytes=capacity_bytes,
                abandons=True, make=make, granule=granule,
            ),
            listener=listener,
            line=self.line,
            connections_max=connections_max,
        )

    def lease(
        self, life: Hashable, source: str, length: int, target: Target | None = None
    ) -> Lease | None:
        """See contract.SinkEngine. It also has evicted memory unmapped."""
        lease = super().lease(life, source, length, target)
        if self.leases.pool.retired:
            self.loop.call(self._retire)
        return lease

    def counts(self) -> SinkCounts:
        """See contract.SinkEngine. Writes are counted by their sources."""
        counts = super().counts()
        with self.leases.lock:
            landed, nbytes, refused = (sum(board.words[what] for board in self.boards) for what in
                                       (LANDED_WRITES, LANDED_BYTES, REFUSED_WRITES))
        return replace(counts, landed_writes=counts.landed_writes + landed,
                       landed_bytes=counts.landed_bytes + nbytes,
                       refused_writes=counts.refused_writes + refused)

    def forget_board(self, board: Board) -> None:
        """Keep the counts of a connection that has ended. The caller has the lock of the leases."""
        self.boards.remove(board)
        self.leases.landed_writes += board.words[LANDED_WRITES]
        self.leases.landed_bytes += board.words[LANDED_BYTES]
        self.leases.refused_writes += board.words[REFUSED_WRITES]

    def out_of_reach(self, host: str) -> str | None:
        """See contract.SinkEngine: any address of this host is in reach."""
        if not is_elsewhere(host):
            return None
        return (f"shared memory works only within this host, and the source is at {host}: open "
                f"both sides with another engine (tcp, mooncake, nixl)")

    def line(self, sock: socket.socket) -> "SharedLine":
        """The connection of a source. Raises OSError to refuse it."""
        return SharedLine(self, sock)

    def _over(self, held: Held) -> None:
        """Tell writers of memory that was given up to stop and to unmap it."""
        if held.backing is None:
            self.loop.call(lambda: self._for_all(
                partial(SharedLine.revoke, region=held.lease.address.region)))

    def _retire(self) -> None:
        """Ask sources to unmap evicted memory, because a lease of another size needs the space."""
        with self.leases.lock:
            retired = self.leases.pool.retired.copy()
            self.leases.pool.retired.clear()
        for backing in retired:
            self._for_all(partial(SharedLine.revoke, region=backing.region))

    def _for_all(self, step: Callable[["SharedLine"], None]) -> None:
        for line in self.lines:
            self.serve(line, partial(step, line))


class SharedLine:
    """One source's connection. mapped: the memory that was handed out over it."""

    def __init__(self, sink: SharedSink, sock: socket.socket) -> None:
        self.process, user, _ = peer_of(sock)
        if user != os.geteuid():
            raise PermissionError(f"process {self.process} belongs to another user, {user}")
        self.sock: Final = sock
        self.peer = f"process {self.process}"
        self.source: str | None = None
        self._board, file = new_board()
        self.outbox: deque[tuple[bytes, int | None]] = deque([(challenge().encode(), file)])
        self._sink: Final = sink
        self._leases: Final = sink.leases
        self._mapped: Final[dict[int, tuple[Backing, Spot]]] = {}
        self._free: Final[list[int]] = []  # numbers of spots that are used no more
        self._spots = 0  # that have been used
        with sink.leases.lock:
            sink.boards.add(self._board)
        self._numbered = 0
        self._version = VERSION  # of the source's frames; answers have it too

    @property
    def has_memory(self) -> bool:
        """Whether the source has, or will have, memory mapped."""
        return bool(self._mapped)

    def receive(self) -> None:
        """See sink.Line. It reads at most `FRAMES_A_TURN`."""
        with suppress(BlockingIOError):
            for _ in range(FRAMES_A_TURN):
                packet = self.sock.recv(FRAME_BYTES + 1)
                if not packet:
                    raise ConnectionResetError("it has closed the connection")
                frame = decode(packet, EXPECTED)
                self._version = frame.version
                if frame.kind is Kind.WRITE:
                    self._grant(frame)
                else:
                    self._drop(frame.region)

    def flush(self) -> None:
        """See sink.Line."""
        with suppress(BlockingIOError):
            while self.outbox:
                frame, file = self.outbox[0]
                if file is None:
                    self.sock.send(frame)
                else:
                    socket.send_fds(self.sock, [frame], [file])
                    os.close(file)
                self.outbox.popleft()

    def part(self) -> None:
        """The sink is closed: ask the source to unmap all memory."""
        for region in self._mapped:
            self.revoke(region)

    def revoke(self, region: int) -> None:
        """Ask the source to unmap the region, if it has the region mapped."""
        if region in self._mapped:
            self._send(Frame(Kind.REVOKED, region=region, version=self._version))

    def ended(self) -> None:
        """The connection has ended. Its process begins no other write, and may still end one."""
        for _, file in self.outbox:
            if file is not None:
                os.close(file)
        for _, spot in self._mapped.values():
            spot.grant(NOTHING)
        barrier()
        with self._leases.lock:
            for backing, spot in self._mapped.values():
                backing.is_left |= spot.has_writer
                backing.holders[self] = None
            self._sink.forget_board(self._board)
        self.unmapped()
        self._board.close()

    def unmapped(self) -> None:
        """The source has no memory mapped any more."""
        for region in list(self._mapped):
            self._drop(region)

    def _grant(self, frame: Frame) -> None:
        """Hand the memory of a lease out."""
        if frame.write <= self._numbered:
            raise RemoteProtocolError(f"write {frame.write} after write {self._numbered}")
        self._numbered = frame.write
        with self._leases.lock:
            held = self._leases.redeem(frame)
            backing = held.backing if isinstance(held, Held) else None
            file = None if backing is None else self._hand_out(backing)
            spot = None if backing is None else self._mapped.get(backing.region)
        if not isinstance(held, Held) or backing is None:
            self._refuse(frame.write, held.why if isinstance(held, Held) else held)
            return
        if spot is None:
            self._refuse(frame.write, Why.TOO_MANY if len(self._mapped) >= REGIONS_MAX
                         else Why.NO_FILE)
            return
        if self.source is None:
            self.source = held.lease.source
            self.peer = f"{self.source}, {self.peer}"
        self._send(Frame(Kind.GRANTED, frame.write, spot[1].number, held.lease.length,
                         backing.region, version=self._version), file)

    def _hand_out(self, backing: Backing) -> int | None:
        """The memory's file, if it has not been handed out over this connection yet, and the source
        has less mapped than it may have.
        """
        if backing.region in self._mapped or len(self._mapped) >= REGIONS_MAX:
            return None
        try:
            file = backing.handle()
        except OSError as error:  # this write is refused, and the others of the connection go on
            self._sink.note_spent("hand out staging memory", error)
            return None
        if not self._free:
            self._free.append(self._spots)
            self._spots += 1
        spot = Spot(self._board, self._free.pop())
        backing.hand_out(self, spot)
        self._mapped[backing.region] = backing, spot
        return file

    def _refuse(self, number: int, why: Why) -> None:
        with self._leases.lock:
            self._leases.refused_writes += 1
        self._send(Frame(Kind.REFUSED, number, length=why, version=self._version))

    def _send(self, frame: Frame, file: int | None = None) -> None:
        self._sink.send(self, frame.encode(), file)

    def _drop(self, region: int) -> None:
        if region not in self._mapped:
            raise RemoteProtocolError(f"region {region} is reported as unmapped, but was not")
        backing, spot = self._mapped.pop(region)
        self._free.append(spot.number)
        with self._leases.lock:
            free = self._leases.pool.drop_holder(backing, self)
        if free:
            self._sink.wake()


def peer_of(sock: socket.socket) -> tuple[int, int, int]:
    """The process, user and group at the other end of a local socket. process: 0 in a PID namespace
    of which this one sees none.
    """
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    process, user, group = CREDENTIALS.unpack(raw)
    return process, user, group
