"""What a scheduler that prefills optimistically keeps of a request, sets, counts and is told."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.functions import passes
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.timers import WAITS


class Bootstrap(Protocol):
    """What is used here of a hand-over's sender (sender.py); each prefill rank has one."""

    @property
    def released(self) -> bool: ...

    @property
    def failure(self) -> str | None: ...

    def poll(self) -> KVPoll: ...

    def abort(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """slots: of metadata. running slots: rows of the request table, with room for the KV of one
    request. retries: how often a request may be run again before its bootstrap; 0: none is run
    before it.

    Raises ValueError for what does not go together, and says why.
    """

    slots: int
    running_slots: int
    retries: int = 0
    force_retry_probability: float = 0.0
    bootstrap_timeout_s: float = WAITS["bootstrap_timeout"].seconds
    hierarchical_cache: bool = False
    mamba_radix_cache: bool = False

    def __post_init__(self) -> None:
        if self.slots < 1 or self.running_slots < 1:
            raise ValueError(f"{self.slots} slots, {self.running_slots} running slots: "
                             f"want one of each at least")
        if not 0.0 <= self.force_retry_probability <= 1.0:
            raise ValueError(f"force_retry_probability {self.force_retry_probability}: want 0 to 1")
        if not self.attempts:
            return
        if self.hierarchical_cache:
            raise ValueError("optimistic prefill does not go with a hierarchical cache: the KV "
                             "of a pass that is dropped may still be on its way to the host. "
                             "Set retries=0, or hierarchical_cache=False")
        if self.mamba_radix_cache:
            raise ValueError("optimistic prefill does not go with a Mamba radix cache: a pass that "
                             "is dropped leaves a recurrent state that no prefix leads back to. "
                             "Set retries=0, or mamba_radix_cache=False")

    @property
    def attempts(self) -> int:
        """How often a request may be run before its bootstrap, at most."""
        return passes(self.retries)


@dataclass(slots=True)
class Times:
    """When things happened, in the seconds of the caller's clock. Those of a pass are its own."""

    submitted: float
    started: float | None = None  # the pass got its running slot
    computed: float | None = None  # its last chunk
    ended: float | None = None


@dataclass(slots=True, eq=False)
class Request:
    """A request, for reading; `OptimisticPrefill` alone writes it.

    chunks: of its forward pass. chunk: the next to be computed, or that is computed. sent: chunks
    handed over. passes: how often it was started. prefill_retry_count: how often its KV was
    dropped, to be computed again. reason: why it has failed.
    """

    id: str
    key: int
    senders: tuple[Bootstrap, ...]
    chunks: int
    retracted: bool
    times: Times
    stage: Stage = Stage.NEW
    ready: bool = False
    finalized: bool = False
    computing: bool = False
    chunk: int = 0
    sent: int = 0
    passes: int = 0
    prefill_retry_count: int = 0
    slot: int | None = None
    running_slot: int | None = None
    reason: str = ""

    def poll(self) -> KVPoll:
        """Where its bootstrap and its transfer stand, at the rank that is least far."""
        return min(sender.poll() for sender in self.senders)


class Order(Enum):
    """What the scheduler is to do next about a request."""

    COMPUTE = auto()  # launch `chunk`; then say `chunk_done`
    SEND = auto()  # hand over `chunks`, the last of which is the request's last if `last`
    DROP = auto()  # the KV goes, and with it the tokens: its running slot is somebody else's now
    END = auto()  # it has succeeded or failed, and holds nothing any more


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order. chunk, chunks: of the forward pass, from 0 on."""

    order: Order
    request: Request
    chunk: int = 0
    chunks: range = range(0)
    last: bool = False


@dataclass(slots=True)
class HitRate:
    """How much of the input was found in the prefix cache, as if nothing were ever run again.

    A pass that is run again finds in the cache what the pass before has left there: both the tokens
    that it reads and those that it finds are taken out.
    """

    input_tokens: int = 0
    hit_tokens: int = 0
    reprocessed_input_tokens: int = 0
    reprocessed_hit_tokens: int = 0

    def add(self, request: Request, input_tokens: int, hit_tokens: int) -> None:
        """A pass has begun. Raises ValueError for more hits than tokens, or fewer than none."""
        if not 0 <= hit_tokens <= input_tokens:
            raise ValueError(f"{request.id}: {hit_tokens} hits of {input_tokens} tokens")
        self.input_tokens += input_tokens
        self.hit_tokens += hit_tokens
        if request.passes > 1:
            self.reprocessed_input_tokens += input_tokens
            self.reprocessed_hit_tokens += hit_tokens

    @property
    def rate(self) -> float:
        """Between 0 and 1; 0 where there was no input."""
        tokens = self.input_tokens - self.reprocessed_input_tokens
        return (self.hit_tokens - self.reprocessed_hit_tokens) / tokens if tokens else 0.0


@dataclass(slots=True)
class Faults:
    """Bootstraps that fail on purpose, for tests. chance: between 0 and 1, as `random.random`.

    probabilities: by rank; `set` changes them while all goes on.
    """

    chance: Callable[[], float] = random.random
    probabilities: dict[int, float] = field(default_factory=dict)

    def set(self, rank: int, probability: float) -> None:
        """Raises ValueError for a probability outside 0 to 1."""
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f"rank {rank}: probability {probability}: want 0 to 1")
        self.probabilities[rank] = probability

    def strikes(self, rank: int) -> bool:
        """Whether the bootstrap at hand fails at this rank."""
        probability = self.probabilities.get(rank, 0.0)
        return probability > 0.0 and self.chance() < probability
