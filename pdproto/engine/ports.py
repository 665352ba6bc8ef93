"""The port of a sink, where sources connect."""

import socket

from pdproto.engine.contract import EngineError
from pdproto.net import hosts


def listening(host: str, port: int) -> socket.socket:
    """See `hosts.listening`. Raises EngineError with the system's reason."""
    try:
        return hosts.listening(host, port)
    except OSError as error:
        raise EngineError(str(error)) from error


def callable_at(engine: str, host: str) -> str:
    """The address as sources are told it, if they can connect to it. Raises EngineError for a
    wildcard or a name.
    """
    if hosts.is_wildcard(host) or hosts.address_of(host) is None:
        raise EngineError(f"engine {engine}: sources cannot be told to call {host!r}: give the "
                          f"address of this host at which they reach it")
    return hosts.without_zone(host)
