"""Runs a process over ZeroMQ, in the thread that calls it.

    with ZeroMQ(Process(SYSTEM, "client", "ann", among=addresses), addresses) as ann:
        ann.call("lock")
        ann.serve(until=lambda: holding(ann.machine), seconds=5.0)

Each process has one PULL socket, and a PUSH socket for each process that it sends to. A frame that
does not fit into the queue of a peer is dropped and counted, as a network may lose any message.
"""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Self

from pdproto.drivers.addresses import Addresses, listening_place
from pdproto.runtime import checked
from pdproto.runtime.extras import require_runtime
from pdproto.runtime.own_clock import REST_S, OwnClock
from pdproto.runtime.process import FRAME_BYTES_MAX, Name, Process
from pdproto.runtime.store import Shared, SharedStep

require_runtime("zmq")
import zmq  # noqa: E402 - where it is missing, the line before says what to install

LINGER_MAX_S: Final = 86_400.0
AT_ONCE_MAX: Final = 100  # frames that are read before clocks are looked at


class ZeroMQ:
    """A process with its sockets and its clock, which stands still while nobody calls `serve` or
    `call`, or the process does not run. dropped: frames that no queue had room for.

    linger_s: how long closing waits for peers to take the last frames; they may not listen yet.

    Raises OSError if it cannot listen at its address, and ValueError for an address that other
    hosts can reach, unless `trusted_network`. Use it from one thread.
    """

    def __init__(
        self, process: Process, addresses: Addresses, *, trusted_network: bool = False,
        linger_s: float = 0.5,
    ) -> None:
        self.process: Final = process
        self.dropped = 0
        self._addresses: Final = addresses
        self._clock: Final = OwnClock(2 * REST_S)
        self._clock.begin(time.monotonic())
        self._linger_ms: Final = round(1e3 * checked.seconds(
            "linger_s", linger_s, most=LINGER_MAX_S, or_0=True))
        own = listening_place(process, addresses, trusted_network=trusted_network)
        self._context: Final = zmq.Context()
        self._outlets: Final[dict[Name, zmq.Socket[bytes]]] = {}
        self._inlet: Final = self._context.socket(zmq.PULL)
        self._inlet.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES_MAX)
        self._inlet.setsockopt(zmq.IPV6, "[" in own)
        try:
            self._inlet.bind(f"tcp://{own}")
        except zmq.ZMQError as error:
            self.close()
            raise OSError(f"{process.name!r} cannot listen on {own}: {error}") from error

    @property
    def machine(self) -> Shared:
        """The machine, to read its state."""
        return self.process.machine

    def call(
        self, name: str, *arguments: Hashable, choose: Mapping[str, Any] | None = None
    ) -> SharedStep:
        """Call the machine, and send what its row sends. Raises LocalProtocolError if no row allows
        the call.
        """
        step = self.process.call(name, *arguments, now=self._now(), choose=choose)
        self._send()
        return step

    def serve(self, until: Callable[[], bool] = lambda: False, *, seconds: float) -> bool:
        """Take frames and run clocks for `seconds`, or until the condition holds.

        Returns whether it holds.
        """
        checked.function("until", until)
        end = time.monotonic() + checked.seconds("seconds", seconds, or_0=True)
        while True:
            now = time.monotonic()
            due = self.process.turn(self._clock.turn(now))
            self._send()
            if until():
                return True
            if now >= end:
                return False
            wait = min(end - now, REST_S if due is None else min(due, REST_S))
            if self._inlet.poll(max(1, round(wait * 1e3))):
                self._read()

    def _now(self) -> float:
        return self._clock.turn(time.monotonic())

    def _read(self) -> None:
        for _ in range(AT_ONCE_MAX):
            try:
                frame = self._inlet.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.process.take(frame, self._now())
            self._send()

    def _send(self) -> None:
        for name, frame in self.process.outgoing():
            try:
                self._outlet(name).send(frame, zmq.NOBLOCK)
            except zmq.Again:
                self.dropped += 1

    def _outlet(self, name: Name) -> "zmq.Socket[bytes]":
        if name not in self._outlets:
            address = self._addresses[name]
            self._outlets[name] = socket = self._context.socket(zmq.PUSH)
            socket.setsockopt(zmq.IPV6, "[" in address)
            socket.connect(f"tcp://{address}")
        return self._outlets[name]

    def close(self) -> None:
        """Send the last frames for up to `linger_s`, and close the sockets."""
        for socket in self._outlets.values():
            socket.close(linger=self._linger_ms)
        self._inlet.close(linger=0)
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
