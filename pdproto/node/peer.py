"""Another node, as one knows it that speaks to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import zmq

from pdproto.runtime.wire import AnyFrame, Batch

GIVEN_UP_S: Final = 60.0  # a peer that was lost so long ago is no trouble of the network's any more
NAMED_MAX: Final = 3  # peers in one line of what is wrong


@dataclass(slots=True, eq=False)
class Peer:
    """Another node, as this one knows it. ours: where it is told to call this one. called: since
    when this one calls it by that socket. incarnation: 0 until it has spoken. broken: until when
    its connection may come back, if it has ended. ended: that the process is no more is known, not
    only supposed: it has said so, or its successor has spoken. barred: why the data plane can take
    no bytes from there, if so.

    The two directions are two connections, and one may lead nowhere while the other works. mute:
    since when nothing has come of a peer that should have spoken. deaf: since when it has heard
    nothing of this node, as it says itself.
    """

    name: str
    endpoint: str
    socket: "zmq.Socket[bytes]"
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
        """For how long nothing has come of it that should have; 0 if that is not so."""
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
