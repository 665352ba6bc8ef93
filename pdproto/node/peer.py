"""The state that a node keeps about another node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple, Protocol

from pdproto.node.metrics import Metrics
from pdproto.node.ports import Connection
from pdproto.runtime import checked
from pdproto.runtime.batches import Batch
from pdproto.runtime.limits import PEERS_MAX, REASON_MAX
from pdproto.runtime.role import PRESENCE_ROLE
from pdproto.runtime.versions import OLDEST
from pdproto.runtime.wire import AnyFrame, Life, Owner
from pdproto.spec.handoff.presence import SILENT, Presence

GIVEN_UP_S: Final = 60.0  # after so long, a silent peer no longer counts as a network problem
NAMED_MAX: Final = 3  # peers that one message names


@dataclass(slots=True, eq=False)
class Peer:
    """Another node. All times are in seconds of this node's clock.

    endpoint: where the peer listens. out: frames to send. spoken, heard: times of the last batch to
    the peer and of the last batch from it. ours: the endpoint that the peer is told to call.
    called: when `connection` was opened. member: see Life. incarnation: of the peer; 0 until its
    first batch. broken:
    until when a connection may come that has ended, or was never made. reached: one was made.
    refused: the peer's host refuses one. presence, state: what the table of the peer says of its
    process, and its state (spec/handoff/presence.py). lost: nothing is kept for the peer any more.
    ended: its process is known to have ended. due: when the peer must be looked at. barred: why the
    peer cannot write to this node's data path; empty if it can.

    Each direction has a connection of its own, so one may be broken while the other works. mute:
    since when nothing has come from the peer though a sign of life was due. deaf: since when the
    peer has received nothing from this node, as it reports itself. version: of the wire format, for
    batches to the peer. replaceable: by life, the place in `out` of
    a frame that another may replace (Part.replaces).
    """

    name: str
    endpoint: str
    connection: Connection
    out: list[AnyFrame]
    spoken: float
    heard: float
    ours: str
    called: float
    member: str | None = None
    incarnation: int = 0
    broken: float | None = None
    reached: bool = False
    refused: bool = False
    presence: Presence = Presence.PRESENT
    state: int = field(default_factory=lambda: PRESENCE_ROLE.automaton().initial)
    due: float = inf
    mute: float | None = None
    deaf: float | None = None
    lost: bool = False
    ended: bool = False
    barred: str = ""
    version: int = OLDEST
    replaceable: dict[Life, int] = field(default_factory=dict)

    @property
    def owner(self) -> Owner:
        """Of the lives that the peer begins."""
        return self.member or "", self.incarnation

    def says(self, reason: str) -> str:
        """A reason that the peer has sent, for a line: it may have written any text."""
        return checked.one_line(f"{self.name}: {reason}", REASON_MAX)

    def unheard_ms(self, now: float) -> int:
        """Milliseconds since `mute`; 0 if batches come from the peer in time."""
        return 0 if self.mute is None else max(1, round((now - self.mute) * 1e3))

    def trouble(self, now: float) -> str:
        """Which direction of the connection is broken, and for how long; empty if both work."""
        if self.mute is not None:
            return f"nothing has come from {self.name} for {now - self.mute:.0f} s"
        if self.deaf is not None:
            return f"{self.name} reports that it has received nothing for {now - self.deaf:.0f} s"
        return ""


class OutgoingBatch(NamedTuple):
    """A batch to send to a peer. sent: of the frames for the peer that are in it, the first ones.
    """

    peer: Peer
    connection: Connection
    data: bytes
    sent: int


class Listener(Protocol):
    """The node that `Connections` informs about its peers (core.py)."""

    def floor(self) -> int:
        """The generation below which every life of this node is over."""

    def on_overdue(self, peer: Peer, why: str) -> None:
        """React to a peer for which no hand-over waits any longer."""

    def on_lost(self, peer: Peer, why: str) -> None:
        """React to a peer that counts as gone from now on."""

    def on_ended(self, peer: Peer) -> None:
        """React to the end of the process of a lost peer."""

    def on_returned(self, peer: Peer) -> None:
        """React to a peer that can be reached again. Frames that were under way may be lost."""

    def on_unencodable(self, peer: Peer, frame: AnyFrame, error: Exception) -> None:
        """React to a frame that has no bytes, by a defect at this end. It is dropped."""


def endpoint_of(batch: Batch) -> str | None:
    """The endpoint on which the peer listens, if one of its frames gives it; else None."""
    endpoints = (getattr(frame, "endpoint", None) for frame in batch.frames)
    return next((endpoint for endpoint in endpoints if endpoint is not None), None)


def cut_off(peers: Iterable[Peer], now: float) -> str | None:
    """Why the network connects a node to none of its peers. None if one peer is connected, or if
    there are no peers.

    A peer whose process has ended, or whose connection was closed, does not count. now: in seconds
    of the node's clock.
    """
    troubles = []
    for peer in peers:
        is_over = peer.ended or (peer.lost if peer.mute is None else now - peer.heard > GIVEN_UP_S)
        if not is_over:
            troubles.append(peer.trouble(now))
    if not troubles or not all(troubles):
        return None
    others = f", and {len(troubles) - NAMED_MAX} others" if len(troubles) > NAMED_MAX else ""
    return "; ".join(troubles[:NAMED_MAX]) + others


def measure_peers(metrics: Metrics, peers: Mapping[str, Peer]) -> None:
    """Add the numbers of these peers to the metrics of their node."""
    metrics.gauge("suspected_peers", "Peers of which no sign of life comes",
                  lambda: sum(peer.presence in SILENT for peer in list(peers.values())))
    metrics.gauge("unheard_peers", "Peers with a broken connection in one direction or both",
                  lambda: sum(bool(peer.mute or peer.deaf) for peer in list(peers.values())
                              if not peer.lost))


def full_for(member: str | None, peers: Mapping[str, Peer]) -> str:
    """Why there is no place for one more peer of this member; empty if there is one. A member has
    as many as there are places left, because it may say any number of names of its own.
    """
    left = PEERS_MAX - len(peers)
    if left <= 0:
        return f"{PEERS_MAX:,} peers are known already"
    if member is None or len(peers) < left:
        return ""
    of_member = sum(peer.member == member for peer in peers.values())
    return "" if of_member < left else (
        f"{of_member:,} peers of its member are known already, and {left:,} places are left")


def peers_at(endpoint: str, peers: Mapping[str, Peer]) -> list[Peer]:
    """Those at this endpoint that are not lost. Two connections to it would have one name of ours,
    and its ROUTER serves one of them.
    """
    return [peer for peer in peers.values() if peer.endpoint == endpoint and not peer.lost]
