"""What the scheduler's half tells the worker's half of every rank, step by step."""

from dataclasses import dataclass, field

from pdproto.vllm.ranks import Ranks

Blocks = list[list[int]]  # block ids, group by group


@dataclass(frozen=True, slots=True)
class Send:
    """To prefill's workers: these blocks may go to whoever comes for the room."""

    request: str
    room: int
    blocks: Blocks


@dataclass(frozen=True, slots=True)
class Begin:
    """To decode's workers: the request is here, and waits for memory. ranks: of prefill."""

    request: str
    room: int
    ranks: Ranks


@dataclass(frozen=True, slots=True)
class Place:
    """To decode's workers: the request has its blocks, and these are to be filled. awaited: whether
    the scheduler waits to hear of the end.
    """

    request: str
    blocks: Blocks
    awaited: bool


@dataclass(frozen=True, slots=True)
class End:
    """To decode's workers: the request is over here. fails: the scheduler waits to hear that its
    load has failed.
    """

    request: str
    reason: str
    fails: bool = False


@dataclass(slots=True)
class Orders:
    """Of one step, in this order."""

    send: list[Send] = field(default_factory=list)
    begin: list[Begin] = field(default_factory=list)
    place: list[Place] = field(default_factory=list)
    end: list[End] = field(default_factory=list)
