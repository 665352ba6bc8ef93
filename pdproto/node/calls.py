"""The peers that a node calls: the connections to them, what is said, and who of them is gone.

A node speaks to each peer through a DEALER of its own, named like the node, so that a peer can tell
who speaks. What it has to say to a peer in one turn of the loop goes out as one batch. Nothing but
the thread of the loop (transport/event_loop.py) calls anything here, where it does not say so.

Rule 1: a connection that leads nowhere is made again, whoever notices. The peer says that nothing
        comes of a node that should speak (`Batch.unheard_ms`), and the node calls it by a new
        connection: its old one may be forgotten by a firewall, or belong to somebody else by now.
Rule 2: queues are bounded: a peer that does not read loses frames, and the tables repeat them.
"""

import logging
from contextlib import suppress
from time import monotonic
from typing import Final

import zmq

from pdproto.node.link import Link, calling, told
from pdproto.node.peer import Peer
from pdproto.runtime.wire import NAME_MAX, AnyFrame, encode, encode_some
from pdproto.transport.incarnation import new_incarnation
from pdproto.transport.monitor import Watch

log = logging.getLogger("pdproto.node")

LOOK_S: Final = 0.001  # between two looks at all peers
PEERS_MAX: Final = 4_096  # known at a time; a stranger cannot make a node open more sockets
SOCKETS_MAX: Final = 3 * PEERS_MAX  # one for each peer, and two that watch it
WAITING_FRAMES_MAX: Final = 1 << 17  # kept for a peer that does not read


