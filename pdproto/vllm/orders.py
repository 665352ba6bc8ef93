"""The orders of the scheduler's half to the worker's half of every rank."""

from dataclasses import dataclass, field

from pdproto.vllm.ranks import Ranks

Blocks = list[list[int]]  # block ids, group by group


@dataclass(frozen=True, slots=True)
class Send:
    """To prefill's workers: send these blocks to the sinks that introduce themselves for the room.
    """

    request: str
    room: int
    blocks: Blocks


@dataclass(frozen=True, slots=True)
class Begin:
    """To decode's workers: the request has come, and waits for blocks.

    ranks: of prefill. problem: why the request cannot be loaded, which prefill must hear; or None.
    """

    request: str
    room: int
    ranks: Ranks
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """To decode's workers: fill these blocks of the request. awaited: whether the scheduler waits
    for a report of the end.
    """

    request: str
    blocks: Blocks
    awaited: bool


@dataclass(frozen=True, slots=True)
class End:
    """To decode's workers: the request is over at decode. fails: the scheduler waits for a report
    that its load has failed.
    """

    request: str
    reason: str
    fails: bool = False


@dataclass(slots=True)
class Orders:
    """The orders of one step of the scheduler, to be carried out in this order."""

    send: list[Send] = field(default_factory=list)
    begin: list[Begin] = field(default_factory=list)
    place: list[Fill] = field(default_factory=list)
    end: list[End] = field(default_factory=list)
