"""The plan of a run: its servers, requests and faults.

A plan is a value made from a seed. If requests or faults are taken out of it, the others stay the
same. So a failing run can be made small.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pdproto.testing.chance import Seeded, Stream


class Kind(StrEnum):
    """The kinds of faults. A fault lasts from `at` until `until`."""

    LOSS = "loss"  # batches are lost
    DUPLICATION = "duplication"  # batches arrive twice
    REORDERING = "reordering"  # batches overtake one another
    PARTITION = "partition"  # no batch arrives between one server and all others
    CRASH = "crash"  # a server ends; at the end of the fault a new one starts
    PAUSE = "pause"  # a server stands still, and then goes on
    JUMP = "jump"  # a server's clock jumps forward
    SLOW = "slow"  # all turns of a server take much longer
    HANG = "hang"  # writes that begin during the fault take very long
    ERROR = "error"  # engines give up writes, which may still land
    DISK = "disk"  # a server cannot write its trace any more
    ABORT = "abort"  # a share of the clients leave, during the whole run


NETWORK: Final = (Kind.LOSS, Kind.DUPLICATION, Kind.REORDERING, Kind.PARTITION)
OF_A_SERVER: Final = (
    Kind.PARTITION, Kind.CRASH, Kind.PAUSE, Kind.JUMP, Kind.SLOW, Kind.DISK,
)
LENGTH_S: Final[Mapping[Kind, tuple[float, float]]] = {
    Kind.CRASH: (0.05, 2.0), Kind.PAUSE: (0.1, 8.0), Kind.PARTITION: (0.1, 8.0),
}
USUAL_LENGTH_S: Final = (0.1, 2.0)
AMOUNT: Final[Mapping[Kind, tuple[float, float]]] = {
    Kind.LOSS: (0.02, 0.5), Kind.DUPLICATION: (0.05, 0.5), Kind.REORDERING: (0.05, 0.5),
    Kind.JUMP: (0.5, 30.0), Kind.SLOW: (10.0, 200.0), Kind.HANG: (0.1, 1.0),
    Kind.ERROR: (0.1, 1.0),
}
ABORTED: Final = 0.2  # of the requests
REQUESTS_A_FAULT: Final = 50


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. amount: a probability, a factor, or the seconds of a jump, as its kind needs."""

    number: int
    kind: Kind
    at: float
    until: float
    server: str = ""
    amount: float = 1.0


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request. chunks: the pages of each. generates_s: how long decode keeps the pages.

    aborted: the side that aborts it, and how many seconds after its arrival there.
    """

    room: int
    prefill: str
    decode: str
    prefill_at: float
    decode_at: float
    chunks: tuple[int, ...]
    allocation_s: float
    generates_s: float
    aborted: tuple[str, float] | None = None

    @property
    def pages(self) -> int:
        """The number of its pages."""
        return sum(self.chunks)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of a plan. Raises ValueError for sizes that cannot work.

    prefill, decode: numbers of servers. pp: ranks of each prefill server, each with other layers.
    rate: requests a second, for all servers together. chunks: the most chunks of a request. pages,
    slots: of each server's pool. buffers: staging buffers of each decode rank. writes: the most
    writes under way at each prefill rank. retries: None for prefill without optimism; with a
    number, prefill servers run node/optimistic/prefill.py with these `retries` and `running_slots`.
    release_at_once: a pass without its bootstrap is released when it ends. waits: see PrefillNode.
    """

    prefill: int = 2
    decode: int = 2
    pp: int = 1
    requests: int = 100
    faults: tuple[Kind, ...] = ()
    rate: float = 20.0
    skew_s: float = 0.02
    latency_s: float = 0.0003
    forward_s: float = 0.004
    allocation_s: float = 0.002
    generate_s: float = 0.05
    write_s: float = 0.002
    fence_s: float = 0.01
    turn_s: float = 0.0001
    chunks: int = 3
    pages: int = 64
    slots: int = 16
    buffers: int = 16
    writes: int = 64
    retries: int | None = None
    running_slots: int = 8
    release_at_once: bool = False
    sign_of_life_s: float = 1.0
    silent_s: float = 3.0
    absent_s: float = 5.0
    waits: Mapping[str, float] = field(
        default_factory=lambda: {"bootstrap_timeout": 20.0, "transfer_timeout": 20.0})

    def __post_init__(self) -> None:
        for name in ("prefill", "decode", "pp", "requests", "chunks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: want at least 1")
        if self.pages < 2 * self.chunks or self.buffers < self.pp or self.slots < 1:
            raise ValueError(f"{self.pages} pages, {self.buffers} staging buffers, {self.slots} "
                             f"slots: the largest request would never find room")
        if self.retries is not None and self.pages < 2 * self.chunks * self.running_slots:
            raise ValueError(f"{self.pages} pages: too few for the requests of "
                             f"{self.running_slots} running slots")


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of a run."""

    seed: int
    shape: Shape
    requests: tuple[PlannedRequest, ...]
    faults: tuple[Fault, ...]

    @property
    def ends(self) -> float:
        """The time in seconds when the last request has come and the last fault is over."""
        times = [at for r in self.requests for at in (r.prefill_at, r.decode_at)]
        return max([*times, *(fault.until for fault in self.faults)], default=0.0)

    def servers(self, side: Callable[[PlannedRequest], str]) -> tuple[str, ...]:
        """The servers of one side that have requests."""
        return tuple(dict.fromkeys(map(side, self.requests)))

    def only(self, rooms: Collection[int] | None, faults: Collection[int] | None) -> "Plan":
        """The plan with the requests of these rooms and the faults of these numbers alone. None
        keeps all.
        """
        return replace(
            self,
            requests=tuple(r for r in self.requests if rooms is None or r.room in rooms),
            faults=tuple(f for f in self.faults if faults is None or f.number in faults))


def planned(seed: int, shape: Shape, seeded: Seeded) -> Plan:
    """The plan of this seed. seeded: makes a generator of a name, as `random.Random` does."""
    aborts = ABORTED if Kind.ABORT in shape.faults else 0.0
    clock = Stream(seeded, f"{seed}/arrivals")
    at = 0.0
    requests = []
    for room in range(shape.requests):
        at += 2.0 * clock.number() / shape.rate
        requests.append(_request(Stream(seeded, f"{seed}/request/{room}"), shape, room, at, aborts))
    kinds = [kind for kind in Kind if kind in shape.faults and kind is not Kind.ABORT]
    each = max(1, shape.requests // REQUESTS_A_FAULT)
    faults = [
        _fault(Stream(seeded, f"{seed}/{kind}/{i}"), shape, kind, number * each + i, at)
        for number, kind in enumerate(kinds) for i in range(each)
    ]
    return Plan(seed, shape, tuple(requests), tuple(faults))


def _request(stream: Stream, shape: Shape, room: int, at: float, aborts: float) -> PlannedRequest:
    prefill, decode = stream.whole(0, shape.prefill - 1), stream.whole(0, shape.decode - 1)
    skew = shape.skew_s * (stream.number() - 0.5)
    chunks = tuple(stream.whole(1, 2) for _ in range(stream.whole(1, shape.chunks)))
    aborted = None
    if stream.happens(aborts):
        aborted = stream.one(("prefill", "decode")), stream.between(0.0, 0.1)
    return PlannedRequest(
        room, f"p{prefill}", f"d{decode}", at + max(0.0, skew), at + max(0.0, -skew), chunks,
        allocation_s=stream.delay(shape.allocation_s), generates_s=stream.delay(shape.generate_s),
        aborted=aborted,
    )


def _fault(stream: Stream, shape: Shape, kind: Kind, number: int, end: float) -> Fault:
    at = stream.between(0.0, end)
    length = stream.between(*LENGTH_S.get(kind, USUAL_LENGTH_S))
    server = ""
    if kind in OF_A_SERVER:
        place = stream.whole(0, shape.prefill + shape.decode - 1)
        server = f"p{place}" if place < shape.prefill else f"d{place - shape.prefill}"
    amount = stream.between(*AMOUNT[kind]) if kind in AMOUNT else 1.0
    return Fault(number, kind, at, at + length, server, amount)
