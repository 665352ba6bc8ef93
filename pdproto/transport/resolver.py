"""The names of hosts: asked for in threads of their own, because a name server may be silent.

ZeroMQ itself asks in the only thread that moves the bytes of a node, so that one name would stop
the hand-overs with all peers. It gets addresses only.
"""

from collections.abc import Callable
from contextlib import suppress
from socket import SOCK_STREAM, getaddrinfo
from typing import Final

from pdproto.net import threads
from pdproto.net.hosts import address_of
from pdproto.node.link import host_of
from pdproto.runtime import checked
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError

UNDER_WAY_MAX: Final = 32  # names that are asked for at a time

Told = Callable[[str, str], None]


def name_in(endpoint: str) -> str | None:
    """The name of a host that stands in this endpoint in the place of an address; None if none."""
    host = host_of(endpoint)
    return None if host is None or address_of(host.partition("%")[0]) is not None else host


class Resolver:
    """Asks for the addresses of names. Only the node's loop calls it."""

    def __init__(self) -> None:
        self._under_way: Final[set[str]] = set()
        self._told: Final[dict[str, list[Told]]] = {}

    def ask(self, name: str, told: Told) -> None:
        """Have `told` called in another thread, with the address and "", or "" and the reason.

        Raises RemoteProtocolError while too many names are asked for.
        """
        if name not in self._under_way and len(self._under_way) >= UNDER_WAY_MAX:
            raise RemoteProtocolError(f"name {name} is not resolved: the name server has not "
                                      f"answered for {UNDER_WAY_MAX} others")
        self._told.setdefault(name, []).append(told)
        if name not in self._under_way:
            self._under_way.add(name)
            threads.ServiceThread(lambda: self._ask(name), "pdproto-names").start()

    def _ask(self, name: str) -> None:
        address = why = ""
        try:
            found = getaddrinfo(name, None, type=SOCK_STREAM)
            address = str(found[0][4][0])
        except (OSError, UnicodeError) as error:
            why = f"name {checked.one_line(name)} is not resolved: {error}"
        self._under_way.discard(name)
        for told in self._told.pop(name, ()):
            with suppress(LocalProtocolError):  # the node has been closed
                told(address, why)
