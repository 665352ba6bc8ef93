"""The settings, requests, orders and counts of optimistic prefill (prefill.py)."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.functions import passes
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.timers import WAITS


class Bootstrap(Protocol):
    """The part of a hand-over's sender (prefill/sender.py) that is used here, one of each rank."""

    @property
    def released(self) -> bool:
        """Whether its pages are free again."""

    @property
    def failure(self) -> str | None:
        """Why the hand-over has failed; None if it has not."""

    def poll(self) -> KVPoll:
        """The status of the hand-over."""

    def stood(self, seconds: float) -> float:
        """For how many of the last seconds a peer was suspected that may have its other half."""

    def abort(self, reason: str) -> None:
        """Abort the hand-over, for this reason."""


@dataclass(frozen=True, slots=True)
class OptimisticSettings:
    """The settings of optimistic prefill.

    slots: metadata slots. running_slots: rows of the request table, each with room for the KV of
    one request. retries: how often a request may be run again before its bootstrap; with 0, no
    request is run before its bootstrap. force_retry_probability: from 0 to 1, for tests.
    bootstrap_timeout_s: seconds. hierarchical_cache, mamba_radix_cache: whether the server uses
    these caches; both need retries=0.

    Raises ValueError for settings that do not go together.
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
        """How often at most a request may be run before its bootstrap."""
        return passes(self.retries)


@dataclass(slots=True)
class Times:
    """When the steps of a request happened, in seconds of the caller's clock."""

    submitted: float
    started: float | None = None  # the present pass got its running slot
    computed: float | None = None  # the last chunk of the present pass
    ended: float | None = None


@dataclass(slots=True, eq=False)
class PrefillRequest:
    """A request, for reading; only `OptimisticPrefill` writes it.

    since: when it began, on a clock that stands still with its process. chunks: the number of
    chunks of its forward pass. chunk: the chunk that is computed now, or the next.
    sent: how many chunks were handed over. passes: how often its forward pass was started.
    prefill_retry_count: how often its KV was dropped, to be computed again. reason: why it has
    failed.
    """

    id: str
    key: int
    senders: tuple[Bootstrap, ...]
    chunks: int
    times: Times
    since: float
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
        """The status of its hand-over at the rank that is least far."""
        return min(sender.poll() for sender in self.senders)


class Stages:
    """The requests that have not ended, by stage, in the order in which they entered it.

    ready: those of them that have their bootstrap.
    """

    def __init__(self) -> None:
        self.at: Final[dict[Stage, dict[PrefillRequest, None]]] = {stage: {} for stage in Stage}
        self.ready: Final[dict[Stage, dict[PrefillRequest, None]]] = {stage: {} for stage in Stage}

    def enter(self, request: PrefillRequest, stage: Stage) -> None:
        """Move the request to this stage."""
        self.remove(request)
        request.stage = stage
        self.at[stage][request] = None
        if request.ready:
            self.ready[stage][request] = None

    def mark_ready(self, request: PrefillRequest) -> None:
        """Note that the request has its bootstrap."""
        request.ready = True
        self.ready[request.stage][request] = None

    def remove(self, request: PrefillRequest) -> None:
        """Remove the request from its stage, if it is there."""
        self.at[request.stage].pop(request, None)
        self.ready[request.stage].pop(request, None)

    def count(self, stages: tuple[Stage, ...]) -> int:
        """The number of requests in these stages. For any thread."""
        return sum(len(self.at[stage]) for stage in stages)


class Order(Enum):
    """The next action of the scheduler for a request."""

    COMPUTE = auto()  # launch `chunk`, and call `chunk_done` when it is computed
    SEND = auto()  # hand over `chunks`; with `last`, they end with the request's last chunk
    DROP = auto()  # drop the KV and the tokens: another request gets the running slot
    END = auto()  # the request has succeeded or failed, and holds no slot and no page


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order. chunk, chunks: numbers of chunks of the forward pass, from 0 on."""

    order: Order
    request: PrefillRequest
    chunk: int = 0
    chunks: range = range(0)
    last: bool = False


@dataclass(slots=True)
class HitRate:
    """How much of the input was found in the prefix cache, without passes that are run again.

    A repeated pass finds the tokens that the pass before has left in the cache. So its input tokens
    and its hits are both subtracted.
    """

    input_tokens: int = 0
    hit_tokens: int = 0
    reprocessed_input_tokens: int = 0
    reprocessed_hit_tokens: int = 0

    def add(self, request: PrefillRequest, input_tokens: int, hit_tokens: int) -> None:
        """Count a pass that has begun. Raises ValueError for more hits than tokens, or for fewer
        than 0 hits.
        """
        if not 0 <= hit_tokens <= input_tokens:
            raise ValueError(f"{request.id}: {hit_tokens} hits of {input_tokens} tokens")
        self.input_tokens += input_tokens
        self.hit_tokens += hit_tokens
        if request.passes > 1:
            self.reprocessed_input_tokens += input_tokens
            self.reprocessed_hit_tokens += hit_tokens

    @property
    def rate(self) -> float:
        """The hit rate, from 0 to 1; 0 without input."""
        tokens = self.input_tokens - self.reprocessed_input_tokens
        return (self.hit_tokens - self.reprocessed_hit_tokens) / tokens if tokens else 0.0

