"""The orders of the scheduler's half to the worker's half of every rank."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pdproto.vllm.ranks import Ranks

Blocks = list[list[int]]  # block ids, group by group


@dataclass(frozen=True, slots=True)
class OpenRoom:
    """To prefill's workers: open the room of a request. tokens: of its prompt, which are handed
    over. prompt: its name, which the nodes compare.
    """

    request: str
    room: int
    tokens: int
    prompt: bytes


@dataclass(frozen=True, slots=True)
class Grant:
    """To prefill's workers: these blocks are final when the step is computed. They follow those of
    earlier grants of the request.
    """

    request: str
    blocks: Blocks


@dataclass(frozen=True, slots=True)
class Close:
    """To prefill's workers: the request has ended, and vLLM keeps its blocks until it hears that
    nothing reads them. problem: why decode will not get them all; or None.
    """

    request: str
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """To decode's workers: the request has come, and waits for blocks.

    ranks: of prefill. problem: why the request cannot be loaded, which prefill must hear; or None.
    prompt: its name, which the nodes compare; of an offer, as the offer says it.
    """

    request: str
    room: int
    ranks: Ranks
    problem: str | None
    prompt: bytes


@dataclass(frozen=True, slots=True)
class Fill:
    """To decode's workers: fill these blocks of the request, in the order of prefill (blocks.py).
    awaited: whether the scheduler waits for a report of the end.
    """

    request: str
    blocks: Sequence[tuple[int, Sequence[int]]]
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
    """The orders of one step of the scheduler, to be carried out in this order; grants when the
    step is computed, and then the ends at prefill.
    """

    open: list[OpenRoom] = field(default_factory=list)
    begin: list[Begin] = field(default_factory=list)
    place: list[Fill] = field(default_factory=list)
    end: list[End] = field(default_factory=list)
    grant: list[Grant] = field(default_factory=list)
    close: list[Close] = field(default_factory=list)
