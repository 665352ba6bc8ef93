"""The peers of a node: the connections to them, the frames for them, and their losses.

A node has a connection of its own to each peer. The frames for a peer in one turn go out as one
batch.

Rule 1: a broken connection is opened again, whichever end notices. The peer reports that it
        receives nothing from a node whose sign of life is due (`Batch.unheard_ms`). The node then
        opens a new connection: a firewall may have dropped the old one without a word, or another
        node may have its address now.
Rule 2: queues are bounded. A peer that does not read loses frames, and the tables repeat them.
Rule 3: a node that does not read cannot know which peer is silent. So the time for which its loop
        stood still is not counted as silence of any peer.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pdproto.node.link import Link, member_of
from pdproto.node.peer import Peer
from pdproto.node.ports import Connection, ConnectionChange, Pace, Transport
from pdproto.runtime.batches import VersionError, encode, encode_some, unencodable
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import WAITING_FRAMES_MAX
from pdproto.runtime.wire import AnyFrame

log = logging.getLogger("pdproto.node")

CHECK_S: Final = 0.001  # between two checks of all peers


class OutgoingBatch(NamedTuple):
    """A batch to send to a peer. left: frames for the peer that do not fit into this batch."""

    peer: Peer
    connection: Connection
    data: bytes
    left: Sequence[AnyFrame]


class Listener(Protocol):
    """The node that `Connections` informs about its peers (core.py)."""

    def floor(self) -> int:
        """The generation below which every life of this node is over."""

    def on_lost(self, peer: Peer, why: str) -> None:
        """React to a peer that counts as gone from now on."""

    def on_ended(self, peer: Peer) -> None:
        """React to the end of the process of a lost peer."""

    def on_returned(self, peer: Peer) -> None:
        """React to a peer that can be reached again. Frames that were under way may be lost."""

    def on_unencodable(self, peer: Peer, frame: AnyFrame, error: Exception) -> None:
        """React to a frame that has no bytes, by a defect at this end. It is dropped."""


class Connections:
    """The peers of one node, by name. Only the node's turn calls these methods, unless they say
    that any thread may.

    replaces: see Part.
    """

    def __init__(self, name: str, incarnation: int, link: Link, listener: Listener) -> None:
        self.peers: Final[dict[str, Peer]] = {}
        self.dropped_frames = 0  # not kept for peers that do not read
        self.redials = 0  # broken connections that were opened again
        self.check_at = 0.0  # the time of the next check of all peers
        self.replaces: Mapping[type[Any], type[Any]] = {}
        self._name: Final = name
        self._incarnation: Final = incarnation
        self._link: Final = link
        self._listener: Final = listener
        self._transport: Transport
        self.dirty: Final[dict[str, Peer]] = {}  # peers to which a batch must go
        self._turned = self._steady = 0.0

    def begin(self, transport: Transport) -> None:
        """Connect by this transport from now on."""
        self._transport = transport
        self._turned = self._steady = transport.clock()

    def lost(self) -> tuple[str, ...]:
        """The names of the peers that count as gone. For any thread."""
        return tuple(peer.name for peer in list(self.peers.values()) if peer.lost)

    # For the node

    def connect(self, name: str, endpoint: str, now: float) -> Peer:
        """The peer of that name, at that endpoint. A peer of the same name at another endpoint
        counts as gone, unless it is connected and heard of: then the endpoint is that of an earlier
        run, which a request may have been told before the restart.

        Raises RemoteProtocolError in that case, and if no connection can be opened.
        """
        peer = self.peers.get(name)
        if peer is not None and not peer.lost:
            if peer.endpoint == endpoint:
                return peer
            if self._is_well(peer, now):
                raise RemoteProtocolError(
                    f"{name} is at {peer.endpoint} now, and the request names {endpoint}")
            self.lose(peer, f"another process has its name now, at {endpoint}")
        ours = self._transport.address_for(endpoint)
        before = peer
        connection = self._transport.connect(name, endpoint)
        peer = Peer(name, endpoint, connection, [], 0.0, now, ours, now)
        if before is not None and not before.ended:
            peer.mute = before.mute  # it stays silent until its next batch
        self.peers[name] = peer
        self.check_at = 0.0
        return peer

    def require_own(self, sender: str, incarnation: int) -> None:
        """Raise RemoteProtocolError for an incarnation of another member. Every life of a member
        has it, and so a member speaks for its own lives only.
        """
        curve = self._link.curve
        if curve is None or not curve.members:
            return  # those who share a secret, or have none, trust one another
        for other in self.peers.values():
            if other.incarnation == incarnation and member_of(other.name) != member_of(sender):
                raise RemoteProtocolError(f"it speaks as a run of {other.name}, another member")

    def _is_well(self, peer: Peer, now: float) -> bool:
        """Whether the connection is up, and the peer has been heard of in time."""
        return bool(peer.incarnation and peer.broken is None
                    and now - peer.heard <= self._link.unheard_s)

    def refuse(self, name: str, error: VersionError, now: float) -> None:
        """Tell the sender of a batch that cannot be read, by a batch of this node, which names the
        version that it writes. A peer that was heard before counts as gone.
        """
        peer = self.peers.get(name)
        if peer is not None and not peer.lost:
            if peer.incarnation or peer.spoken:
                self.lose(peer, str(error))
            return
        if error.call is not None and (
                peer is None or now - peer.called > self._link.sign_of_life_s):
            self.dirty[name] = self.connect(name, error.call, now)

    def say(self, peer: Peer, frame: AnyFrame) -> None:
        """Put a frame into the next batch for the peer, behind the others or in the place of one
        that it replaces.
        """
        if self.replaces:
            kind, place = type(frame), None
            if kind in self.replaces:
                place = peer.replaceable.pop(frame.life, None)
            elif kind in self.replaces.values():
                peer.replaceable[frame.life] = len(peer.out)
            if place is not None and place < len(peer.out):
                peer.out[place] = frame
                self.dirty[peer.name] = peer
                return
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
        peer.replaceable.clear()
        peer.connection.close()
        self.dirty.pop(peer.name, None)
        log.log(level, "node %s: lost connection to %s: %s", self._name, peer.name, why,
                extra={"rank": self._name, "peer": peer.name})
        self._listener.on_lost(peer, why)

    def lose_connection(self, connection: Connection, why: str) -> None:
        """Count the peer as gone that was to be reached by this connection."""
        for peer in list(self.peers.values()):
            if peer.connection is connection and not peer.lost:
                self.lose(peer, why)

    def end(self, peer: Peer, why: str, level: int = logging.WARNING) -> None:
        """Note that the peer's process has ended, and count the peer as gone."""
        if peer.ended:
            return
        peer.ended = True
        if peer.lost:
            self._listener.on_ended(peer)
        else:
            self.lose(peer, why, level)

    # Parts of a turn

    def forgive_silence(self, now: float) -> None:
        """Do not count the time for which the loop stood still as silence (rule 3)."""
        still_s = now - self._turned - self._link.sign_of_life_s  # the longest wait of a loop
        if still_s > 0.0:
            self._steady = now if still_s > self._link.sign_of_life_s else self._steady
            for peer in self.peers.values():
                peer.heard += still_s
        self._turned = now

    def note_heard(self, peer: Peer, unheard_ms: int, now: float) -> None:
        """Note a batch of the peer. unheard_ms: how long the peer has received nothing from here.
        """
        peer.heard = now
        if peer.mute is not None:
            peer.mute = None
            self._listener.on_returned(peer)
        if not unheard_ms:
            peer.deaf = None
            return
        peer.deaf = peer.deaf or now - unheard_ms / 1e3
        if peer.broken is None and now - max(peer.called, self._steady) > self._link.unheard_s:
            self._open_again(peer, now)

    def _open_again(self, peer: Peer, now: float) -> None:
        """Replace a broken connection that has not been closed.

        The transport itself opens a closed connection again.
        """
        self.redials += 1
        log.warning("node %s: %s: opening a new connection", self._name, peer.trouble(now),
                    extra={"rank": self._name, "peer": peer.name})
        connection = self._transport.connect(peer.name, peer.endpoint)
        peer.connection.close()
        peer.connection, peer.called = connection, now
        self.dirty[peer.name] = peer
        self._listener.on_returned(peer)

    def note_changes(self, changes: Iterable[ConnectionChange], now: float) -> None:
        """Note connections that have ended or were opened again."""
        for connection, up in changes:
            peer = next((peer for peer in self.peers.values()
                         if peer.connection is connection and not peer.lost), None)
            if peer is None:
                continue  # an earlier change has replaced the connection
            if not up:
                peer.broken = peer.broken or now + self._link.grace_s
                self.check_at = 0.0
            elif peer.broken is not None:
                # The same process, or its successor: its first batch gives its incarnation.
                peer.broken = None
                self._listener.on_returned(peer)

    def flush(self, now: float, pace: Pace) -> list[OutgoingBatch]:
        """A batch for each peer that needs one, as long as there is time."""
        batches = []
        for peer in self.dirty.values():
            batches.append(self._batch_for(peer, now))
            if not pace.has_time:
                break
        return batches

    def note_sent(self, batch: OutgoingBatch, *, taken: bool) -> None:
        """Note whether the connection took the batch. If not, its queue was full, and all frames
        are sent again with the next sign of life.
        """
        peer = batch.peer
        if taken:
            peer.out = list(batch.left)
            peer.replaceable.clear()
        self.dirty.pop(peer.name, None)
        if taken and peer.out:
            self.dirty[peer.name] = peer  # behind the others: a turn may have time for one batch

    def check_peers(self, now: float) -> None:
        """Lose peers that are gone, and give signs of life. Then compute when the next check is
        due, because there may be thousands of peers and a turn is short.
        """
        if now < self.check_at:
            return
        link = self._link
        check_at = now + link.sign_of_life_s
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
                check_at = min(check_at, peer.spoken + link.sign_of_life_s,
                               peer.heard + unheard_s, peer.broken or check_at)
        self.check_at = max(check_at, now + CHECK_S)

    def farewells(self, now: float) -> Iterator[OutgoingBatch]:
        """The last batches for each peer. The very last one says that this node is gone, so that
        the peer need not wait for a timeout.
        """
        for peer in list(self.peers.values()):
            if peer.lost:
                continue
            left = len(peer.out) + 1
            while peer.out and len(peer.out) < left:  # as long as the connection takes any
                left = len(peer.out)
                yield self._batch_for(peer, now)
            data = encode(self._name, self._incarnation, self._listener.floor(), (),
                          gone="it has been closed", version=peer.version)
            yield OutgoingBatch(peer, peer.connection, data, ())

    def _batch_for(self, peer: Peer, now: float) -> OutgoingBatch:
        try:
            data, left = self._encoded(peer, now)
        except Exception:
            # Otherwise each turn would fail by it, and every hand-over with the peer.
            for spoilt, error in unencodable(peer.out, peer.version):
                peer.out = [frame for frame in peer.out if frame is not spoilt]
                peer.replaceable.clear()
                self._listener.on_unencodable(peer, spoilt, error)
            data, left = self._encoded(peer, now)
        peer.spoken = now
        return OutgoingBatch(peer, peer.connection, data, left)

    def _encoded(self, peer: Peer, now: float) -> tuple[bytes, Sequence[AnyFrame]]:
        return encode_some(self._name, self._incarnation, self._listener.floor(), peer.out,
                           unheard_ms=peer.unheard_ms(now), version=peer.version,
                           call=None if peer.incarnation else peer.ours)
