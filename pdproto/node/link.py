"""How a node talks: where it listens, how often it speaks, and whom it trusts."""

from dataclasses import dataclass
from typing import Final

from pdproto.engine.hosts import joined, split

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
    """How a node talks.

    bind: a ZeroMQ endpoint; port 0 takes a free one. The default is for peers on this host only.
    `tcp_at` writes the endpoint of an address. A wildcard (tcp://0.0.0.0:0 or tcp://*:0 for IPv4,
    tcp://[::]:0 for both) takes calls at every address of this host.
    sign_of_life_s: how often a node speaks that has nothing to say.
    silent_s: how long a peer may be silent before it counts as gone.
    grace_s: how long a connection that has ended may take to come back before the peer counts as
    gone; in the default time ZeroMQ tries three times.
    advertise: the endpoint that peers are told to call, where that is not the bound one: of a
    container's host, or of a proxy. Without it, a node that is bound to a wildcard tells each peer
    the address from which the route to that peer leaves.
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
        """Silence after which a peer is told that it is unheard, and calls again."""
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
