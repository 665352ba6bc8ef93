"""What a run says at its end."""

from dataclasses import dataclass, field
from typing import Final

from pdproto.runtime.role import SINK_ROLE, SOURCE_ROLE, SinkRole, SourceRole
from pdproto.sim.plan import Plan

# What is asked of a run besides the properties of the tables and of the fabric.
ENDS: Final = "L1_every_request_ends"
DRAINED: Final = "L4_everything_is_given_back"
PEERS: Final = "no_peer_is_at_fault"
STEADY: Final = "no_turn_fails"


@dataclass(frozen=True, slots=True)
class Violation:
    """What was broken first. at: in virtual seconds. room: of the hand-over, or -1."""

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
class Outcome:
    """What became of a run. succeeded, failed: requests, as decode has it. seconds: virtual ones.

    steps: that endpoints took, each of which was looked at. batches, lost: that nodes sent, and of
    them those that never arrived. landed: writes. first_token_s: of each request that succeeds,
    from when its client sent it until decode has its KV and first token. reruns: passes of
    optimistic prefill that were dropped. counted: the nodes' counters, all together.
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
