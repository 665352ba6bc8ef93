"""The turn of every node, without I/O: values and the time go in, effects come out.

`Core.turn` fixes the order of the parts: requests of the application, compensation for a loop that
stood still, messages, changed connections, waits and devices, checks of the peers, and the batches
to send. The event loop (transport/event_loop.py) and the simulator (sim/host.py) both call it by
`run_turn`. There is no other loop.

Rule 1: a node has no thread, no socket and no clock. One thread at a time takes its turns.
Rule 2: a malformed batch is dropped and counted, and the log names its sender.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pdproto.node.connections import Connections, OutgoingBatch
from pdproto.node.link import Link
from pdproto.node.peer import Peer, cut_off, endpoint_of
from pdproto.node.ports import Arrived, Pace, Transport
from pdproto.runtime.batches import Batch, VersionError, decode
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.limits import MALFORMED_NAMES_MAX, NAME_MAX, PEERS_MAX
from pdproto.runtime.repeats import Repeats
from pdproto.runtime.versions import VERSION
from pdproto.runtime.wire import AnyFrame

log = logging.getLogger("pdproto.node")


class Effects(NamedTuple):
    """The effects of a turn, for the driver to carry out.

    batches: to send, in this order. due: the latest time of the next turn, in seconds of the
    transport's clock.
    """

    batches: Sequence[OutgoingBatch]
    due: float


class Core:
    """A node with peers. Subclasses define the reactions to a batch, a lost peer and a turn.

    Raises ValueError for an empty name, or one that is too long.
    """

    def __init__(self, name: str, link: Link, incarnation: int) -> None:
        if not 0 < len(name) <= NAME_MAX:
            raise ValueError(f"node name {name!r}: want 1 to {NAME_MAX} characters")
        self.name: Final = name
        self.link: Final = link
        self.incarnation: Final = incarnation
        self.repeats: Final = Repeats()
        self.malformed: Final[dict[str, int]] = {}  # malformed batches, by the sender's name
        self.mistakes = 0  # calls of the application that the tables do not allow
        self.connections: Final = Connections(name, incarnation, link, self)
        self.peers: Final = self.connections.peers
        self.again = False  # the node itself wants another turn at once
        self.transport: Transport
        # Methods of the transport, bound once because they are called often. For any thread.
        self.ask: Callable[[Callable[[], None]], None]
        self.clock: Callable[[], float]
        self.pace: Pace
        self._now = 0.0

    def begin(self, transport: Transport) -> None:
        """Run on this transport from now on."""
        self.transport, self.pace = transport, transport.pace
        self.ask, self.clock = transport.ask, transport.clock
        self._now = transport.clock()
        self.connections.begin(transport)

    # For any thread

    def problem(self) -> str | None:
        """Why no hand-over can make progress here; None while some can (property L11)."""
        apart = cut_off(list(self.peers.values()), self.clock())
        return None if apart is None else f"node {self.name}: {apart}"

    # The turn

    def turn(self, arrived: Arrived, now: float) -> Effects:
        """Take one turn. arrived: the input since the last turn. now: in seconds of the transport's
        clock. Returns the effects, which the caller must carry out.
        """
        pace, connections = self.pace, self.connections
        self._now, self.again = now, False
        pace.begin("requests of the application")
        self._serve(arrived.requests)
        connections.forgive_silence(now)
        pace.part("messages of peers")
        self._receive(arrived.batches, now)
        connections.note_changes(arrived.changes, now)
        due = self.on_turn(now)
        pace.part("messages to peers")
        connections.check_peers(now)
        batches, check_at = connections.flush(now, pace), connections.check_at
        return Effects(batches, check_at if due is None or check_at < due else due)

    def farewells(self, arrived: Arrived, now: float) -> Iterator[OutgoingBatch]:
        """Close the node: abort open hand-overs. Yields the last batches, which tell the peers."""
        self._now = now
        try:
            self._serve(arrived.requests, to_the_end=True)
            self.on_end()
        except Exception:
            log.exception("node %s: its last turn failed; some peers hear nothing of it", self.name)
        yield from self.connections.farewells(now)

    @property
    def wants_turn(self) -> bool:
        """Whether the driver must take another turn at once."""
        return self.again or bool(self.connections.dirty)

    def _serve(self, requests: Iterable[Callable[[], None]], *, to_the_end: bool = False) -> None:
        for request in requests:
            try:
                request()
            except LocalProtocolError as error:
                self.mistakes += 1
                log.error("node %s: %s", self.name, error)
            if not (to_the_end or self.pace.has_time):
                return

    def _receive(self, batches: Iterable[tuple[str, Sequence[bytes]]], now: float) -> None:
        for name, parts in batches:
            sender = name[:NAME_MAX]
            try:
                self._take_batch(sender, parts, now)
            except VersionError as error:
                self._note_malformed(sender, error)
                self._refuse(sender, error, now)
            except RemoteProtocolError as error:
                self._note_malformed(sender, error)
            if not self.pace.has_time:
                return

    def _refuse(self, sender: str, error: VersionError, now: float) -> None:
        """Tell a peer of another version, if there is room for one more peer."""
        if sender in self.peers or len(self.peers) < PEERS_MAX:
            with suppress(RemoteProtocolError):  # it says where it listens, and nobody is there
                self.connections.refuse(sender, error, now)

    def _note_malformed(self, sender: str, error: RemoteProtocolError) -> None:
        """Count it: under "" once there are too many names."""
        is_named = sender in self.malformed or len(self.malformed) < MALFORMED_NAMES_MAX
        name = sender if is_named else ""
        self.malformed[name] = self.malformed.get(name, 0) + 1
        self.on_malformed(sender)
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
        self.on_batch(peer, batch)
        if batch.gone is not None:
            self.connections.end(peer, batch.gone or "it has ended", level=logging.INFO)

    def _greeted(self, batch: Batch) -> Peer:
        """Connect to a new peer. Its first batch must give its endpoint."""
        endpoint = endpoint_of(batch)
        if endpoint is None:
            raise RemoteProtocolError("the first batch of a new peer must give its endpoint")
        if len(self.peers) >= PEERS_MAX:
            for name in self.connections.lost():
                del self.peers[name]
        if len(self.peers) >= PEERS_MAX:
            raise RemoteProtocolError(f"{PEERS_MAX:,} peers are known already")
        return self.connect(batch.node, endpoint)

    # For subclasses, which override some of these

    def connect(self, name: str, endpoint: str) -> Peer:
        """See Connections.connect."""
        return self.connections.connect(name, endpoint, self._now)

    def say(self, peer: Peer, frame: AnyFrame) -> None:
        """Put a frame into the next batch for the peer."""
        self.connections.say(peer, frame)

    def floor(self) -> int:
        """The generation below which every life of this node is over."""
        return 0

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        """React to a batch of the peer."""
        raise NotImplementedError

    def on_malformed(self, _sender: str) -> None:
        """React to bytes that are no batch. _sender: the name of the node that sent them."""

    def on_lost(self, peer: Peer, _why: str) -> None:
        """React to a peer that counts as gone from now on."""
        raise NotImplementedError

    def on_ended(self, peer: Peer) -> None:
        """React to the end of the process of a lost peer."""

    def on_returned(self, peer: Peer) -> None:
        """React to a peer that can be reached again. Frames that were under way may be lost."""

    def on_turn(self, now: float) -> float | None:
        """Serve waits and devices. Returns the latest time of the next call; None for any time."""
        raise NotImplementedError

    def on_end(self) -> None:
        """React to the end of the node. Frames that are said now are the last ones."""

    def on_drain(self, _why: str) -> None:
        """React to the start of a drain: refuse the rooms that only peers have begun."""

    def on_close(self) -> None:
        """Close the devices of the node. No turn follows."""


def run_turn(core: Core, arrived: Arrived, now: float) -> float:
    """Take one turn, and carry out its effects. Returns the latest time of the next turn."""
    effects = core.turn(arrived, now)
    carry_out(core, effects.batches)
    return now if core.wants_turn else effects.due


def carry_out(core: Core, batches: Iterable[OutgoingBatch]) -> None:
    """Send the batches, and tell the node which of them its connections took."""
    for batch in batches:
        core.connections.note_sent(batch, taken=batch.connection.send(batch.data))
