"""The ZeroMQ sockets of a node: one ROUTER that peers call, and a DEALER for each peer it calls."""

import logging
from contextlib import suppress
from socket import AF_INET6
from typing import Final

import zmq
from zmq.auth.thread import ThreadAuthenticator

from pdproto.net.hosts import (
    family_of,
    in_zone,
    is_elsewhere,
    is_loopback,
    is_wildcard,
    place_in_kernel,
    route_to,
    without_zone,
)
from pdproto.node.link import TCP, Curve, Link, host_of, place_of, require_private, tcp_at
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import BATCH_BYTES_MAX, HANDSHAKE_S, UNREAD_BATCHES_MAX
from pdproto.transport.monitor import Monitor
from pdproto.transport.resolver import name_in

log = logging.getLogger("pdproto.keys")

CONNECT_AGAIN_MS: Final = 50  # the first pause between attempts; it doubles each time
CONNECT_AGAIN_MAX_MS: Final = 1_000  # the longest pause
CONNECT_MS: Final = 1_500  # the limit for one attempt; the kernel's own limit is two minutes
DOMAIN: Final = b"pdproto"  # the authenticator's name for our sockets
FAREWELL_MS: Final = 200  # how long a closed socket may still send the last batches


class Authenticator(ThreadAuthenticator):
    """Accepts only peers that have a key of the cluster (ZAP, RFC 27), in a thread of its own."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", curve: Curve) -> None:
        """Start it for this context. No socket may listen before it has started."""
        super().__init__(context, log=log)
        self._known: Final = curve.known
        self.refused = 0  # handshakes with a key that is not of the cluster
        self.configure_curve_callback(DOMAIN.decode(), self)
        self.start()

    def callback(self, _domain: str, key: bytes) -> bool:
        """Whether this public key is known. Called for each handshake."""
        is_known = key in self._known
        self.refused += not is_known
        return is_known


class Dealer:
    """A connection to one peer (node/ports.py). Its identity tells the peer this node's name."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", name: str, peer: str,
                 endpoint: str, link: Link, monitor: Monitor) -> None:
        """Connect to the peer of that name, if the endpoint has its address; otherwise `call` does.
        Raises RemoteProtocolError if the socket cannot be opened or connected, and if no key of the
        peer is known.
        """
        self._monitor: Final = monitor
        try:  # None: not resolved yet
            self._address = called(endpoint, link) if name_in(endpoint) is None else None
        except (OSError, ValueError) as error:
            raise RemoteProtocolError(str(error)) from None
        server = None if link.curve is None else link.curve.key_of(peer)
        if link.curve is not None and server is None:
            raise RemoteProtocolError(f"no key of {peer!r} is known: give its member keys with "
                                      f"`pdproto node keys FOLDER --member NAME`")
        try:
            self._socket: Final = context.socket(zmq.DEALER)
        except zmq.ZMQError as error:
            raise RemoteProtocolError(f"no socket for {endpoint!r}: {error}") from error
        try:
            self._set(name, endpoint, link)
            if link.curve is not None and server is not None:
                self._socket.curve_secretkey = link.curve.secret
                self._socket.curve_publickey = link.curve.public
                self._socket.curve_serverkey = server
            monitor.add(self, self._socket)
            if self._address is not None:
                self._socket.connect(self._address)
        except zmq.ZMQError as error:
            with suppress(zmq.ZMQError):
                monitor.remove(self)
            self._socket.close()
            raise RemoteProtocolError(f"cannot connect to {endpoint!r}: {error}") from error

    def _set(self, name: str, endpoint: str, link: Link) -> None:
        socket = self._socket
        socket.setsockopt(zmq.IPV6, "[" in endpoint)
        socket.setsockopt(zmq.SNDHWM, link.high_water)
        socket.setsockopt_string(zmq.IDENTITY, name)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, CONNECT_AGAIN_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, CONNECT_AGAIN_MAX_MS)
        socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_MS)
        socket.setsockopt(zmq.HANDSHAKE_IVL, round(link.silent_s * 1e3))

    def call(self, endpoint: str) -> None:
        """Connect to this endpoint, which has the peer's address, unless it has been closed."""
        self._address = endpoint
        with suppress(zmq.ZMQError):
            self._socket.setsockopt(zmq.IPV6, "[" in endpoint)
            self._socket.connect(endpoint)

    def send(self, data: bytes) -> bool:
        """See Connection."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def probe(self) -> None:
        """See Connection. A name that is not resolved yet says nothing about its host."""
        if self._address is not None:
            self._monitor.probe(self, self._address)

    def close(self) -> None:
        """See Connection. It may be called twice."""
        self._monitor.remove(self)
        self._socket.close(linger=0)

    def part(self) -> None:
        """End the connection when the last batches are sent, or after `FAREWELL_MS`."""
        self._monitor.remove(self)
        self._socket.close(linger=FAREWELL_MS)


def listening(context: "zmq.Context[zmq.Socket[bytes]]", name: str, link: Link
              ) -> "zmq.Socket[bytes]":
    """The socket on which a node listens. Raises OSError if it cannot listen there, or must not
    without keys.
    """
    if link.bind.startswith(TCP):
        # Where ZeroMQ takes more than an address, such as the name of an interface, so does this.
        host = link.bind.removeprefix(TCP).rpartition(":")[0].strip("[]")
        require_private(f"node {name}", host, keyed=link.curve is not None, insecure=link.insecure)
    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.IPV6, "[" in link.bind)
    socket.setsockopt(zmq.RCVHWM, UNREAD_BATCHES_MAX)
    socket.setsockopt(zmq.MAXMSGSIZE, BATCH_BYTES_MAX)
    socket.setsockopt(zmq.HANDSHAKE_IVL, round(HANDSHAKE_S * 1e3))
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)  # a node that restarts may use its name again
    if link.curve is not None:
        socket.curve_server = True
        socket.curve_secretkey = link.curve.secret
        socket.curve_publickey = link.curve.public
        socket.zap_domain = DOMAIN
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without an authenticator, all are refused
    try:
        socket.bind(link.bind)
    except zmq.ZMQError as error:
        socket.close()
        raise OSError(f"node {name} cannot listen on {link.bind}: {error}") from error
    return socket


def address_for(name: str, link: Link, bound: str, theirs: str) -> str:
    """The endpoint at which a peer can call the node `name`.

    bound: where the node listens. theirs: the endpoint of the peer. Raises RemoteProtocolError if
    the peer cannot call the node; the message says how to change that.
    """
    ours, host = host_of(bound), host_of(theirs)
    if host is not None and is_wildcard(host):
        raise RemoteProtocolError(f"{theirs} stands for every address of a host: want one "
                                  f"address that this host can call")
    if host is not None:
        try:
            host = in_zone(host, ours or "")
            place_in_kernel(host, 0)
        except OSError as error:  # a zone of another host, or none where there are several
            raise RemoteProtocolError(str(error)) from None
    if link.advertise is not None or ours is None or host is None:
        return link.advertise or told(bound)
    if is_loopback(ours) and is_elsewhere(host):
        raise RemoteProtocolError(
            f"node {name} listens on {ours}, which {host} cannot call: start it with "
            f"Link({tcp_at(route_to(host))!r}), or give the address to call (Link.advertise)")
    if not is_wildcard(ours):
        return told(bound)
    try:
        route = route_to(host)
    except (OSError, ValueError) as error:
        raise RemoteProtocolError(f"node {name} listens on {ours}, and no route tells "
                                  f"which of its addresses {host} can call: {error}; give the "
                                  f"address (Link.advertise)") from None
    if family_of(route) != family_of(ours) and family_of(ours) != AF_INET6:
        raise RemoteProtocolError(f"node {name} listens on {ours}, without IPv6, and {host} has no "
                                  f"other way to call it: start it with Link('tcp://[::]:0')")
    return told(tcp_at(route, place_of(bound)[1]))


def told(bound: str) -> str:
    """The endpoint as a peer is told it; see `without_zone`."""
    host = host_of(bound)
    return bound if host is None else tcp_at(without_zone(host), place_of(bound)[1])


def called(endpoint: str, link: Link) -> str:
    """The endpoint as ZeroMQ calls it; see `in_zone`. Raises OSError as that does, and ValueError
    for a malformed one: ZeroMQ calls port 5 for 65541.
    """
    if not endpoint.startswith(TCP):
        return endpoint
    host, port = place_of(endpoint)
    return tcp_at(in_zone(host, host_of(link.bind) or ""), port)
