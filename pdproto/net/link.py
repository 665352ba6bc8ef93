"""How a node talks: where it listens, how often it speaks, whom it trusts, and its sockets."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import zmq

from pdproto.net.watch import Watch
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import BATCH_BYTES_MAX

CONNECT_AGAIN_MS: Final = 50  # at first; then twice as long each time, up to
CONNECT_AGAIN_MAX_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Curve:
    """Keys of the CURVE handshake (zmq.curve_keypair). server: the public key of those we call."""

    public: bytes
    secret: bytes
    server: bytes


@dataclass(frozen=True, slots=True)
class Link:
    """How a node talks. bind: a ZeroMQ endpoint; port 0 takes a free one.

    sign_of_life_s: how often a silent node says that it is there. silent_s: how long a peer may say
    nothing before it counts as gone. grace_s: how long a connection that has ended may take to come
    back before the peer counts as gone; in the default ZeroMQ tries three times. advertise: the
    endpoint that peers are told to call, where that is not the bound one: of a container's host, of
    a proxy, or of one address where all are bound.
    """

    bind: str = "tcp://127.0.0.1:0"
    high_water: int = 10_000
    sign_of_life_s: float = 1.0
    silent_s: float = 5.0
    grace_s: float = 0.5
    curve: Curve | None = None
    advertise: str | None = None


def listening(context: "zmq.Context[zmq.Socket[bytes]]", name: str, link: Link
              ) -> "zmq.Socket[bytes]":
    """The socket that a node is called at. Raises OSError, which ends the context too."""
    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.RCVHWM, link.high_water)
    socket.setsockopt(zmq.MAXMSGSIZE, BATCH_BYTES_MAX)
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a node that restarts takes its name again
    if link.curve is not None:
        socket.curve_server = True
        socket.curve_secretkey = link.curve.secret
        socket.curve_publickey = link.curve.public
    try:
        socket.bind(link.bind)
    except zmq.ZMQError as error:
        socket.close()
        context.term()
        raise OSError(f"node {name} cannot listen on {link.bind}: {error}") from error
    return socket


def calling(
    context: "zmq.Context[zmq.Socket[bytes]]", name: str, endpoint: str, link: Link, watch: Watch
) -> "zmq.Socket[bytes]":
    """The socket by which a node calls a peer. Raises RemoteProtocolError if there can be none."""
    try:
        socket = context.socket(zmq.DEALER)
    except zmq.ZMQError as error:
        raise RemoteProtocolError(f"no socket for {endpoint!r}: {error}") from error
    try:
        socket.setsockopt(zmq.SNDHWM, link.high_water)
        socket.setsockopt_string(zmq.IDENTITY, name)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, CONNECT_AGAIN_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, CONNECT_AGAIN_MAX_MS)
        if link.curve is not None:
            socket.curve_secretkey = link.curve.secret
            socket.curve_publickey = link.curve.public
            socket.curve_serverkey = link.curve.server
        watch.add(socket)
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        with suppress(zmq.ZMQError):
            watch.remove(socket)
        socket.close()
        raise RemoteProtocolError(f"cannot connect to {endpoint!r}: {error}") from error
    return socket
