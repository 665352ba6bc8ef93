"""The peers that a node calls: the connections to them, the frames for them, and their losses.

A node calls each peer by a connection of its own. The frames for a peer in one turn go out as one
batch.

Rule 1: a connection that leads nowhere is made again, whichever end notices. The peer says that it
        hears nothing of a node that should speak (`Batch.unheard_ms`). The node then calls it by a
        new connection: a firewall may have forgotten the old one, or another node may own it now.
Rule 2: queues are bounded: a peer that does not read loses frames, and the tables repeat them.
Rule 3: a node that does not listen cannot tell which peer is silent. The time for which a loop
        stood still counts for no peer's silence.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from pdproto.node.link import Link
from pdproto.node.peer import Peer
from pdproto.node.ports import Connection, ConnectionChange, Pace, Transport
from pdproto.runtime.wire import AnyFrame, encode, encode_some

log = logging.getLogger("pdproto.node")

LOOK_S: Final = 0.001  # between two looks at all peers
WAITING_FRAMES_MAX: Final = 1 << 17  # kept for a peer that does not read


class Say(NamedTuple):
    """A batch that is to be sent. left: the peer's frames that it has no room for."""

    peer: Peer
    connection: Connection
    data: bytes
    left: Sequence[AnyFrame]


class Listener(Protocol):
    """Whom `Calls` tells about its peers."""

    def floor(self) -> int:
        """Every life of this node below this generation is over."""

    def on_lost(self, peer: Peer, why: str) -> None:
        """The peer counts as gone."""

    def on_ended(self, peer: Peer) -> None:
        """The process of a lost peer is known to have ended."""

    def on_returned(self, peer: Peer) -> None:
        """The peer can be reached again. Frames that were under way may be lost."""


