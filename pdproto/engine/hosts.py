"""Addresses of hosts: how they are written, and from where each can be called.

A host is an IPv4 or IPv6 address as text, without brackets, or a name. Nothing here asks a name
server: event loops call these functions, and must not wait.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from pdproto.engine.contract import EngineError

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 128
PORT_OF_NOBODY: Final = 9  # `route_to` sends nothing: any port does


def joined(host: str, port: int) -> str:
    """10.0.0.1:80 or [fd00::1]:80."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(place: str) -> tuple[str, int]:
    """The host and the port of host:port or [host]:port. Raises ValueError for anything else."""
    host, colon, port = place.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or not port.isdecimal() or (":" in bare and bare == host):
        raise ValueError(f"{place!r}: want host:port, and [host]:port with an IPv6 address")
    return bare, int(port)


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address, or None if it is a name. An IPv4 address in IPv6 form is an IPv4 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_wildcard(host: str) -> bool:
    """Whether it stands for all addresses of a host (0.0.0.0, ::, *): no peer can call that."""
    address = address_of(host)
    return host == "*" or (address is not None and address.is_unspecified)


def is_loopback(host: str) -> bool:
    """Whether only this host can call it."""
    address = address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def family_of(host: str) -> socket.AddressFamily:
    """The family of sockets for this address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def route_to(host: str) -> str:
    """The address of this host from which the route to that one leaves. Nothing is sent.

    Raises OSError where there is no route, ValueError for a name.
    """
    if address_of(host) is None:
        raise ValueError(f"{host!r} is no address")
    with socket.socket(family_of(host), socket.SOCK_DGRAM) as probe:
        probe.connect((host, PORT_OF_NOBODY))
        return str(probe.getsockname()[0])


def is_elsewhere(host: str) -> bool:
    """Whether this is an address of another host; False for a name, and without a route to it."""
    address = address_of(host)
    if address is None or address.is_loopback or address.is_unspecified:
        return False
    try:
        return address_of(route_to(host)) != address  # a host reaches its own addresses from them
    except OSError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """A socket that others connect to; port 0 takes a free one. :: takes IPv4 calls as well.

    Raises EngineError with the system's reason.
    """
    listener = socket.socket(family_of(host), socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_wildcard(host) and listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise EngineError(f"cannot listen on {host} port {port}: {error}") from error
    listener.setblocking(False)
    return listener


def callable_at(engine: str, host: str) -> str:
    """The address, if sources can call it. Raises EngineError for a wildcard, and for a name."""
    if is_wildcard(host) or address_of(host) is None:
        raise EngineError(f"engine {engine}: sources cannot be told to call {host!r}: give the "
                          f"address of this host at which they reach it")
    return host
