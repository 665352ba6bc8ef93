"""The outcome of a simulated run."""

from dataclasses import dataclass, field
from typing import Final

from lab.sim.plan import Plan
from pdproto.runtime.role import SINK_ROLE, SOURCE_ROLE, SinkRole, SourceRole

# The properties of a run, besides those of the tables and of the fabric.
ENDS: Final = "L1_every_request_ends"
DRAINED: Final = "L4_everything_is_given_back"
PEERS: Final = "no_peer_is_at_fault"
STEADY: Final = "no_turn_fails"


@dataclass(frozen=True, slots=True)
class Violation:
    """The first violation of a run. name: of the property. about: the details. at: virtual seconds.
    room: of the hand-over; -1 for none.
    """

    name: str
    about: str
    at: float
    room: int


@dataclass(frozen=True, slots=True)
class Roles:
    """The tables that the nodes run."""

    source: SourceRole = SOURCE_ROLE
    sink: SinkRole = SINK_ROLE


SHIPPED: Final = Roles()


@dataclass(slots=True)
class RunOutcome:
    """The outcome of a run.

    violation: the first one; None if there is none. succeeded, failed: numbers of requests, counted
    at decode. seconds: virtual time of the run. steps: of endpoints; each was checked. batches:
    sent by nodes. lost: batches that never arrived. landed: writes that landed. first_token_s: for
    each successful request, the time from when its client sent it until decode has its KV and first
    token. reruns: dropped passes of optimistic prefill. counted: the sums of the nodes' counters.
    """

    plan: Plan
    violation: Violation | None = None
    succeeded: int = 0
    failed: int = 0
    seconds: float = 0.0
    steps: int = 0
    batches: int = 0
    lost: int = 0
    landed: int = 0
    first_token_s: list[float] = field(default_factory=list)
    reruns: int = 0
    counted: dict[str, float] = field(default_factory=dict)
