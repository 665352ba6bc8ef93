"""The leases of one sink engine, and the fences on them.

Rule 1: a write begins and ends under the lock that a fence takes. So it is either completely before
        the fence, or it is refused.
Rule 2: memory is *busy* while a writer may write to it. Over TCP the writer is our own thread,
        during one receive. In shared memory it is another process, and the board of its connection
        says whether it writes (board.py). With a library it is another process, until that reports
        the end of its write.
Rule 3: a fence is done when the lease's memory is not busy. An engine that *abandons* gives up busy
        memory, so its fences are done at once.
"""

import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pdproto.engine.board import word_of
from pdproto.engine.contract import Address, EngineError, Lease, Pin, SinkCounts, Target, Ticket
from pdproto.engine.frames import Frame, Mint, Why
from pdproto.engine.memory import PAGE_BYTES, Backing, Pool, View
from pdproto.runtime.errors import RemoteProtocolError

NO_REGION: Final = 0  # the region of a target: no piece of staging memory has this number


@dataclass(slots=True, eq=False)
class Held:
    """A lease that has not ended.

    backing: its staging memory; None if that was given up, and for a target. busy: how many writers
    may be writing.
    """

    lease: Lease
    backing: Backing | None
    view: View = field(repr=False)
    target: Target | None = None
    busy: int = 0
    fenced: bool = False
    released: bool = False

    @property
    def why(self) -> Why:
        """Why no write may go to it any more."""
        return Why.FENCED if self.fenced else Why.OVER

    def places(self, offset: int, length: int) -> Iterable[memoryview]:
        """The memory for the bytes of a write; see contract.Target. The caller has the lock."""
        if self.target is not None:
            return self.target.places(offset, length)
        return (self.view[offset : offset + length],)


