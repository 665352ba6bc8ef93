"""The shared memory engine's sink: a writer of the same host copies straight into staging memory.

A writer can be stopped between reading a flag and its store, so a flag is no fence. Here a fence
gives up the memory itself: a late writer can change only memory that is never leased again. Memory
is leased again only when no writer is using it.

    sink:   CHALLENGE, once, with the versions that it reads
    source: WRITE                                        COPIED
    sink:          GRANTED, with the memory's file               LANDED
    sink:          REFUSED, at any point; REVOKED when the memory is given up
    source:        DROPPED, when it has unmapped that memory

The connection is a local socket without a file. Only processes of the same user are served. They
can read the data of earlier leases: memory is not cleared between leases.
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from struct import Struct
from typing import ClassVar, Final

from pdproto.engine.contract import Lease, Target
from pdproto.engine.frames import FRAME_BYTES, VERSION, Frame, Kind, challenge, decode
from pdproto.engine.leases import Held, Leases
from pdproto.engine.memory import PAGE_BYTES, Backing
from pdproto.engine.sink import CAPACITY_BYTES, FRAMES_A_TURN, Sink
from pdproto.net.hosts import is_elsewhere
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import SINK_CONNECTIONS_MAX, SINK_WRITES_MAX

ENGINE: Final = "shared-memory"
FENCED: Final = "the sink has fenced this hand-over"
CREDENTIALS: Final = Struct("3i")  # process, user, group
EXPECTED: Final = frozenset({Kind.WRITE, Kind.COPIED, Kind.DROPPED})


class SharedSink(Sink["SharedLine"]):
    """Staging memory that sources on this host map and write to. make, granule: see memory.Pool."""

    engine: ClassVar[str] = ENGINE

    def __init__(
        self,
        *,
        capacity_bytes: int = CAPACITY_BYTES,
        connections_max: int = SINK_CONNECTIONS_MAX,
        make: Callable[[int, int], Backing] | None = None,
        granule: int = PAGE_BYTES,
    ) -> None:
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
            self.loop.call(lambda: self._for_all(partial(SharedLine.stop, held=held)))

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


@dataclass(frozen=True, slots=True)
class OpenCopy:
    """A write whose bytes a source may be copying."""

    held: Held
    bytes: int


class SharedLine:
    """One source's connection. mapped: the memory that was handed out over it."""

    def __init__(self, sink: SharedSink, sock: socket.socket) -> None:
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        self.process, user, _ = CREDENTIALS.unpack(raw)
        if user != os.geteuid():
            raise PermissionError(f"process {self.process} belongs to another user, {user}")
        self.sock: Final = sock
        self.peer = f"process {self.process}"
        self.source: str | None = None
        self.outbox: deque[tuple[bytes, int | None]] = deque([(challenge().encode(), None)])
        self._sink: Final = sink
        self._leases: Final = sink.leases
        self._mapped: Final[dict[int, Backing]] = {}
        self._writes: Final[dict[int, OpenCopy]] = {}
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
                    self._begin(frame)
                elif frame.kind is Kind.COPIED:
                    self._end(frame.write)
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

    def stop(self, held: Held) -> None:
        """End the writes of a lease that is over, and ask the source to unmap its memory."""
        for number in [number for number, write in self._writes.items() if write.held is held]:
            del self._writes[number]
            self._refuse(number)
        self.revoke(held.lease.address.region)

    def part(self) -> None:
        """The sink is closed: end all writes, and ask the source to unmap all memory."""
        for number in list(self._writes):
            del self._writes[number]
            self._refuse(number)
        for region in self._mapped:
            self.revoke(region)

    def revoke(self, region: int) -> None:
        """Ask the source to unmap the region, if it has the region mapped."""
        if region in self._mapped:
            self._send(Frame(Kind.REVOKED, region=region, version=self._version))

    def ended(self) -> None:
        """The connection has ended. Its process may still copy, so its leases stay busy."""
        self._writes.clear()
        for _, file in self.outbox:
            if file is not None:
                os.close(file)
        self.unmapped()

    def unmapped(self) -> None:
        """The source has no memory mapped any more."""
        for region in list(self._mapped):
            self._drop(region)

    def _begin(self, frame: Frame) -> None:
        if frame.write <= self._numbered:
            raise RemoteProtocolError(f"write {frame.write} after write {self._numbered}")
        if len(self._writes) >= SINK_WRITES_MAX:
            raise RemoteProtocolError(f"more than {SINK_WRITES_MAX} writes at once")
        self._numbered = frame.write
        file = None
        with self._leases.lock:
            held = self._leases.redeem(frame)
            if held is not None and held.backing is not None:
                self._leases.enter(held)
                file = self._hand_out(held.backing)
        if held is None:
            self._refuse(frame.write)
            return
        self._writes[frame.write] = OpenCopy(held, frame.length)
        if self.source is None:
            self.source = held.lease.source
            self.peer = f"{self.source}, {self.peer}"
        self._send(Frame(Kind.GRANTED, frame.write, frame.offset, held.lease.length,
                         held.lease.address.region, version=self._version), file)

    def _hand_out(self, backing: Backing) -> int | None:
        """The memory's file, if it has not been handed out over this connection yet."""
        if backing.region in self._mapped:
            return None
        file = backing.handle()
        backing.holders.add(self)
        self._mapped[backing.region] = backing
        return file

    def _end(self, number: int) -> None:
        if not 0 < number <= self._numbered:
            raise RemoteProtocolError(f"write {number} is reported as copied, but has not begun")
        write = self._writes.pop(number, None)
        if write is None:
            return  # It was refused during the copy, and the source has been told.
        with self._leases.lock:
            landed = self._leases.land(write.held, write.bytes)
            self._leases.leave(write.held)
        if landed:
            self._send(Frame(Kind.LANDED, number, version=self._version))
        else:
            self._refuse(number)

    def _refuse(self, number: int) -> None:
        with self._leases.lock:
            self._leases.refused_writes += 1
        self._send(Frame(Kind.REFUSED, number, version=self._version))

    def _send(self, frame: Frame, file: int | None = None) -> None:
        self._sink.send(self, frame.encode(), file)

    def _drop(self, region: int) -> None:
        backing = self._mapped.pop(region, None)
        if backing is None:
            raise RemoteProtocolError(f"region {region} is reported as unmapped, but was not")
        with self._leases.lock:
            free = self._leases.pool.drop_holder(backing, self)
        if free:
            self._sink.wake()
