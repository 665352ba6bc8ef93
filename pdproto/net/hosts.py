"""Addresses of hosts: their text forms, and which hosts can connect to each.

A host is an IPv4 or IPv6 address as text, without brackets, or a name. No function here asks a name
server, because event loops call them and must not wait.
"""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")  # of the host
INTERFACES: Final = Path("/proc/thread-self/net/if_inet6")
NAMESPACE: Final = Path("/proc/self/ns/net")
BACKLOG: Final = 128
PORT_MAX: Final = 65_535
UNUSED_PORT: Final = 9  # `route_to` sends no packet, so that any port does


def joined(host: str, port: int) -> str:
    """10.0.0.1:80 or [fd00::1]:80."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(place: str) -> tuple[str, int]:
    """The host and the port of host:port or [host]:port. Raises ValueError for anything else."""
    host, colon, port = place.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not bare or not port.isdecimal() or (":" in bare and bare == host):
        raise ValueError(f"{place!r}: want host:port, and [host]:port with an IPv6 address")
    if not port.isascii() or len(port) > len(str(PORT_MAX)) or int(port) > PORT_MAX:
        raise ValueError(f"{place!r}: want a port from 0 to {PORT_MAX:,}")
    return bare, int(port)


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address of a host; None for a name. An IPv4 address in IPv6 form becomes IPv4."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_wildcard(host: str) -> bool:
    """Whether it means all addresses of a host (0.0.0.0, ::, *). No peer can connect to that."""
    address = address_of(host)
    return host == "*" or (address is not None and address.is_unspecified)


def is_loopback(host: str) -> bool:
    """Whether only this host can connect to it."""
    address = address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def is_link_local(host: str) -> bool:
    """Whether it means something on one link alone: fe80::5."""
    address = address_of(host)
    return isinstance(address, IPv6Address) and address.is_link_local


def without_zone(host: str) -> str:
    """The address as another host can be told it: a zone means an interface of this one."""
    return host.partition("%")[0]


def in_zone(host: str, ours: str = "") -> str:
    """The address as this host can call it. A link-local one that a peer has told names no
    interface: it is that of our own address, or else the only one with such addresses. Raises
    OSError if there are several.
    """
    if not is_link_local(host) or "%" in host:
        return host
    own = ours.partition("%")[2]
    zones = [own] if own else _link_local_interfaces()
    if len(zones) == 1:
        return f"{host}%{zones[0]}"
    raise OSError(f"{host} may be at each of {', '.join(zones) or 'no interface'}: start this node "
                  f"at its own address there, with the name of the interface, such as fe80::5%eth0")


def _link_local_interfaces() -> list[str]:
    """The interfaces of this thread's host that have a link-local IPv6 address."""
    try:
        lines = INTERFACES.read_text().splitlines()
    except OSError:  # a kernel without IPv6
        return []
    return sorted({line.split()[-1] for line in lines if line.startswith("fe80")})


def place_in_kernel(
    host: str, port: int, ours: str = ""
) -> tuple[str, int] | tuple[str, int, int, int]:
    """An address as a socket takes it: with the number of the interface that its zone names
    (fe80::1%eth0); see `in_zone`. Raises OSError for an interface that this host does not have.
    """
    bare, percent, zone = in_zone(host, ours).partition("%")
    if not percent:
        return host, port
    try:
        return bare, port, 0, int(zone) if zone.isdecimal() else socket.if_nametoindex(zone)
    except OSError:
        raise OSError(f"{host}: this host has no interface {zone}: want an address that means the "
                      f"same on every host, such as fd00::5") from None


def own_address(connected: socket.socket) -> str:
    """The address of this end of a connection, with its zone if it has one."""
    host, _, *scope = connected.getsockname()
    zone = scope[1] if scope else 0
    return f"{host}%{socket.if_indextoname(zone)}" if zone else str(host)


def family_of(host: str) -> socket.AddressFamily:
    """The socket family of this address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def route_to(host: str) -> str:
    """The address of this host that the route to the other host uses. No packet is sent.

    Raises OSError if there is no route, ValueError for a name.
    """
    if address_of(host) is None:
        raise ValueError(f"{host!r} is not an IP address")
    with socket.socket(family_of(host), socket.SOCK_DGRAM) as probe:
        probe.connect(place_in_kernel(host, UNUSED_PORT))
        return own_address(probe)


def is_elsewhere(host: str) -> bool:
    """Whether it is an address of another host. False for a name, and if there is no route."""
    address = address_of(host)
    if address is None or address.is_loopback or address.is_unspecified:
        return False
    try:  # a host reaches its own addresses from them
        return address_of(without_zone(route_to(host))) != address_of(without_zone(host))
    except OSError:
        return False


def loopback() -> str:
    """Which loopback interface this process has: that of its host and network namespace. Empty if
    the system does not say.
    """
    try:
        return f"{BOOT.read_text().strip()}:{NAMESPACE.stat().st_ino}"
    except OSError:
        return ""


def listening(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free port. :: also accepts IPv4 connections.

    Raises OSError with the system's reason.
    """
    listener = socket.socket(family_of(host), socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_wildcard(host) and listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(place_in_kernel(host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        why = error.strerror or error
        raise OSError(f"cannot listen on {host} port {port}: {why}") from error
    listener.setblocking(False)
    return listener
