"""The common part of the sinks of the built-in engines: leases, a thread, and connections.

Rule 1: a connection is dropped only for malformed bytes. The log names its peer.
Rule 2: a connection is named after the source of the lease whose token it shows first. If there
        are too many connections, one that has shown no token is closed first.
"""

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Hashable
from time import sleep
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from pdproto.engine.contract import (
    Departed,
    EngineError,
    Lease,
    Pin,
    Scope,
    SinkCounts,
    Target,
    Ticket,
)
from pdproto.engine.leases import Held, Leases
from pdproto.engine.loop import READ, WRITE, Loop
from pdproto.net.hosts import is_elsewhere, is_loopback, route_to, split
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import UNREAD_ANSWERS_MAX
from pdproto.runtime.repeats import Repeats

log = logging.getLogger(__name__)

CAPACITY_BYTES: Final = 4 << 30
FRAMES_A_TURN: Final = 256  # of one connection, before the others are served: about 6 ms
DEPARTED_MAX: Final = 65_536  # unread departures; beyond them the oldest are forgotten
OUT_OF_FILES_SECONDS: Final = 0.05  # between two attempts to accept a peer


class Line(Protocol):
    """The sink's end of one connection. Only the loop's thread touches it."""

    peer: str
    source: str | None
    outbox: deque[tuple[bytes, int | None]]  # frames, each with a file to send along or None

    @property
    def sock(self) -> socket.socket:
        """The socket of the connection."""

    def receive(self) -> None:
        """Handle the bytes that have come. RemoteProtocolError or OSError ends the connection."""

    def flush(self) -> None:
        """Send what the socket takes. OSError ends the connection."""

    def ended(self) -> None:
        """Forget the writes of a connection that has ended."""


AnyLine = TypeVar("AnyLine", bound=Line)