class Caller:
    """The peers of a node, by name. steady: since when its loop has come round without fail."""

    def __init__(self, name: str, link: Link, incarnation: int | None = None) -> None:
        if not 0 < len(name) <= NAME_MAX:
            raise ValueError(f"node name {name!r}: want 1 to {NAME_MAX} characters")
        self.name: Final = name
        self.link: Final = link
        self.incarnation: Final = incarnation or new_incarnation()
        self.bound = link.bind  # where it listens, as soon as it does
        self.peers: Final[dict[str, Peer]] = {}
        self.dropped_frames = 0  # for peers that do not read
        self.redials = 0  # of connections that led nowhere
        self._context: Final = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, SOCKETS_MAX)
        self._watch: Final = Watch()
        self._dirty: Final[dict[str, Peer]] = {}  # to whom something is to be said
        self._look_at = 0.0  # when to look after all peers again
        self._steady = monotonic()

    def lost_peers(self) -> tuple[str, ...]:
        """The peers that count as gone, for whatever reason `on_lost` was told."""
        return tuple(peer.name for peer in list(self.peers.values()) if peer.lost)

    # For the node

    def on_lost(self, peer: Peer, _why: str) -> None:
        raise NotImplementedError

    def on_ended(self, peer: Peer) -> None:
        """That a lost peer is no more is known now: its successor has spoken."""

    def on_returned(self, peer: Peer) -> None:
        """Its connection had ended, or led nowhere, and is there again: what was under way may be
        lost.
        """

    def floor(self) -> int:
        return 0

    def connect(self, name: str, endpoint: str) -> Peer:
        """The peer of that name, at that endpoint: whoever was elsewhere under it is gone. Raises
        RemoteProtocolError where there can be no connection.
        """
        peer = self.peers.get(name)
        if peer is not None and not peer.lost:
            if peer.endpoint == endpoint:
                return peer
            self._lose(peer, f"another has come in its place, at {endpoint}")
        ours = self.told(endpoint)
        now, before = monotonic(), peer
        peer = Peer(name, endpoint, self._dealer(endpoint), [], 0.0, now, ours, now)
        if before is not None and not before.ended:
            peer.mute = before.mute  # it is looked for in vain until it speaks
        self.peers[name] = peer
        self._look_at = 0.0
        return peer

    def told(self, endpoint: str) -> str:
        """Where a peer at that endpoint is told to call this node. For any thread.

        Raises RemoteProtocolError, with the way out, where one of the two cannot call the other.
        """
        return told(self.name, self.link, self.bound, endpoint)

    def say(self, peer: Peer, frame: AnyFrame) -> None:
        """Put a frame into the next batch for the peer."""
        if len(peer.out) >= WAITING_FRAMES_MAX:
            self.dropped_frames += 1
            return
        peer.out.append(frame)
        self._dirty[peer.name] = peer

    # For the loop

    def _part(self, peer: Peer) -> None:
        """Say what is left to say, and that nothing more comes: nobody need wait to find out."""
        left = len(peer.out) + 1
        while peer.out and len(peer.out) < left:  # as long as it takes any
            left = len(peer.out)
            self._flush(peer, monotonic())
        data = encode(self.name, self.incarnation, self.floor(), (), gone="it has been closed")
        with suppress(zmq.Again):
            peer.socket.send(data, zmq.NOBLOCK)

    def _note_hearing(self, peer: Peer, unheard_ms: int, now: float) -> None:
        """The peer has spoken, and says for how long it has heard nothing of this node, if so."""
        if peer.mute is not None:
            peer.mute = None
            self.on_returned(peer)
        if not unheard_ms:
            peer.deaf = None
            return
        peer.deaf = peer.deaf or now - unheard_ms / 1e3
        if peer.broken is None and now - max(peer.called, self._steady) > self.link.unheard_s:
            self._call_again(peer, now)

    def _call_again(self, peer: Peer, now: float) -> None:
        """What is said to the peer leads nowhere, and nobody has ended the connection: a firewall
        has forgotten it, or somebody else has taken this node's name at the peer. One that has
        ended is called again by its socket, and counts as lost after a while.
        """
        self.redials += 1
        log.warning("node %s: %s: calling it again", self.name, peer.trouble(now),
                    extra={"rank": self.name, "peer": peer.name})
        socket = self._dealer(peer.endpoint)
        self._watch.remove(peer.socket)
        peer.socket.close(linger=0)
        peer.socket, peer.called = socket, now
        self._dirty[peer.name] = peer
        self.on_returned(peer)

    def _note_connections(self, now: float) -> None:
        for change in self._watch.changes():
            peer = next(peer for peer in self.peers.values() if peer.socket is change.socket)
            if not change.up:
                peer.broken = peer.broken or now + self.link.grace_s
                self._look_at = 0.0
            elif peer.broken is not None:
                # The same process, or another in its place: that one tells as soon as it speaks.
                peer.broken = None
                self.on_returned(peer)

    def _look_after_peers(self, now: float) -> None:
        """Lose who is gone, speak to who has long heard nothing, and note when to look again: there
        may be thousands, and a turn is short.
        """
        link = self.link
        look_at = now + link.sign_of_life_s
        for peer in list(self.peers.values()):
            if peer.lost:
                continue
            if peer.broken is not None and now > peer.broken:
                self._lose(peer, f"its connection has ended, and has not come back for "
                                 f"{self.link.grace_s:g} s")
            elif now - peer.heard > link.silent_s:
                peer.mute = peer.mute or peer.heard
                self._lose(peer, f"nothing heard for {link.silent_s:g} s")
            elif now - peer.heard > link.unheard_s and peer.mute is None:
                peer.mute = peer.heard
                self._dirty[peer.name] = peer
            elif now - peer.spoken > link.sign_of_life_s:
                self._dirty[peer.name] = peer
            else:
                unheard_s = link.unheard_s if peer.mute is None else link.silent_s
                look_at = min(look_at, peer.spoken + link.sign_of_life_s,
                              peer.heard + unheard_s, peer.broken or look_at)
        self._look_at = max(look_at, now + LOOK_S)

    def _lose(self, peer: Peer, why: str, level: int = logging.WARNING) -> None:
        peer.lost = True
        peer.broken = None
        peer.out.clear()
        self._watch.remove(peer.socket)
        peer.socket.close(linger=0)
        self._dirty.pop(peer.name, None)
        log.log(level, "node %s: lost connection to %s: %s", self.name, peer.name, why,
                extra={"rank": self.name, "peer": peer.name})
        self.on_lost(peer, why)

    def _flush(self, peer: Peer, now: float) -> None:
        data, left = encode_some(self.name, self.incarnation, self.floor(), peer.out,
                                 unheard_ms=peer.unheard_ms(now))
        peer.spoken = now
        try:
            peer.socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            self._dirty.pop(peer.name, None)  # all of it again with the next sign of life
            return
        peer.out = list(left)
        if not peer.out:
            self._dirty.pop(peer.name, None)

    def _dealer(self, endpoint: str) -> "zmq.Socket[bytes]":
        return calling(self._context, self.name, endpoint, self.link, self._watch)
