"""The peers of a node: the connections to them, the frames for them, and their losses.

A node has a connection of its own to each peer. The frames for a peer in one turn go out as one
batch.

Rule 1: a broken connection is opened again, whichever end notices. The peer reports that it
        receives nothing from a node whose sign of life is due (`Batch.unheard_ms`). The node then
        opens a new connection: a firewall may have dropped the old one without a word, or another
        node may have its address now.
Rule 2: queues are bounded. A peer that does not read loses frames, and the tables repeat them.
Rule 3: a node that does not read cannot know which peer is silent. So all times are of its own
        clock, which stands still with it (own_clock.py).
Rule 4: the table of a peer decides what its silence, the end of its connection and a refusal mean
        (spec/handoff/presence.py). Here they become events of that table.
Rule 5: a turn looks only at peers that are due. So an idle node costs the signs of life of its
        peers, and no more.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any, Final

from pdproto.node.link import Link
from pdproto.node.peer import Listener, OutgoingBatch, Peer, full_for, peers_at
from pdproto.node.ports import Connection, ConnectionChange, Pace, Transport
from pdproto.node.suspicions import Suspicions
from pdproto.runtime.automaton import Event
from pdproto.runtime.batches import VersionError, encode, encode_some, unencodable
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import WAITING_FRAMES_MAX
from pdproto.runtime.own_clock import OwnClock
from pdproto.runtime.role import PRESENCE_ROLE
from pdproto.runtime.wire import AnyFrame
from pdproto.spec.handoff import presence as tables
from pdproto.spec.handoff.presence import HELD, Presence

log = logging.getLogger("pdproto.node")

CHECKS: Final = 20  # of all peers, at most, in the time of a sign of life

# The events of the table of a peer.
_PEER: Final = PRESENCE_ROLE.automaton()
_SIGN, _CUT, _REFUSED, _PROOF = (
    _PEER.message(message, (0,))
    for message in (tables.sign, tables.cut, tables.refused, tables.proof))
_SILENCE, _ABSENCE, _NO_RETURN, _REPLACE = map(
    _PEER.call, ("silence", "absence", "no_return", "replace"))


_PRESENCES: Final = tuple((tables.presence(tables.e) == one, one) for one in Presence)
_TOLD: Final = {Presence.SUSPECTED: "suspects", Presence.OVERDUE: "no longer waits for"}


class Connections:
    """The peers of one node, by name. Only the node's turn calls these methods, unless they say
    that any thread may.

    replaces: see Part.
    """

    def __init__(
        self, name: str, incarnation: int, link: Link, listener: Listener, clock: OwnClock
    ) -> None:
        self.peers: Final[dict[str, Peer]] = {}
        self.dropped_frames = 0  # not kept for peers that do not read
        self.redials = 0  # broken connections that were opened again
        self.check_at = 0.0  # the time of the next check of peers
        self.replaces: Mapping[type[Any], type[Any]] = {}
        self._name: Final = name
        self._incarnation: Final = incarnation
        self._link: Final = link
        self._listener: Final = listener
        self._clock: Final = clock
        self.suspicions: Final = Suspicions()
        self._transport: Transport
        self.dirty: Final[dict[str, Peer]] = {}  # peers to which a batch must go
        self._called: Final[dict[Connection, Peer]] = {}
        # When to look at which peer, the earliest first. Those before `Peer.due` count no more.
        self._looks: Final[list[tuple[float, int, Peer]]] = []
        self._numbers: Final = count()

    def begin(self, transport: Transport) -> None:
        """Connect by this transport from now on."""
        self._transport = transport

    def lost(self) -> tuple[str, ...]:
        """The names of the peers that count as gone. For any thread."""
        return tuple(peer.name for peer in list(self.peers.values()) if peer.lost)

    # For the node

    def forget_lost(self) -> None:
        """Keep nothing of the peers that count as gone."""
        for name in self.lost():
            del self.peers[name]
            self.suspicions.forget(name)

    def require_place(self, name: str) -> None:
        """Raise RemoteProtocolError if there is no place for one more peer, of this name."""
        member = self._link.member_of(name)
        if full_for(member, self.peers):
            self.forget_lost()
        if full := full_for(member, self.peers):
            raise RemoteProtocolError(full)

    def connect(self, name: str, endpoint: str, now: float) -> Peer:
        """The peer of that name, at that endpoint. A peer of the same name at another endpoint
        counts as gone, unless it is connected and heard of: then the endpoint is that of an earlier
        run, which a request may have been told before the restart. The same holds of another name
        at this endpoint. Raises RemoteProtocolError then, and if no connection can be opened.
        """
        peer = self.peers.get(name)
        if peer is not None and not peer.lost:
            if peer.endpoint == endpoint:
                return peer
            if self._is_well(peer, now):
                raise RemoteProtocolError(
                    f"{name} is at {peer.endpoint} now, and the request names {endpoint}")
            self.replace(peer, f"another process has its name now, at {endpoint}")
        for other in peers_at(endpoint, self.peers):
            if self._is_well(other, now):
                raise RemoteProtocolError(f"{other.name} is at {endpoint} now, and not {name}")
            self.replace(other, f"another request names {name} at its address, {endpoint}")
        before, ours = peer, self._transport.address_for(endpoint)
        connection = self._transport.connect(name, endpoint)
        peer = Peer(name, endpoint, connection, [], 0.0, now, ours, now,
                    self._link.member_of(name))
        peer.broken = now + self._link.grace_s  # its address is known, so it listens or has ended
        if before is not None and not before.ended:
            peer.mute = before.mute  # it stays silent until its next batch
        self.peers[name] = self._called[connection] = peer
        self._look_at(peer, now)
        return peer

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
                self.replace(peer, str(error))
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

    def replace(self, peer: Peer, why: str) -> None:
        """Keep nothing for the peer any more: no message goes between it and this node."""
        self._take(peer, _REPLACE, why)

    def end(self, peer: Peer, why: str, level: int = logging.WARNING) -> None:
        """Note that the peer's process has ended."""
        self._take(peer, _PROOF, why, level)

    def _take(self, peer: Peer, event: Event, why: str = "", level: int = logging.WARNING) -> None:
        """Give the table of the peer an event, and carry out its step."""
        before, was_lost = peer.presence, peer.lost
        peer.state = _PEER.take(event, peer.state).state
        found = peer.presence = _PEER.first_value(_PRESENCES, peer.state)
        if found is before:
            return
        peer.ended = found is Presence.ENDED
        self.suspicions.note(peer.name, held=found in HELD, heard=peer.heard,
                             now=self._clock.now)
        if found is Presence.PRESENT:
            self._listener.on_returned(peer)
            return
        if not was_lost:
            told = _TOLD.get(found, "lost connection to")
            log.log(level, "node %s: %s", self._name, f"{told} {peer.says(why)}",
                    extra={"rank": self._name, "peer": peer.name})
        if found is Presence.OVERDUE:
            self._listener.on_overdue(peer, why)
        elif found is not Presence.SUSPECTED:
            if not was_lost:
                self._lose(peer, why)
            if peer.ended:
                self._listener.on_ended(peer)

    def _lose(self, peer: Peer, why: str) -> None:
        peer.lost = True
        peer.broken = None
        peer.out.clear()
        peer.replaceable.clear()
        self._hang_up(peer)
        self.dirty.pop(peer.name, None)
        self._listener.on_lost(peer, why)

    def _hang_up(self, peer: Peer) -> None:
        self._called.pop(peer.connection, None)
        peer.connection.close()

    def lose_connection(self, connection: Connection, why: str) -> None:
        """Note that the peer cannot be reached that this connection was to reach."""
        peer = self._called.get(connection)
        if peer is not None:
            self._take(peer, _REFUSED, why)

    # Parts of a turn

    def note_heard(self, peer: Peer, unheard_ms: int, now: float) -> None:
        """Note a batch of the peer. unheard_ms: how long the peer has received nothing from here.
        """
        peer.heard = now
        was_mute, peer.mute = peer.mute is not None, None
        if peer.presence is not Presence.PRESENT:
            self._take(peer, _SIGN)
        elif was_mute:
            self._listener.on_returned(peer)
        if not unheard_ms:
            peer.deaf = None
            return
        peer.deaf = peer.deaf or now - unheard_ms / 1e3
        since = max(peer.called, self._clock.steady)
        if peer.broken is None and now - since > self._link.unheard_s:
            self._open_again(peer, now)

    def _open_again(self, peer: Peer, now: float) -> None:
        """Replace a broken connection that has not been closed.

        The transport itself opens a closed connection again.
        """
        self.redials += 1
        log.warning("node %s: %s: opening a new connection", self._name, peer.trouble(now),
                    extra={"rank": self._name, "peer": peer.name})
        connection = self._transport.connect(peer.name, peer.endpoint)
        self._hang_up(peer)
        peer.connection, peer.called = connection, now
        self._called[connection] = peer
        self.dirty[peer.name] = peer
        self._listener.on_returned(peer)

    def note_changes(self, changes: Iterable[ConnectionChange], now: float) -> None:
        """Note connections that have ended, were made, or are refused."""
        for connection, up, refused in changes:
            peer = self._called.get(connection)
            if peer is None:
                continue  # an earlier change has replaced the connection
            if up:
                # The same process, or its successor: its first batch gives its incarnation.
                is_back = peer.reached and peer.broken is not None
                peer.broken, peer.reached, peer.refused = None, True, False
                if is_back:
                    self._listener.on_returned(peer)
                continue
            if not refused:
                peer.broken = peer.broken or now + self._link.grace_s
            elif peer.broken is not None:
                peer.refused = True
            self._look_at(peer, now)

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
            del peer.out[:batch.sent]
            peer.replaceable.clear()
        self.dirty.pop(peer.name, None)
        if taken and peer.out:
            self.dirty[peer.name] = peer  # behind the others: a turn may have time for one batch

    def check_peers(self, now: float) -> None:
        """Look at the peers that are due: give signs of life, and note silence. Then compute when
        the next check is due, because there may be thousands of peers and a turn is short.
        """
        if now < self.check_at:
            return
        looks = self._looks
        while looks and looks[0][0] <= now:
            peer = heappop(looks)[2]
            if peer.due <= now and not peer.lost:
                peer.due = inf
                self._look(peer, now)
                self._look_at(peer, self._next_look(peer, now))
        sign_s = self._link.sign_of_life_s
        self.check_at = max(looks[0][0], now + sign_s / CHECKS) if looks else now + sign_s

    def _look_at(self, peer: Peer, when: float) -> None:
        """Look at the peer at this time, or before."""
        if when < peer.due:
            peer.due = when
            heappush(self._looks, (when, next(self._numbers), peer))
            self.check_at = min(self.check_at, when)

    def _look(self, peer: Peer, now: float) -> None:
        link, silent_s = self._link, now - peer.heard
        if now - peer.spoken >= link.sign_of_life_s:
            self.dirty[peer.name] = peer
        if silent_s > link.unheard_s and peer.mute is None:
            peer.mute = peer.heard
            self.dirty[peer.name] = peer
        if peer.broken is not None and now > peer.broken:
            self._look_for_end(peer)
        bounds = {Presence.PRESENT: (_SILENCE, link.silent_s),
                  Presence.SUSPECTED: (_ABSENCE, link.overdue_s),
                  Presence.OVERDUE: (_NO_RETURN, link.overdue_s + link.returns_s)}
        while peer.presence in bounds:
            event, bound_s = bounds[peer.presence]
            if silent_s <= bound_s:
                return
            self._take(peer, event, f"nothing heard for {bound_s:g} s")

    def _look_for_end(self, peer: Peer) -> None:
        """The connection has not come in time."""
        if not peer.reached and peer.incarnation:
            return  # it lives, and gives an address at which nobody can call it
        if peer.refused:
            self._take(peer, _REFUSED, "its connection has ended, and its host refuses another one"
                       if peer.reached else "its host refuses a connection")
            return
        peer.connection.probe()
        if peer.reached:
            self._take(peer, _CUT, f"its connection has ended, and has not come back for "
                                   f"{self._link.grace_s:g} s")

    def _next_look(self, peer: Peer, now: float) -> float:
        link = self._link
        speaks = peer.spoken + link.sign_of_life_s
        times = (speaks if speaks > now else now + link.sign_of_life_s, peer.broken or 0.0,
                 peer.heard + (link.unheard_s if peer.mute is None else link.silent_s))
        return min(when for when in times if when > now)

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
            yield OutgoingBatch(peer, peer.connection, data, 0)

    def _batch_for(self, peer: Peer, now: float) -> OutgoingBatch:
        try:
            data, sent = self._encoded(peer, now)
        except Exception:
            # Otherwise each turn would fail by it, and every hand-over with the peer. The abort of
            # such a life may have no bytes either.
            for _ in range(2):
                for spoilt, error in unencodable(peer.out, peer.version):
                    peer.out = [frame for frame in peer.out if frame is not spoilt]
                    peer.replaceable.clear()
                    self._listener.on_unencodable(peer, spoilt, error)
            data, sent = self._encoded(peer, now)
        peer.spoken = now
        return OutgoingBatch(peer, peer.connection, data, sent)

    def _encoded(self, peer: Peer, now: float) -> tuple[bytes, int]:
        # A process that has followed the peer does not know this node, and must be able to call it.
        is_known = peer.incarnation and peer.mute is None and peer.presence is Presence.PRESENT
        return encode_some(self._name, self._incarnation, self._listener.floor(), peer.out,
                           unheard_ms=peer.unheard_ms(now), version=peer.version,
                           call=None if is_known else peer.ours)
