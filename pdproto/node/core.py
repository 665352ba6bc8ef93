"""The turn of every node, without I/O: values and the time go in, effects come out.

`Core.turn` fixes the order: requests of the application, messages, changed connections, waits and
devices, checks of the peers, and the batches to send. Its time is that of own_clock.py. The event
loop (transport/event_loop.py) and the simulator (sim/host.py) both call it by `run_turn`.

Rule 1: a node has no thread, no socket and no clock. One thread at a time takes its turns.
Rule 2: a core has no subclass. The kinds of node differ in their parts (part.py), and a frame goes
        to the part that takes its kind.
Rule 3: a malformed batch is dropped and counted, and the log names its sender. A frame that the
        peer may not send is dropped and counted alone.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pdproto.net import threads
from pdproto.node.backlog import Backlog
from pdproto.node.connections import Connections
from pdproto.node.handle import log_fields
from pdproto.node.link import Link
from pdproto.node.metrics import Metrics
from pdproto.node.part import Part, Parts
from pdproto.node.peer import OutgoingBatch, Peer, cut_off, endpoint_of, measure_peers
from pdproto.node.ports import Arrived, Pace, Transport
from pdproto.runtime import checked
from pdproto.runtime.batches import Batch, VersionError, decode
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.limits import MALFORMED_NAMES_MAX, NAME_MAX, REASON_MAX
from pdproto.runtime.own_clock import OwnClock
from pdproto.runtime.repeats import Repeats
from pdproto.runtime.versions import VERSION
from pdproto.runtime.wire import AnyFrame, Life

log = logging.getLogger("pdproto.node")


class Effects(NamedTuple):
    """The effects of a turn, for the driver. batches: to send, in this order. due: the latest time
    of the next turn, in seconds of the transport's clock.
    """

    batches: Sequence[OutgoingBatch]
    due: float


class Core:
    """A node with peers. labels: of its metrics. on_defect: called with the error of an effect of a
    step; the others are carried out, unless it raises. on_callback_error: called with the name of a
    function of the application, and its error.

    Raises TypeError or ValueError for a name that no node may have.
    """

    def __init__(self, name: str, link: Link, incarnation: int, **labels: str) -> None:
        self.name: Final = checked.node_name("name", name)
        self.link: Final = link
        self.incarnation: Final = incarnation
        self.metrics: Final = Metrics({"node": name, **labels})
        self.repeats: Final = Repeats()
        self.malformed: Final[dict[str, int]] = {}  # malformed batches, by the sender's name
        self.mistakes = 0  # calls of the application that the tables do not allow
        self.own_clock: Final = OwnClock(link.sign_of_life_s)
        self.connections: Final = Connections(name, incarnation, link, self, self.own_clock)
        self.peers: Final = self.connections.peers
        # Puts a frame into the next batch for the peer.
        self.say: Callable[[Peer, AnyFrame], None] = self.connections.say
        self.parts = Parts(())
        self.again = False  # the node itself wants another turn at once
        self.backlog: Final = Backlog(self.is_late)
        self.now = self.turned = 0.0  # of this turn: on the own clock, and on the transport's
        self.on_defect: Callable[[BaseException], None] = _raise
        self.on_callback_error: Callable[[str, BaseException], None] = self._note_callback
        self.transport: Transport
        # Methods of the transport, bound once because they are called often. For any thread.
        self.ask: Callable[[Callable[[], None]], None]
        self.clock: Callable[[], float]
        self.pace: Pace

    def assemble(self, *parts: Part) -> None:
        """Have these parts take what comes. Raises ValueError if two of them take the same."""
        self.parts = Parts(parts)
        self.connections.replaces = self.parts.replaces

    def add(self, part: Part) -> None:
        """Have this part take what comes too, after the others."""
        self.assemble(*self.parts.all, part)

    def begin(self, transport: Transport) -> None:
        """Run on this transport from now on."""
        self.transport, self.pace = transport, transport.pace
        self.ask, self.clock = transport.ask, transport.clock
        self.now = self.turned = self.own_clock.begin(self.clock())
        self.connections.begin(transport)
        for begin in self.parts.begin:
            begin(transport)

    # For any thread

    def problem(self) -> str | None:
        """Why no hand-over can make progress here; None while some can (property L11)."""
        for problem in self.parts.problem:
            if (why := problem()) is not None:
                return why
        apart = cut_off(list(self.peers.values()), self.own_clock.at(self.clock()))
        return apart and f"node {self.name}: {apart}"

    # The turn

    def turn(self, arrived: Arrived, now: float) -> Effects:
        """Take one turn. arrived: the input since the last turn. now: in seconds of the transport's
        clock. Returns the effects, which the caller must carry out.
        """
        pace, connections, self.again = self.pace, self.connections, False
        self.turned, now = now, self.own_clock.turn(now)
        self.now = now
        pace.begin("requests of the application")
        self._serve(arrived.requests)
        pace.part("messages of peers")
        self._receive(arrived.batches, now)
        connections.note_changes(arrived.changes, now)
        self._serve_parts(now)
        pace.part("messages to peers")
        connections.check_peers(now)
        batches, due = connections.flush(now, pace), connections.check_at
        for of in self.parts.due:
            if (at := of()) is not None and at < due:
                due = at
        return Effects(batches, self.own_clock.outer(due))

    def _serve_parts(self, now: float) -> None:
        """Serve waits and devices, in the order of the phases."""
        pace = self.pace
        rooms, reports, waits, room, last = self.parts.turns
        if self.backlog.works:
            self.backlog.work(pace)
        for serve in rooms:
            serve(now)
        pace.part("reports of devices")
        for serve in reports:
            serve(now)
        for serve in waits:
            serve(now)
        pace.part("hand-overs that waited for room")
        for serve in room:
            serve(now)
        pace.part("reports of devices")
        self.again = False  # all reports until now are collected below
        for serve in reports:
            serve(now)
        for wants_turn in self.parts.wants_turn:
            self.again = self.again or wants_turn()
        for serve in last:
            serve(now)

    def farewells(self, arrived: Arrived, now: float) -> Iterator[OutgoingBatch]:
        """Close the node: abort open hand-overs. Yields the last batches, which tell the peers."""
        self.turned, self.now = now, self.own_clock.turn(now)
        try:
            self._serve(arrived.requests, to_the_end=True)
            for end in self.parts.end:
                end()
        except BaseException as error:  # a request of the application is a part of it
            if threads.is_of_program(error):
                raise
            log.exception("node %s: its last turn failed; some peers hear nothing of it", self.name)
        yield from self.connections.farewells(self.now)

    def close(self) -> None:
        """Close the devices of the node. No turn follows."""
        for close in self.parts.close:
            close()

    def drain(self, why: str) -> None:
        """Refuse the rooms that only peers have begun, for this reason."""
        for drain in self.parts.drain:
            drain(why)

    @property
    def wants_turn(self) -> bool:
        """Whether the driver must take another turn at once."""
        return self.again or bool(self.connections.dirty or self.backlog.works)

    def is_late(self) -> bool:
        """Whether the time of this part of the turn is up. If so, another turn follows at once."""
        late = not self.pace.has_time
        self.again = self.again or late
        return late

    def _serve(self, requests: Iterable[Callable[[], None]], *, to_the_end: bool = False) -> None:
        for request in requests:
            try:
                request()
            except LocalProtocolError as error:
                self.mistakes += 1
                log.error("node %s: %s", self.name, error)
            if not (to_the_end or self.pace.has_time):
                return

    # Messages of peers

    def _receive(self, batches: Iterable[tuple[str, Sequence[bytes]]], now: float) -> None:
        for name, parts in batches:
            sender = name[:NAME_MAX]
            try:
                self._take_batch(sender, parts, now)
            except VersionError as error:
                self._note_malformed(sender, error)
                self._refuse_version(sender, error, now)
            except RemoteProtocolError as error:
                self._note_malformed(sender, error)
            if not self.pace.has_time:
                return

    def _refuse_version(self, sender: str, error: VersionError, now: float) -> None:
        """Tell a peer of another version, if there is room for one more peer."""
        with suppress(RemoteProtocolError):  # it says where it listens, and nobody is there
            if sender not in self.peers:
                self.connections.require_place(sender)
            self.connections.refuse(sender, error, now)

    def _note_malformed(self, sender: str, error: RemoteProtocolError) -> None:
        """Count it: under "" once there are too many names."""
        is_named = sender in self.malformed or len(self.malformed) < MALFORMED_NAMES_MAX
        name = sender if is_named else ""
        self.malformed[name] = self.malformed.get(name, 0) + 1
        self.metrics.add("malformed_frames")
        if count := self.repeats.told(f"{sender} {error}"):
            log.warning("node %s: dropped a batch of %r: %s (%d so far)", self.name, sender, error,
                        count, extra={"rank": self.name, "peer": sender})

    def _take_batch(self, sender: str, parts: Sequence[bytes], now: float) -> None:
        if len(parts) != 1:
            raise RemoteProtocolError(f"want one part after the identity, got {len(parts)}")
        batch = decode(parts[0])
        if batch.node != sender:
            raise RemoteProtocolError(f"connection {sender!r} says it is node {batch.node!r}")
        peer = self.peers.get(sender)
        if batch.gone is not None and (peer is None or peer.lost):
            return
        if peer is None:
            peer = self._greeted(batch)
        if peer.incarnation not in (0, batch.incarnation):
            self.connections.end(peer, "it has restarted")
        if peer.lost:
            peer = self.connect(peer.name, endpoint_of(batch) or peer.endpoint)
        peer.incarnation = batch.incarnation
        peer.version = min(VERSION, batch.newest)
        self.connections.note_heard(peer, batch.unheard_ms, now)
        self.hear(peer, batch)
        if batch.gone is not None:
            why = checked.one_line(batch.gone, REASON_MAX) or "it has ended"
            self.connections.end(peer, why, level=logging.INFO)

    def _greeted(self, batch: Batch) -> Peer:
        """Connect to a new peer. Its first batch must give its endpoint."""
        for greet in self.parts.greet:
            greet(batch)
        endpoint = endpoint_of(batch) or batch.call
        if endpoint is None:
            raise RemoteProtocolError("the first batch of a new peer must give its endpoint")
        self.connections.require_place(batch.node)
        return self.connect(batch.node, endpoint)

    def hear(self, peer: Peer, batch: Batch) -> None:
        """Give each frame to the part that takes its kind."""
        parts = self.parts
        frames = parts.frames
        for heard in parts.batch:
            heard(peer)
        for frame in batch.frames:
            take = frames.get(type(frame))
            try:
                if take is None:
                    raise RemoteProtocolError(f"{frame.message}: no part of this node takes it")
                take(peer, frame)
            except RemoteProtocolError as error:
                self.refuse(peer.name, frame.life, error)
        for note in parts.floor:
            note(peer, batch.floor)

    def refuse(self, sender: str, life: Life | None, error: RemoteProtocolError) -> None:
        """Drop and count a frame that the peer may not send. life: None for a batch's floor."""
        self.metrics.add("refused_frames")
        if count := self.repeats.told(f"{sender} {error}"):
            log.warning("node %s: dropped a message of %s about %s: %s (%d so far)", self.name,
                        sender, life or "its floor", error, count,
                        extra={**log_fields(self.name, life), "peer": sender})

    # For the parts

    def tell(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the application. What it raises is logged and counted: None then."""
        try:
            return function(*arguments)
        except BaseException as error:
            if threads.is_of_program(error):
                raise
            self.on_callback_error(name, error)

    def _note_callback(self, name: str, error: BaseException) -> None:
        self.metrics.add("callback_errors")
        if count := self.repeats.told(f"{name} {type(error).__name__}"):
            log.error("node %s: %s has failed (%d so far)", self.name, name, count, exc_info=error,
                      extra={"rank": self.name})

    def connect(self, name: str, endpoint: str) -> Peer:
        """See Connections.connect."""
        known = self.peers.get(name)
        peer = self.connections.connect(name, endpoint, self.now)
        if peer is not known:
            for note in self.parts.connected:
                note(peer)
        return peer

    def living(self, name: str) -> Peer | None:
        """The peer of this name; None if there is none, or it is lost."""
        peer = self.peers.get(name)
        return None if peer is None or peer.lost else peer

    def declare_gone(self, name: str) -> None:
        """Note that the process of this peer has ended, as the application says.

        Raises LocalProtocolError for a name that was never known here. That ends only the request
        of this turn: it is logged and counted.
        """
        peer = self.peers.get(name)
        if peer is None:
            raise LocalProtocolError(f"{name} was declared gone, but no peer had this name")
        self.connections.end(peer, "it has been declared gone")

    def measure(self) -> None:
        """Add the numbers of the connections to the metrics."""
        connections, peers = self.connections, self.peers
        self.metrics.counter("dropped_frames", "Messages not kept for a peer that does not read",
                             lambda: connections.dropped_frames)
        self.metrics.counter("refused_calls", "Calls of the application that the tables do not "
                             "allow", lambda: self.mistakes)
        self.metrics.counter("redials", "Broken connections that were opened again",
                             lambda: connections.redials)
        measure_peers(self.metrics, peers)

    # For the connections: see Listener

    def floor(self) -> int:
        """See Listener."""
        return max((below() for below in self.parts.lives_below), default=0)

    def on_overdue(self, peer: Peer, why: str) -> None:
        """See Listener."""
        for miss in self.parts.overdue:
            miss(peer, why)

    def on_lost(self, peer: Peer, why: str) -> None:
        """See Listener."""
        self.metrics.add("lost_peers")
        for lose in self.parts.lost:
            lose(peer, why)

    def on_ended(self, peer: Peer) -> None:
        """See Listener."""
        for end in self.parts.ended:
            end(peer)

    def on_returned(self, peer: Peer) -> None:
        """See Listener."""
        for returned in self.parts.returned:
            returned(peer)

    def on_unencodable(self, peer: Peer, frame: AnyFrame, error: Exception) -> None:
        """See Listener: the hand-over ends, and no other."""
        why = f"{frame.message.name} cannot be sent: {type(error).__name__}: {error}"
        self.metrics.add("unencodable_frames")
        extra = log_fields(self.name, frame.life)
        log.error("node %s: %s: %s", self.name, frame.life, why, extra=extra)
        for give_up in self.parts.unsaid:
            give_up(peer, frame, why)


def _raise(error: BaseException) -> None:
    raise error


def run_turn(core: Core, arrived: Arrived, now: float) -> float:
    """Take one turn, and carry out its effects. Returns the latest time of the next turn."""
    effects = core.turn(arrived, now)
    carry_out(core, effects.batches)
    return now if core.wants_turn else effects.due


def carry_out(core: Core, batches: Iterable[OutgoingBatch]) -> None:
    """Send the batches, and tell the node which of them its connections took."""
    for batch in batches:
        core.connections.note_sent(batch, taken=batch.connection.send(batch.data))
