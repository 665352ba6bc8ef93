"""The common part of the sources of the built-in engines: writes in flight, and their outcomes.

Rule 1: when a connection ends, a write that had not begun is refused. A write that had begun is an
        error: its bytes may or may not arrive.
Rule 2: an engine that gathers reads no byte of a write after its outcome, because the bytes may be
        pages, which another request may own by then. A library may go on reading, so it gets a
        copy.
Rule 3: if an endpoint could not be reached, the next write tries it again.
"""

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from typing import ClassVar, Final, Protocol, cast

from pdproto.engine.contract import (
    Address,
    Buffer,
    DeviceBytes,
    EndedWrite,
    EngineBusy,
    Result,
    SourceCounts,
)
from pdproto.engine.frames import Frame, Kind, proof
from pdproto.engine.loop import READ, WRITE, Loop
from pdproto.net.hosts import family_of, place_in_kernel, split
from pdproto.runtime.errors import RemoteProtocolError

log = logging.getLogger(__name__)

BYTES_MAX: Final = 64 << 20
WRITES_MAX: Final = 1024
# A connection ends after so long a silence of its host, or when a process has read nothing for so
# long: as long as a node waits for a peer that stands still (Link.absent_s).
SILENCE_MS: Final = 60_000
TCP_RTO_MAX_MS: Final = 44  # an option of Linux 6.15 and later; Python has no name for it
AGAIN_MS: Final = 1_000  # the longest time between two transmissions, if the kernel has the option
CONNECT_TRIES: Final = 3  # the kernel waits 1, 2, 4 and 8 seconds: together 15


def dial(endpoint: str, silence_ms: int = SILENCE_MS, ours: str = "") -> socket.socket:
    """A socket that connects to "address:port" in the background. ours: see `in_zone`.

    Raises OSError with the reason.
    """
    try:
        where = split(endpoint)
        ip_address(where[0])
    except ValueError as error:
        raise OSError(f"no address and port: {error}") from None
    sock = socket.socket(family_of(where[0]), socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_ms)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, CONNECT_TRIES)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, AGAIN_MS)
        with suppress(BlockingIOError):
            sock.connect(place_in_kernel(*where, ours))
    except (OSError, OverflowError) as error:
        sock.close()
        raise OSError(str(error)) from error
    return sock


@dataclass(slots=True, eq=False)
class Posted:
    """A write in flight. begun: some of its bytes may have been sent. ended: it has its outcome."""

    number: int
    address: Address
    offset: int
    views: tuple[memoryview, ...] = field(repr=False)
    bytes: int
    carried: DeviceBytes | None = field(default=None, repr=False)
    begun: bool = False
    ended: bool = False


def opening(posted: Posted, challenge: Frame) -> bytes:
    """The WRITE frame of a write over TCP, with its proof. challenge: as `agreed` gives it."""
    frame = Frame(Kind.WRITE, posted.number, posted.offset, posted.bytes,
                  version=challenge.version)
    return replace(frame, token=proof(frame, posted.address.token, challenge.token)).encode()


def bytes_of(views: Sequence[Buffer]) -> tuple[memoryview, ...]:
    """The views as uint8 [byte], without the empty ones. TypeError if one is not contiguous."""
    # Before Python 3.12, the types do not say that numpy's arrays are buffers.
    memories = [memoryview(cast("bytes", view)) for view in views]
    return tuple(memory.cast("B") for memory in memories if memory.nbytes)


class Line(Protocol):
    """The source's end of one connection. Only the loop's thread touches it."""

    @property
    def sock(self) -> socket.socket:
        """The socket of the connection."""

    @property
    def open(self) -> dict[int, Posted]:
        """The writes that the sink has to answer, by number."""

    def begin(self, posted: Posted) -> None:
        """Begin a write, which is in `open` already. OSError ends the connection."""

    def receive(self) -> None:
        """Handle the bytes that have come. RemoteProtocolError or OSError ends the connection."""

    def flush(self) -> None:
        """Send what the socket takes. OSError ends the connection."""

    @property
    def unsent(self) -> bool:
        """Whether it waits for the socket to take more."""

    def ended(self) -> None:
        """The connection has ended: give back its resources."""