class Calls:
    """The peers of one node, by name. Only the node's turn calls anything here, unless said."""

    def __init__(self, name: str, incarnation: int, link: Link, listener: Listener) -> None:
        self.peers: Final[dict[str, Peer]] = {}
        self.dropped_frames = 0  # for peers that do not read
        self.redials = 0  # of connections that led nowhere
        self.look_at = 0.0  # when to look after all peers again
        self._name: Final = name
        self._incarnation: Final = incarnation
        self._link: Final = link
        self._listener: Final = listener
        self._transport: Transport
        self.dirty: Final[dict[str, Peer]] = {}  # peers with something to be said
        self._turned = self._steady = 0.0

    def begin(self, transport: Transport) -> None:
        """Call by this transport, from now on."""
        self._transport = transport
        self._turned = self._steady = transport.clock()

    def lost(self) -> tuple[str, ...]:
        """The names of the peers that count as gone. For any thread."""
        return tuple(peer.name for peer in list(self.peers.values()) if peer.lost)

    # For the node

    def connect(self, name: str, endpoint: str, now: float) -> Peer:
        """The peer of that name, at that endpoint. A process elsewhere under that name is gone.

        Raises RemoteProtocolError where there can be no connection.
        """
        peer = self.peers.get(name)
        if peer is not None and not peer.lost:
            if peer.endpoint == endpoint:
                return peer
            self.lose(peer, f"another has come in its place, at {endpoint}")
        ours = self._transport.address_for(endpoint)
        before = peer
        peer = Peer(name, endpoint, self._transport.connect(endpoint), [], 0.0, now, ours, now)
        if before is not None and not before.ended:
            peer.mute = before.mute  # it is unheard until it speaks
        self.peers[name] = peer
        self.look_at = 0.0
        return peer

    def say(self, peer: Peer, frame: AnyFrame) -> None:
        """Put a frame into the next batch for the peer."""
        if len(peer.out) >= WAITING_FRAMES_MAX:
            self.dropped_frames += 1
            return
        peer.out.append(frame)
        self.dirty[peer.name] = peer

    def lose(self, peer: Peer, why: str, level: int = logging.WARNING) -> None:
        """Count the peer as gone, and end its connection."""
        peer.lost = True
        peer.broken = None
        peer.out.clear()
        peer.connection.close()
        self.dirty.pop(peer.name, None)
        log.log(level, "node %s: lost connection to %s: %s", self._name, peer.name, why,
                extra={"rank": self._name, "peer": peer.name})
        self._listener.on_lost(peer, why)

    def end(self, peer: Peer, why: str, level: int = logging.WARNING) -> None:
        """The peer's process is known to have ended."""
        if peer.ended:
            return
        peer.ended = True
        if peer.lost:
            self._listener.on_ended(peer)
        else:
            self.lose(peer, why, level)

    # Parts of a turn

    def forgive_silence(self, now: float) -> None:
        """Compensate for the time for which the loop stood still (rule 3)."""
        still_s = now - self._turned - self._link.sign_of_life_s  # a loop never waits longer
        if still_s > 0.0:
            self._steady = now if still_s > self._link.sign_of_life_s else self._steady
            for peer in self.peers.values():
                peer.heard += still_s
        self._turned = now

    def note_heard(self, peer: Peer, unheard_ms: int, now: float) -> None:
        """The peer has spoken. unheard_ms: for how long it has heard nothing of this node."""
        peer.heard = now
        if peer.mute is not None:
            peer.mute = None
            self._listener.on_returned(peer)
        if not unheard_ms:
            peer.deaf = None
            return
        peer.deaf = peer.deaf or now - unheard_ms / 1e3
        if peer.broken is None and now - max(peer.called, self._steady) > self._link.unheard_s:
            self._call_again(peer, now)

    def _call_again(self, peer: Peer, now: float) -> None:
        """Replace a connection that leads nowhere, and that nobody has ended.

        One that has ended is made again by the transport, and counts as lost after a while.
        """
        self.redials += 1
        log.warning("node %s: %s: calling it again", self._name, peer.trouble(now),
                    extra={"rank": self._name, "peer": peer.name})
        connection = self._transport.connect(peer.endpoint)
        peer.connection.close()
        peer.connection, peer.called = connection, now
        self.dirty[peer.name] = peer
        self._listener.on_returned(peer)

    def note_changes(self, changes: Iterable[ConnectionChange], now: float) -> None:
        """Connections have ended, or are there again."""
        for connection, up in changes:
            peer = next((peer for peer in self.peers.values()
                         if peer.connection is connection and not peer.lost), None)
            if peer is None:
                continue  # an earlier change has replaced the connection
            if not up:
                peer.broken = peer.broken or now + self._link.grace_s
                self.look_at = 0.0
            elif peer.broken is not None:
                # The same process, or its successor: a successor tells as soon as it speaks.
                peer.broken = None
                self._listener.on_returned(peer)

    def flush(self, now: float, pace: Pace) -> list[Say]:
        """A batch for each peer with something to be said, as long as there is time."""
        says = []
        for peer in self.dirty.values():
            says.append(self._say(peer, now))
            if not pace.has_time:
                break
        return says

    def said(self, say: Say, *, taken: bool) -> None:
        """The connection has taken the batch, or was full: then all of it is said once more with
        the next sign of life.
        """
        peer = say.peer
        if taken:
            peer.out = list(say.left)
        if not (taken and peer.out):
            self.dirty.pop(peer.name, None)

    def look_after(self, now: float) -> None:
        """Lose peers that are gone, and give signs of life. Then note when to look again: there may
        be thousands of peers, and a turn is short.
        """
        if now < self.look_at:
            return
        link = self._link
        look_at = now + link.sign_of_life_s
        for peer in list(self.peers.values()):
            if peer.lost:
                continue
            if peer.broken is not None and now > peer.broken:
                self.lose(peer, f"its connection has ended, and has not come back for "
                                f"{link.grace_s:g} s")
            elif now - peer.heard > link.silent_s:
                peer.mute = peer.mute or peer.heard
                self.lose(peer, f"nothing heard for {link.silent_s:g} s")
            elif now - peer.heard > link.unheard_s and peer.mute is None:
                peer.mute = peer.heard
                self.dirty[peer.name] = peer
            elif now - peer.spoken > link.sign_of_life_s:
                self.dirty[peer.name] = peer
            else:
                unheard_s = link.unheard_s if peer.mute is None else link.silent_s
                look_at = min(look_at, peer.spoken + link.sign_of_life_s,
                              peer.heard + unheard_s, peer.broken or look_at)
        self.look_at = max(look_at, now + LOOK_S)

    def farewells(self, now: float) -> Iterator[Say]:
        """The last batches for each peer. The very last one says that nothing more will come, so
        that the peer need not wait to find out.
        """
        for peer in list(self.peers.values()):
            if peer.lost:
                continue
            left = len(peer.out) + 1
            while peer.out and len(peer.out) < left:  # as long as the connection takes any
                left = len(peer.out)
                yield self._say(peer, now)
            data = encode(self._name, self._incarnation, self._listener.floor(), (),
                          gone="it has been closed")
            yield Say(peer, peer.connection, data, ())

    def _say(self, peer: Peer, now: float) -> Say:
        data, left = encode_some(self._name, self._incarnation, self._listener.floor(), peer.out,
                                 unheard_ms=peer.unheard_ms(now))
        peer.spoken = now
        return Say(peer, peer.connection, data, left)
