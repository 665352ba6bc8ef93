"""A peer: another node, as this node knows it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pdproto.node.ports import Connection
from pdproto.runtime.wire import AnyFrame, Batch

GIVEN_UP_S: Final = 60.0  # after that, a lost peer no longer counts as a trouble of the network
NAMED_MAX: Final = 3  # peers that one line names


@dataclass(slots=True, eq=False)
class Peer:
    """Another node. All times are in seconds of the node's clock.

    out: frames that are to be sent. spoken, heard: the last batch to it, and from it. ours: where
    it is told to call this node. called: when `connection` was opened. incarnation: 0 until it has
    spoken. broken: until when a connection that has ended may come back. lost: it counts as gone.
    ended: its process is known to be no more: it has said so, or its successor has spoken.
    barred: why the data path can take no bytes from it; empty if it can.

    The two directions are two connections, and one may lead nowhere while the other works. mute:
    since when the peer is unheard though it should have spoken. deaf: since when it has heard
    nothing of this node, as it says itself.
    """

    name: str
    endpoint: str
    connection: Connection
    out: list[AnyFrame]
    spoken: float
    heard: float
    ours: str
    called: float
    incarnation: int = 0
    broken: float | None = None
    mute: float | None = None
    deaf: float | None = None
    lost: bool = False
    ended: bool = False
    barred: str = ""

    def unheard_ms(self, now: float) -> int:
        """For how long the peer is unheard though it should have spoken; 0 if it is not."""
        return 0 if self.mute is None else max(1, round((now - self.mute) * 1e3))

    def trouble(self, now: float) -> str:
        """In which direction nothing comes through, and for how long; empty if all does."""
        if self.mute is not None:
            return f"nothing has come from {self.name} for {now - self.mute:.0f} s"
        if self.deaf is not None:
            return f"nothing comes through to {self.name}, as it says, for {now - self.deaf:.0f} s"
        return ""


def endpoint_of(batch: Batch) -> str | None:
    """Where the peer listens, if one of its frames says so."""
    endpoints = (getattr(frame, "endpoint", None) for frame in batch.frames)
    return next((endpoint for endpoint in endpoints if endpoint is not None), None)


def cut_off(peers: Iterable[Peer], now: float) -> str | None:
    """Why nothing comes through between a node and any of its peers; None if something does, or
    there are none. A peer whose process has ended, or whose connection was closed, does not count.
    """
    troubles = []
    for peer in peers:
        is_over = peer.ended or (peer.lost and (peer.mute is None
                                                or now - peer.heard > GIVEN_UP_S))
        if not is_over:
            troubles.append(peer.trouble(now))
    if not troubles or not all(troubles):
        return None
    others = f", and {len(troubles) - NAMED_MAX} others" if len(troubles) > NAMED_MAX else ""
    return "; ".join(troubles[:NAMED_MAX]) + others
