"""The addresses of a system's instances: `host:port` of each, by its name."""

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from ipaddress import ip_address
from socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from typing import Final, TypeAlias

from pdproto.runtime import checked
from pdproto.runtime.process import Name, Process, names_in

Addresses: TypeAlias = Mapping[Name, str]

LOOPBACK: Final = "127.0.0.1"


def on_loopback(names: Collection[Name]) -> dict[Name, str]:
    """An address for each instance on this host, at ports that are free now.

    The system gives these ports to nobody else until this process ends: a socket stays bound to
    each, and never listens. A driver can listen there, because it reuses addresses too
    (SO_REUSEADDR), and so does each process that this one starts.
    """
    addresses, told = {}, names_in("names", names)
    with ExitStack() as held:
        sockets = [held.enter_context(socket(AF_INET, SOCK_STREAM)) for _ in told]
        for name, each in zip(told, sockets, strict=True):
            each.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            each.bind((LOOPBACK, 0))
            addresses[name] = f"{LOOPBACK}:{each.getsockname()[1]}"
        for each in sockets:
            each.detach()  # bound until the process ends
    return addresses


def place(address: str) -> tuple[str, int]:
    """The host and the port of `host:port`; an IPv6 host is in brackets. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise ValueError(f"{address!r} is no address: want host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def listening_place(process: Process, addresses: Addresses, *, trusted_network: bool) -> str:
    """The process's own address.

    Raises ValueError for an address that other hosts can reach, unless the network is trusted:
    frames are neither encrypted nor authenticated; TypeError for arguments of other types.
    """
    checked.one_of("process", process, Process)
    checked.flag("trusted_network", trusted_network)
    if process.name not in checked.mapping("addresses", addresses):
        raise ValueError(f"the addresses lack {process.name!r}")
    host, _ = place(checked.text("addresses", addresses[process.name]))
    if not (trusted_network or _is_loopback(host)):
        raise ValueError(f"{host} can be reached by other hosts, and frames are neither encrypted "
                         f"nor authenticated: pass trusted_network=True if that is right")
    return addresses[process.name]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