class Source:
    """A source engine; the engine's `Line` gives its connections their protocol."""

    engine: ClassVar[str]
    gathers: ClassVar[bool] = False  # a write of many views costs little more; see rule 2
    carries: ClassVar[bool] = False  # it writes bytes that lie on a device, which the device copies

    def __init__(
        self,
        *,
        line: Callable[[str], Line],
        bytes_max: int,
        writes_max: int,
        work: Callable[[], bool] = lambda: False,
    ) -> None:
        self._line: Final = line
        self._bytes_max: Final = bytes_max
        self._writes_max: Final = min(writes_max, WRITES_MAX)
        self._lines: Final[dict[str, Line]] = {}
        self._waiting: set[str] = set()  # endpoints with unsent bytes
        self._lock: Final = threading.Lock()  # guards the numbers of what is in flight
        self._numbered = self._writes = self._bytes = 0
        self._landed_writes = self._landed_bytes = self._refused_writes = self._failed_writes = 0
        self._outcomes: Final[deque[EndedWrite]] = deque()
        self._wake: Callable[[], None] = lambda: None
        self.loop: Final = Loop(f"a source engine over {self.engine}", work=work, end=self._end)
        self.loop.start()

    # The methods of contract.SourceEngine.

    def attach(self, wake: Callable[[], None]) -> None:
        """See contract.SourceEngine."""
        self._wake = wake

    def connect(self, address: Address) -> None:
        """See contract.SourceEngine."""
        self.loop.check()
        self._check(address)
        self.loop.call(lambda: self._prepare(address.endpoint))

    @property
    def has_room(self) -> bool:
        """See contract.SourceEngine."""
        return self._bytes < self._bytes_max and self._writes < self._writes_max

    def post(
        self, address: Address, offset: int, views: Sequence[Buffer],
        carried: DeviceBytes | None = None,
    ) -> int:
        """See contract.SourceEngine. Raises TypeError if this engine carries no bytes of a device.
        """
        self.loop.check()
        self._check(address)
        if carried is not None and not self.carries:
            raise TypeError(f"post: engine {self.engine!r} has no device copy bytes: pass views")
        pieces = bytes_of(views)
        length = sum(piece.nbytes for piece in pieces)
        if carried is not None:
            length += carried.nbytes
        if offset < 0 or offset + length > address.length:
            raise ValueError(f"post: {length} bytes at {offset} of a lease of {address.length}")
        with self._lock:
            if not self.has_room:
                raise EngineBusy(
                    f"{self._writes} writes of {self._bytes} bytes are in flight; the limits are"
                    f" {self._writes_max} writes and {self._bytes_max} bytes: read outcomes first"
                )
            self._numbered += 1
            self._writes += 1
            self._bytes += length
            posted = Posted(self._numbered, address, offset, pieces, length, carried)
        self.loop.call(partial(self._begin, posted))
        return posted.number

    def completed(self) -> list[EndedWrite]:
        """See contract.SourceEngine."""
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]

    def counts(self) -> SourceCounts:
        """See contract.SourceEngine."""
        with self._lock:
            return SourceCounts(
                writes=self._writes,
                bytes=self._bytes,
                landed_writes=self._landed_writes,
                landed_bytes=self._landed_bytes,
                refused_writes=self._refused_writes,
                failed_writes=self._failed_writes,
                connections=len(self._lines),
            )

    def close(self) -> None:
        """See contract.SourceEngine."""
        self.loop.close()

    # For the engines, on the loop's thread.

    def finish(self, posted: Posted, result: Result, reason: str = "") -> None:
        """End a write."""
        posted.ended = True
        posted.views = ()
        with self._lock:
            self._writes -= 1
            self._bytes -= posted.bytes
            self._landed_writes += result is Result.LANDED
            self._landed_bytes += posted.bytes if result is Result.LANDED else 0
            self._refused_writes += result is Result.REFUSED
            self._failed_writes += result is Result.ERROR
        self._outcomes.append(EndedWrite(posted.number, result, reason))
        self._wake()

    def answered(self, line: Line, number: int) -> Posted:
        """The write that the sink's answer ends. Raises RemoteProtocolError for an unknown one."""
        posted = line.open.pop(number, None)
        if posted is None:
            raise RemoteProtocolError(f"write {number} is answered, but not under way")
        return posted

    def serve(self, endpoint: str, step: Callable[[], None]) -> None:
        """Call this for a connection, and end the connection if it fails because of the peer."""
        line = self._lines.get(endpoint)
        if line is None:
            return
        try:
            step()
            unsent = line.unsent
            if unsent != (endpoint in self._waiting):
                self._waiting ^= {endpoint}
                self._watch(endpoint, line, READ | WRITE if unsent else READ)
        except RemoteProtocolError as error:
            log.warning("leaving the sink at %s: %s", endpoint, error)
            self._hang_up(endpoint, line, str(error))
        except OSError as error:
            self._hang_up(endpoint, line, str(error))

    def _check(self, address: Address) -> None:
        if address.engine != self.engine:
            raise ValueError(f"an address of engine {address.engine!r}: this engine is "
                             f"{self.engine!r}")

    def _prepare(self, endpoint: str) -> None:
        try:
            self._connect(endpoint)
        except OSError as error:
            log.info("no connection to %s yet: %s", endpoint, error)

    def _connect(self, endpoint: str) -> Line:
        line = self._lines.get(endpoint)
        if line is None:
            line = self._line(endpoint)
            self._lines[endpoint] = line
            self._watch(endpoint, line, READ)
            self.serve(endpoint, line.flush)
            if endpoint not in self._lines:
                raise ConnectionError("the connection has ended at once")
        return line

    def _watch(self, endpoint: str, line: Line, events: int) -> None:
        def ready(which: int) -> None:
            if which & READ:
                self.serve(endpoint, line.receive)
            if which & WRITE and self._lines.get(endpoint) is line:
                self.serve(endpoint, line.flush)

        self.loop.watch(line.sock, events, ready)

    def _begin(self, posted: Posted) -> None:
        endpoint = posted.address.endpoint
        try:
            line = self._connect(endpoint)
        except OSError as error:
            self.finish(posted, Result.REFUSED, f"{endpoint}: {error}")
            return
        line.open[posted.number] = posted
        self.serve(endpoint, partial(line.begin, posted))

    def _hang_up(self, endpoint: str, line: Line, reason: str) -> None:
        del self._lines[endpoint]
        self._waiting.discard(endpoint)
        self.loop.forget(line.sock)
        line.sock.close()
        line.ended()
        for posted in line.open.values():
            if posted.ended:
                continue  # its device has failed
            result = Result.ERROR if posted.begun else Result.REFUSED
            self.finish(posted, result, f"{endpoint}: {reason}")
        line.open.clear()

    def _end(self) -> None:
        for line in self._lines.values():
            line.sock.close()
            line.ended()
        self._lines.clear()
