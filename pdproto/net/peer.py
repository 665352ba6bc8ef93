"""Another node, as one knows it that speaks to it."""

from dataclasses import dataclass

import zmq

from pdproto.runtime.wire import AnyFrame, Batch


@dataclass(slots=True, eq=False)
class Peer:
    """Another node, as this one knows it. incarnation: 0 until it has spoken. broken: until when
    its connection may come back, if it has ended. ended: that the process is no more is known, not
    only supposed: it has said so, or its successor has spoken.
    """

    name: str
    endpoint: str
    socket: "zmq.Socket[bytes]"
    out: list[AnyFrame]
    spoken: float
    heard: float
    incarnation: int = 0
    broken: float | None = None
    lost: bool = False
    ended: bool = False


def endpoint_of(batch: Batch) -> str | None:
    """Where the peer listens, if one of its frames says so."""
    endpoints = (getattr(frame, "endpoint", None) for frame in batch.frames)
    return next((endpoint for endpoint in endpoints if endpoint is not None), None)