class Sink(Generic[AnyLine]):
    """A sink engine; the engine's `Line` gives its connections their protocol."""

    scope: Final = Scope.PAGE
    target_scope: ClassVar[Scope] = Scope.NONE
    lines_stay: ClassVar[bool] = False  # connections, after the end: until `_stays` ends them

    def __init__(
        self,
        *,
        leases: Leases,
        listener: socket.socket,
        line: Callable[[socket.socket], AnyLine],
        connections_max: int,
    ) -> None:
        self.leases: Final = leases
        self._listener: Final = listener
        self._line: Final = line
        self._connections_max: Final = connections_max
        self._lines: Final[dict[AnyLine, None]] = {}
        self._waiting: set[AnyLine] = set()  # connections with unsent frames
        self._departed: Final[deque[Departed]] = deque(maxlen=DEPARTED_MAX)
        self._dropped_peers = 0
        self._repeats: Final = Repeats()
        self._wake: Callable[[], None] = lambda: None
        self.loop: Final = Loop(
            f"the sink engine at {leases.endpoint}", work=lambda: False, end=self._end,
            stays=self._stays,
        )
        self.loop.watch(listener, READ, self._accept)
        self.loop.start()

    # The methods of contract.SinkEngine.

    def out_of_reach(self, host: str) -> str | None:
        """See contract.SinkEngine."""
        here, _ = split(self.leases.endpoint)
        if not is_loopback(here) or not is_elsewhere(host):
            return None
        return (f"the engine listens on {here}, which a source at {host} cannot call: start it on "
                f"{route_to(host)}")

    def attach(self, wake: Callable[[], None]) -> None:
        """See contract.SinkEngine."""
        self._wake = wake

    def lease(
        self, life: Hashable, source: str, length: int, target: Target | None = None
    ) -> Lease | None:
        """See contract.SinkEngine."""
        self.loop.check()
        if target is not None and self.target_scope is not Scope.PAGE:
            raise EngineError(
                f"lease: this engine cannot keep a writer out of memory that is not its own;"
                f" its fence there has the scope {self.target_scope.value!r}"
            )
        return self.leases.grant(life, source, length, target)

    def view(self, lease: Lease) -> Any:
        """See contract.SinkEngine."""
        self.loop.check()
        return self.leases.view(lease)

    def pin(self, lease: Lease, pin: Pin) -> None:
        """See contract.PinsMemory."""
        self.leases.pin(lease, pin)

    def fence(self, lease: Lease) -> Ticket:
        """See contract.SinkEngine."""
        self.loop.check()
        ticket, held = self.leases.fence(lease)
        if held is not None:
            self._over(held)
            if self.leases.fenced(ticket):
                self.wake()
        return ticket

    def fenced(self, ticket: Ticket) -> bool:
        """See contract.SinkEngine."""
        return self.leases.fenced(ticket)

    def release(self, lease: Lease) -> None:
        """See contract.SinkEngine."""
        self.loop.check()
        held = self.leases.release(lease)
        if held is not None:
            self._over(held)

    def departed(self) -> list[Departed]:
        """See contract.SinkEngine."""
        return [self._departed.popleft() for _ in range(len(self._departed))]

    def counts(self) -> SinkCounts:
        """See contract.SinkEngine."""
        return self.leases.counts(len(self._lines), self._dropped_peers)

    def close(self) -> None:
        """See contract.SinkEngine."""
        self.loop.close()

    # For the engines.

    def wake(self) -> None:
        """Wake the caller of the engine. For any thread."""
        self._wake()

    @property
    def lines(self) -> tuple[AnyLine, ...]:
        """The open connections."""
        return tuple(self._lines)

    def send(self, line: AnyLine, frame: bytes, file: int | None = None) -> None:
        """Send a frame, in order, as soon as the socket accepts it. On the loop's thread.

        file: is sent along, and closed.
        """
        if len(line.outbox) >= UNREAD_ANSWERS_MAX:
            if file is not None:
                os.close(file)
            raise RemoteProtocolError(f"it has left {UNREAD_ANSWERS_MAX} answers unread")
        line.outbox.append((frame, file))
        if line not in self._waiting:
            self._flush(line)

    def serve(self, line: AnyLine, step: Callable[[], None]) -> None:
        """Call this for a connection, and end the connection if it fails because of the peer."""
        try:
            step()
        except RemoteProtocolError as error:
            self._note_dropped(str(line.peer), str(error))
            self._hang_up(line, str(error))
        except OSError as error:
            self._hang_up(line, str(error))

    def _note_dropped(self, peer: str, why: str) -> None:
        self._dropped_peers += 1
        if count := self._repeats.told(why):
            log.warning("%s: dropping %s: %s (%d so far)", self.leases.endpoint, peer, why, count)

    def note_spent(self, purpose: str, error: OSError) -> None:
        """Log that the system has refused a file for this purpose."""
        if count := self._repeats.told(f"{purpose} {error}"):
            log.warning("%s: cannot %s: %s (%d so far)", self.leases.endpoint, purpose, error,
                        count)

    def _over(self, held: Held) -> None:
        """React to the end of a lease by fence or release. Writes of it may be under way."""

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # The peer has disconnected already.
        except OSError as error:
            self.note_spent("accept a peer", error)
            self._make_room()
            sleep(OUT_OF_FILES_SECONDS)
            return
        sock.setblocking(False)
        if len(self._lines) >= self._connections_max:
            self._make_room()
        if len(self._lines) >= self._connections_max:
            self._note_dropped("a peer", f"more than {self._connections_max} connections")
            sock.close()
            return
        try:
            line = self._line(sock)
        except OSError as error:
            self._note_dropped("a peer", str(error))
            sock.close()
            return
        self._lines[line] = None
        self.loop.watch(sock, READ, lambda events: self._serve(line, events))
        if line.outbox:
            self.serve(line, lambda: self._flush(line))

    def _make_room(self) -> None:
        """End the oldest connection that has shown no token."""
        for line in self._lines:
            if line.source is None:
                why = "it has shown no token, and other peers want to connect"
                self._note_dropped(str(line.peer), why)
                self._hang_up(line, why)
                return

    def _serve(self, line: AnyLine, events: int) -> None:
        if events & READ and line in self._lines:
            self.serve(line, line.receive)
        if events & WRITE and line in self._lines:
            self.serve(line, lambda: self._flush(line))

    def _flush(self, line: AnyLine) -> None:
        line.flush()
        if bool(line.outbox) != (line in self._waiting):
            self._waiting ^= {line}
            events = READ | WRITE if line.outbox else READ
            self.loop.watch(line.sock, events, lambda ready: self._serve(line, ready))

    def _hang_up(self, line: AnyLine, reason: str) -> None:
        self._waiting.discard(line)
        self.loop.forget(line.sock)
        line.sock.close()
        line.ended()
        if line.source is not None:
            self._departed.append(Departed(line.source, reason))
        del self._lines[line]  # last, so that `departed` names it before `counts` changes
        if line.source is not None:
            self.wake()

    def _end(self) -> None:
        """Take no more peers, and give back all memory."""
        self._wake = lambda: None
        self.loop.forget(self._listener)
        self._listener.close()
        if not self.lines_stay:
            for line in self._lines:
                line.sock.close()
                line.ended()
            self._lines.clear()
        self.leases.close()

    def _stays(self) -> bool:
        """See Loop."""
        return False
