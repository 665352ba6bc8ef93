"""The nodes themselves, with a simulated socket, clock and loop under them.

A `Host` is a process: it has its node take a turn when something has come or a wait has ended, and
not before the last turn is over. The node's own code runs as it is; only what touches the world is
given here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import zmq

from pdproto.node.data_path import SinkPlane, SourcePlane
from pdproto.node.decode import DecodeNode
from pdproto.node.prefill import PrefillNode
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.role import SinkRole, SourceRole
from pdproto.runtime.trace import Trace
from pdproto.sim.agenda import Agenda
from pdproto.sim.network import Network
from pdproto.transport.event_loop import Link, Peer, Shell

BOOTED_S: Final = 1_000.0  # what every clock says when a run begins, as of a machine that is up


class Turning(Protocol):
    """What a host asks of its node."""

    def turn(self, batches: list[tuple[str, bytes]], now: float) -> float | None: ...


class Host:
    """A process, from its start to its death. skew: its clock is so many seconds ahead."""

    def __init__(
        self, agenda: Agenda, network: Network, name: str, server: str, incarnation: int,
        turn_s: float,
    ) -> None:
        self.agenda: Final = agenda
        self.network: Final = network
        self.name: Final = name
        self.server: Final = server
        self.incarnation: Final = incarnation
        self.turn_s = turn_s
        self.skew = BOOTED_S
        self.paused = False
        self.dead = False
        self.node: Turning | None = None
        self.turn_failed: Callable[[Host, Exception], None] | None = None
        self._arrived: list[tuple[str, bytes]] = []
        self._free_at = 0.0
        self._due: float | None = None

    @property
    def clock(self) -> float:
        """What its own clock says."""
        return self.agenda.now + self.skew

    def arrive(self, source: str, data: bytes) -> None:
        self._arrived.append((source, data))
        self.wake()

    def wake(self) -> None:
        """Have a turn as soon as it may be."""
        due = self._due
        if due is None or (due > self._free_at and due > self.agenda.now):
            self._turn_at(self.agenda.now)

    def resume(self) -> None:
        """Go on after a pause."""
        self.paused = False
        self.wake()

    def _turn_at(self, when: float) -> None:
        when = max(when, self._free_at)
        if self._due is None or when < self._due:
            self._due = when
            self.agenda.at(when, self._turn, when)

    def _turn(self, when: float) -> None:
        if self._due != when or self.node is None or self.dead:
            return
        self._due = None
        if self.paused:
            return
        batches, self._arrived = self._arrived, []
        self._free_at = when + self.turn_s
        try:
            due = self.node.turn(batches, when + self.skew)
        except Exception as error:
            if self.turn_failed is None:
                raise
            self.turn_failed(self, error)
            return
        if due is not None:
            self._turn_at(due - self.skew)


class Wire:
    """What stands for a socket: the way to one peer, or the ear of a node."""

    __slots__ = ("host", "target")

    def __init__(self, host: Host, target: str) -> None:
        self.host: Final = host
        self.target: Final = target

    def send(self, data: bytes, _flags: int = 0) -> None:
        self.host.network.send(self.host, self.target, data)

    def close(self, linger: int | None = None) -> None:
        """Nothing is held."""

    def getsockopt_string(self, _option: int) -> str:
        """Where the node listens: its name."""
        return self.target


@dataclass(frozen=True, slots=True)
class SimulatedLink(Link):
    """A link that leads into the simulation."""

    host: Host | None = None


class SimulatedShell(Shell):
    """The shell without a thread: a host has it take its turns."""

    def __init__(self, name: str, link: Link, incarnation: int | None = None) -> None:
        if not isinstance(link, SimulatedLink) or link.host is None:
            raise TypeError(f"node {name}: want a SimulatedLink with a host, not {link!r}")
        self.host: Final = link.host
        self._looks_at = 0.0
        self._known = 0
        self._asked: list[Callable[[], None]] = []
        super().__init__(name, link, incarnation or link.host.incarnation)

    def start(self) -> None:
        self.host.wake()

    def ask(self, request: Callable[[], None]) -> None:
        """As the shell's, without its lock: there is nobody else."""
        if self._closing:
            raise LocalProtocolError(f"node {self.name} is closed")
        self._asked.append(request)
        self.host.wake()

    def wake(self) -> None:
        self.host.wake()

    def connect(self, name: str, endpoint: str) -> Peer:
        known = self.peers.get(name)
        peer = super().connect(name, endpoint)
        if peer is not known:
            peer.heard = self.host.clock
        return peer

    def turn(self, batches: list[tuple[str, bytes]], now: float) -> float | None:
        """What the shell's own loop does in a turn, without a safety net under it."""
        self._serve_inbox()
        for source, data in batches:
            try:
                self._take(source, [source.encode(), data], now)
            except RemoteProtocolError:
                self.on_malformed(source)
        due = self.on_turn(now)
        if now >= self._looks_at or self._known != len(self.peers):
            self._known = len(self.peers)
            self._look_after_peers(now)
            self._looks_at = now + self.link.sign_of_life_s / 2
        for peer in list(self._dirty.values()):
            self._flush(peer, now)
        if self._dirty:
            return now
        if self.peers:
            due = self._looks_at if due is None else min(due, self._looks_at)
        return due

    def _serve_inbox(self, *, to_the_end: bool = True) -> None:  # noqa: ARG002 - it always is
        asked, self._asked = self._asked, []
        for request in asked:
            try:
                request()
            except LocalProtocolError:
                self.mistakes += 1

    def _listening(self) -> "zmq.Socket[bytes]":
        return cast("zmq.Socket[bytes]", Wire(self.host, self.host.name))

    def _dealer(self, endpoint: str) -> "zmq.Socket[bytes]":
        return cast("zmq.Socket[bytes]", Wire(self.host, endpoint))


class SimulatedPrefill(PrefillNode, SimulatedShell):
    """A prefill rank's node, on a host."""

    def __init__(
        self, host: Host, link: Mapping[str, Any], plane: SourcePlane, *,
        waits: Mapping[str, float], trace: Trace, role: SourceRole,
    ) -> None:
        host.node = self
        super().__init__(host.name, plane, link=SimulatedLink(**link, host=host), waits=waits,
                         trace=trace, role=role)
        self._now = host.clock


class SimulatedDecode(DecodeNode, SimulatedShell):
    """A decode rank's node, on a host."""

    def __init__(
        self, host: Host, link: Mapping[str, Any], plane: SinkPlane, *,
        waits: Mapping[str, float], trace: Trace, role: SinkRole,
    ) -> None:
        host.node = self
        super().__init__(host.name, plane, link=SimulatedLink(**link, host=host), waits=waits,
                         trace=trace, role=role)
        self._now = host.clock
