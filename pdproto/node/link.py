"""How a node talks: where it listens, how often it speaks, whom it trusts, and its sockets."""

from contextlib import suppress
from dataclasses import dataclass
from socket import AF_INET6
from typing import Final

import zmq

from pdproto.engine.hosts import (
    family_of,
    is_elsewhere,
    is_loopback,
    is_wildcard,
    joined,
    route_to,
    split,
)
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.wire import BATCH_BYTES_MAX
from pdproto.transport.monitor import Watch

CONNECT_AGAIN_MS: Final = 50  # at first; then twice as long each time, up to
CONNECT_AGAIN_MAX_MS: Final = 1_000
CONNECT_MS: Final = 1_500  # for one attempt: the kernel's own goes on for two minutes
SIGNS_MISSED: Final = 2.5  # of life, before something is wrong with the connection
TCP: Final = "tcp://"


@dataclass(frozen=True, slots=True)
class Curve:
    """Keys of the CURVE handshake (zmq.curve_keypair). server: the public key of those we call."""

    public: bytes
    secret: bytes
    server: bytes


@dataclass(frozen=True, slots=True)
class Link:
    """How a node talks. bind: a ZeroMQ endpoint; port 0 takes a free one. The default is for peers
    on this host only; `tcp_at` writes the endpoint of an address. A wildcard (tcp://0.0.0.0:0 or
    tcp://*:0 for IPv4, tcp://[::]:0 for both) takes calls at every address of this host.

    sign_of_life_s: how often a silent node says that it is there. silent_s: how long a peer may say
    nothing before it counts as gone. grace_s: how long a connection that has ended may take to come
    back before the peer counts as gone; in the default ZeroMQ tries three times. advertise: the
    endpoint that peers are told to call, where that is not the bound one: of a container's host, or
    of a proxy. Without it a node that is bound to a wildcard tells each peer the address from which
    the route to that peer leaves.
    """

    bind: str = "tcp://127.0.0.1:0"
    high_water: int = 10_000
    sign_of_life_s: float = 1.0
    silent_s: float = 5.0
    grace_s: float = 0.5
    curve: Curve | None = None
    advertise: str | None = None

    @property
    def unheard_s(self) -> float:
        """After which a peer of which nothing comes is told so, and calls again."""
        return SIGNS_MISSED * self.sign_of_life_s


def tcp_at(host: str, port: int = 0) -> str:
    """The ZeroMQ endpoint of an address, IPv4 or IPv6."""
    return TCP + joined(host, port)


def place_of(endpoint: str) -> tuple[str, int]:
    """The host and the port of a ZeroMQ endpoint over TCP. Raises ValueError for any other."""
    return split(endpoint.removeprefix(TCP))


def host_of(endpoint: str) -> str | None:
    """The host of a ZeroMQ endpoint; None where it has none (ipc, inproc), or is malformed."""
    try:
        return place_of(endpoint)[0] if endpoint.startswith(TCP) else None
    except ValueError:
        return None


def told(name: str, link: Link, bound: str, theirs: str) -> str:
    """The endpoint at which a peer is told to call a node. bound: where the node listens. theirs:
    the endpoint of the peer.

    Raises RemoteProtocolError, with the way out, where the peer could not call it.
    """
    ours, host = host_of(bound), host_of(theirs)
    if host is not None and is_wildcard(host):
        raise RemoteProtocolError(f"{theirs} stands for every address of a host: want the one at "
                                  f"which it can be called from here")
    if link.advertise is not None or ours is None or host is None:
        return link.advertise or bound
    if is_loopback(ours) and is_elsewhere(host):
        raise RemoteProtocolError(
            f"node {name} listens on {ours}, which {host} cannot call: start it with "
            f"Link({tcp_at(route_to(host))!r}), or say what to call (Link.advertise)")
    if not is_wildcard(ours):
        return bound
    try:
        route = route_to(host)
    except (OSError, ValueError) as error:
        raise RemoteProtocolError(f"node {name} listens on {ours}, and which of its addresses "
                                  f"{host} can call is not known: {error}; say what to call "
                                  f"(Link.advertise)") from None
    if family_of(route) != family_of(ours) and family_of(ours) != AF_INET6:
        raise RemoteProtocolError(f"node {name} listens on {ours}, without IPv6, and {host} has no "
                                  f"other way to call it: start it with Link('tcp://[::]:0')")
    return tcp_at(route, place_of(bound)[1])


def listening(context: "zmq.Context[zmq.Socket[bytes]]", name: str, link: Link
              ) -> "zmq.Socket[bytes]":
    """The socket that a node is called at. Raises OSError, which ends the context too."""
    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.IPV6, "[" in link.bind)
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
        socket.setsockopt(zmq.IPV6, "[" in endpoint)
        socket.setsockopt(zmq.SNDHWM, link.high_water)
        socket.setsockopt_string(zmq.IDENTITY, name)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, CONNECT_AGAIN_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, CONNECT_AGAIN_MAX_MS)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        socket.setsockopt(zmq.HANDSHAKE_IVL, round(link.silent_s * 1e3))
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