class Leases:
    """All leases of one engine. Every method takes the lock, unless it says that the caller has it.

    abandons: whether a fence gives up busy memory (rule 3). make, granule: see memory.Pool.
    """

    def __init__(
        self,
        *,
        engine: str,
        endpoint: str,
        capacity_bytes: int,
        abandons: bool,
        make: Callable[[int, int], Backing] | None = None,
        granule: int = PAGE_BYTES,
    ) -> None:
        self.pool: Final = Pool(capacity_bytes, shared=abandons, make=make, granule=granule)
        self.target_bytes = 0
        self.lock: Final = threading.Lock()
        self.landed_writes = self.landed_bytes = self.refused_writes = 0
        self.endpoint: Final = endpoint
        self._engine: Final = engine
        self._abandons: Final = abandons
        self._mint: Final = Mint()
        self._held: Final[dict[int, Held]] = {}
        self._granted = 0
        self._fences = 0

    def grant(
        self, life: Hashable, source: str, length: int, target: Target | None = None
    ) -> Lease | None:
        """See contract.SinkEngine.lease. Raises ValueError for a negative length."""
        if length < 0:
            raise ValueError(f"lease: want 0 bytes or more, got {length}")
        with self.lock:
            backing, region = None, NO_REGION
            view: View = memoryview(b"")
            if target is None:
                backing = self.pool.take(length)
                if backing is None:
                    return None
                region, view = backing.region, backing.view(length)
            else:
                self.target_bytes += length
            self._granted += 1
            number = self._granted
            address = Address(
                self._engine, self.endpoint, region, 0, length, self._mint.token(number)
            )
            if backing is not None:
                backing.grant(word_of(address.token))
            lease = Lease(number, life, source, length, address)
            self._held[number] = Held(lease, backing, view, target)
            return lease

    def view(self, lease: Lease) -> Any:
        """See contract.SinkEngine.view."""
        with self.lock:
            held = self._held.get(lease.number)
            if held is None or held.fenced or held.released:
                raise EngineError(f"lease {lease.number} of {lease.life} is fenced or released")
            if held.target is not None:
                raise EngineError(f"lease {lease.number} of {lease.life} is on the caller's memory:"
                                  f" read that memory itself")
            return held.view.toreadonly()

    def pin(self, lease: Lease, pin: Pin) -> None:
        """See contract.PinsMemory. It does not take the lock while the device pins."""
        with self.lock:
            held = self._held.get(lease.number)
            backing = held.backing if held is not None else None
        if backing is None:
            return  # fenced, or the caller's memory
        try:
            backing.pin(pin)
        except OSError as error:
            raise EngineError(f"staging memory of {backing.bytes} bytes: {error}") from error

    def fence(self, lease: Lease) -> tuple[Ticket, Held | None]:
        """Fence the lease. Returns the ticket, and the lease if it was not fenced before."""
        ticket = Ticket(lease.number)
        with self.lock:
            held = self._held.get(lease.number)
            if held is None or held.fenced or held.released:
                return ticket, None
            held.fenced = True
            self._fences += 1
            self._withdraw(held)
            return ticket, held

    def fenced(self, ticket: Ticket) -> bool:
        """See contract.SinkEngine.fenced."""
        with self.lock:
            held = self._held.get(ticket.lease)
            return held is None or (held.fenced and not held.busy)

    def release(self, lease: Lease) -> Held | None:
        """End the lease, and return it if it had not ended."""
        with self.lock:
            held = self._held.get(lease.number)
            if held is None or held.released:
                return None
            held.released = True
            self._withdraw(held)
            self._settle(held)
            return held

    def redeem(self, frame: Frame, challenge: bytes | None = None) -> Held | Why:
        """The lease that a WRITE is for, if sources may still write to it; else why they may not.
        The caller has the lock.

        challenge: of the connection, over TCP; without one the frame has the token itself. A token
        that was never granted ends its own write alone: another peer of the source may have told
        it, and writes of others run over the same connection. Raises RemoteProtocolError if the
        write does not fit into the lease.
        """
        try:
            number = (self._mint.number(frame.token) if challenge is None else
                      self._mint.proven(frame, challenge))
        except RemoteProtocolError:
            return Why.UNKNOWN
        held, offset, length = self._held.get(number), frame.offset, frame.length
        if held is None or held.fenced or held.released:
            return Why.OVER if held is None else held.why
        if offset + length > held.lease.length:
            raise RemoteProtocolError(
                f"write: {length} bytes at {offset} of a lease of {held.lease.length}"
            )
        return held

    def enter(self, held: Held) -> bool:
        """Note a writer that begins to write into the lease's memory. Returns False if it must not.
        The caller has the lock.
        """
        if held.fenced or held.released:
            return False
        held.busy += 1
        return True

    def leave(self, held: Held) -> bool:
        """Note a writer that has stopped. Returns whether that completes a fence. The caller has
        the lock.
        """
        if not held.busy:
            return False  # It was given up meanwhile.
        held.busy -= 1
        self._settle(held)
        return held.fenced and not held.busy

    def land(self, held: Held, length: int) -> bool:
        """Note a write whose bytes are all in place. Returns False if the lease was fenced or
        released before: then the caller refuses the write. The caller has the lock.
        """
        if held.fenced or held.released:
            return False
        self.landed_writes += 1
        self.landed_bytes += length
        return True

    def counts(self, connections: int, dropped_peers: int) -> SinkCounts:
        """See contract.SinkEngine.counts. connections, dropped_peers: of the sink."""
        with self.lock:
            pending = sum(1 for held in self._held.values() if held.fenced and held.busy)
            return SinkCounts(
                leases=sum(1 for held in self._held.values() if not held.released),
                leased_bytes=self.pool.leased_bytes,
                target_bytes=self.target_bytes,
                pooled_bytes=self.pool.kept_bytes,
                abandoned_bytes=self.pool.abandoned_bytes,
                fences=self._fences,
                fences_pending=pending,
                landed_writes=self.landed_writes,
                landed_bytes=self.landed_bytes,
                refused_writes=self.refused_writes,
                connections=connections,
                dropped_peers=dropped_peers,
            )

    def close(self) -> None:
        """Give back all memory, leased or not."""
        with self.lock:
            for held in self._held.values():
                held.view.release()
                if held.backing is not None:
                    held.backing.withdraw()
                    held.backing.close()
            self._held.clear()
            self.pool.leased_bytes = self.target_bytes = 0
            self.pool.close()

    def _withdraw(self, held: Held) -> None:
        """Let nobody begin to write to a lease that is over, and give its memory up if somebody may
        go on writing (rule 3).
        """
        backing = held.backing
        if backing is None:
            return
        has_writer = backing.withdraw()
        self.refused_writes += has_writer
        if has_writer or (self._abandons and held.busy):
            held.view.release()
            self.pool.abandon(backing)
            held.backing = None
            held.busy = 0

    def _settle(self, held: Held) -> None:
        """End a released lease if no writer is left."""
        if held.released and not held.busy:
            del self._held[held.lease.number]
            if held.target is not None:
                self.target_bytes -= held.lease.length
            if held.backing is not None:
                held.view.release()
                self.pool.keep(held.backing)
