"""How a node communicates: where it listens, how often it sends, and which keys it accepts."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Self

from pdproto.net.hosts import PORT_MAX, is_loopback, joined, split
from pdproto.runtime import checked

SIGNS_MISSED: Final = 2.5  # signs of life missed before the connection counts as broken
SUSPECTED_PART: Final = 0.8  # of the shortest wait that ends a request of a silent peer
HIGH_WATER_MAX: Final = (1 << 31) - 1
ENDPOINT_MAX: Final = 1_024  # of an endpoint that no message names
TCP: Final = "tcp://"
KEY_BYTES: Final = 40  # of a key of CURVE, as text
WAITS_MAX: Final = 1_000
OF_MEMBER: Final = "/"  # in the name of a node, after the name of the member that it belongs to


@dataclass(frozen=True, slots=True)
class Curve:
    """Keys of the CURVE handshake (zmq.curve_keypair).

    public, secret: the node's own pair. server: the public key of all peers, if they have the same.
    member: the owner of this pair. members: the public key of each member, by name. The nodes of a
    member have its name, or begin with it and a slash: prefill-a, prefill-a/0.
    """

    public: bytes
    secret: bytes = field(repr=False)
    server: bytes = b""
    member: str = ""
    members: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for keys, or a name, that are none."""
        keys = {"public": self.public, "secret": self.secret,
                **({} if type(self.server) is bytes and len(self.server) == 0
                   else {"server": self.server})}
        told = checked.mapping("members", self.members)
        for name, key in (*keys.items(), *((f"members[{one!r}]", of) for one, of in told.items())):
            if not isinstance(key, bytes) or len(key) != KEY_BYTES:
                kind = checked.shown(key) if name != "secret" else f"of {type(key).__name__}"
                raise (ValueError if isinstance(key, bytes) else TypeError)(
                    f"{name} {kind}: want {KEY_BYTES} bytes, as zmq.curve_keypair makes them")
        for one in told:
            checked.text("members", one)
        checked.kind("member", self.member, str)

    def key_of(self, node: str) -> bytes | None:
        """The public key that the node of this name must have. None if no member has it."""
        member = member_of(checked.text("node", node))
        return self.server or self.members.get(member)

    @property
    def known(self) -> frozenset[bytes]:
        """The public keys of all peers."""
        return frozenset([self.server] if self.server else self.members.values())

    def named(self, node: str) -> str:
        """The name that a node of this process gets, where any name would do."""
        told = checked.text("node", node)
        return f"{self.member}{OF_MEMBER}{told}" if self.member else told


def member_of(node: str) -> str:
    """The member that a node of this name belongs to."""
    return node.partition(OF_MEMBER)[0]


def require_private(title: str, host: str, *, keyed: bool, insecure: bool) -> None:
    """Raise PermissionError, in one line, if strangers could call a process that has no keys.

    title: of the process. host: where it listens. keyed: it has keys. insecure: its operator says
    that every process of that network is trusted.
    """
    if is_loopback(host) or keyed or insecure:
        return
    raise PermissionError(
        f"{title} would listen on {host} without keys, for anybody: write a secret with `pdproto "
        f"node keys FILE` and set PDPROTO_KEYS=FILE on every host; or set PDPROTO_INSECURE=1 if "
        f"you trust every process that can reach this address")


@dataclass(frozen=True, slots=True)
class Link:
    """How a node communicates.

    bind: the ZeroMQ endpoint on which it listens; port 0 takes a free port. Only peers on this host
    can reach the default. `tcp_at` writes the endpoint of an address. A wildcard (tcp://0.0.0.0:0
    or tcp://*:0 for IPv4, tcp://[::]:0 for both) listens on every address of this host. high_water:
    how many batches ZeroMQ keeps for one peer that does not read. sign_of_life_s: seconds after
    which an idle node sends an empty batch. silent_s: seconds of silence after which a peer is
    suspected to have ended (spec/handoff/presence.py). absent_s: seconds of silence after which
    hand-overs fail that wait for it. returns_s: seconds after that in which it may come back and
    ask how they have ended. grace_s: seconds in which an ended connection may come back before the
    peer's host is asked whether it refuses another one; in the default time ZeroMQ tries three
    times. curve: keys for encryption; None for none. advertise: the endpoint that peers are told to
    call, if it is not the bound one: of the host of a container, or of a proxy. Without it, a node
    that is bound to a wildcard gives each peer the local address of the route to that peer.
    """

    bind: str = "tcp://127.0.0.1:0"
    high_water: int = 10_000
    sign_of_life_s: float = 1.0
    silent_s: float = 5.0
    absent_s: float = 60.0
    returns_s: float = 60.0
    grace_s: float = 0.5
    curve: Curve | None = None
    advertise: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for a value that no link has."""
        checked.text("bind", self.bind, ENDPOINT_MAX)
        object.__setattr__(self, "high_water", checked.whole(
            "high_water", self.high_water, 1, HIGH_WATER_MAX))
        for name in ("sign_of_life_s", "silent_s", "absent_s", "grace_s", "returns_s"):
            object.__setattr__(self, name, checked.seconds(name, getattr(self, name)))
        if self.curve is not None:
            checked.one_of("curve", self.curve, Curve)
        if self.advertise is not None:
            checked.text("advertise", self.advertise)
        checked.flag("insecure", self.insecure)

    def suspecting_within(self, waits: Iterable[float]) -> Self:
        """Suspect a peer that stands still before these waits for it end: they stand still from
        then on. waits: in seconds.
        """
        waits = checked.each_seconds("waits", waits, WAITS_MAX)
        silent_s = min(self.silent_s, self.absent_s, *(SUSPECTED_PART * one for one in waits))
        if silent_s == self.silent_s:
            return self
        sign_of_life_s = min(self.sign_of_life_s, silent_s / (2 * SIGNS_MISSED))
        return replace(self, silent_s=silent_s, sign_of_life_s=sign_of_life_s)

    def member_of(self, node: str) -> str | None:
        """The member that a node of this name belongs to; None where nodes share their keys, or
        have none: then they trust one another.
        """
        told = checked.text("node", node)
        return member_of(told) if self.curve is not None and self.curve.members else None

    @property
    def overdue_s(self) -> float:
        """Seconds of silence after which no hand-over waits for a peer."""
        return max(self.absent_s, self.silent_s)

    @property
    def unheard_s(self) -> float:
        """Seconds of silence after which this node tells the peer that it hears nothing. The peer
        then opens a new connection.
        """
        return SIGNS_MISSED * self.sign_of_life_s


def tcp_at(host: str, port: int = 0) -> str:
    """The ZeroMQ endpoint of an address, IPv4 or IPv6. Raises TypeError, ValueError."""
    return TCP + joined(checked.text("host", host), checked.whole("port", port, 0, PORT_MAX))


def place_of(endpoint: str) -> tuple[str, int]:
    """The host and the port of a ZeroMQ endpoint over TCP. Raises ValueError for any other."""
    return split(endpoint.removeprefix(TCP))


def host_of(endpoint: str) -> str | None:
    """The host of a ZeroMQ endpoint; None if it has none (ipc, inproc), or is malformed."""
    try:
        return place_of(endpoint)[0] if endpoint.startswith(TCP) else None
    except ValueError:
        return None
