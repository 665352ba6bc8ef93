"""The messages between the router of `python -m lab soak` and its ranks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from pdproto.drill.handoff.load import Load


@dataclass(frozen=True, slots=True)
class SoakRank:
    """The task of the process of a rank. advertise: its listener. sources: the prefill ranks, in
    order.
    """

    name: str
    load: Load
    engine: str
    registry: str
    advertise: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Message of the router: begin a request. where: the prefill ranks' endpoints, for decode."""

    room: int
    where: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Leave:
    """Message of the router: drain."""


@dataclass(frozen=True, slots=True)
class Left:
    """The answer to Leave: the node is empty.

    early: the hand-overs that had not ended then. sure_from: of this room and all later ones it is
    sure that the node has lost no peer since they began here. A drain waits for no lost peer.
    """

    early: int
    sure_from: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a hand-over at a rank. corrupt: it succeeded, and a byte is wrong.

    at: when the rank has seen the end, in seconds of the monotonic clock of the machine.
    """

    room: int
    success: bool
    reason: str = ""
    corrupt: bool = False
    at: float = field(default_factory=monotonic)


@dataclass(frozen=True, slots=True)
class State:
    """The resources of a rank when it is asked. held: those in use. faults: violated claims.

    files: the number of open files. resident: bytes of memory.
    """

    held: dict[str, float]
    faults: dict[str, float]
    counters: dict[str, float]
    verified_bytes: int
    files: int
    resident: int
