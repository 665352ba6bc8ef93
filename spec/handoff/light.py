"""Three other ways to end a lease, for comparison: each of them fails.

A lease must not end while a source that has its address can still write. transfer.py waits for
DRAINED from every source, or for a fence. Earlier versions of sglang and vLLM did not:

LIGHT     a failure tells the sources to stop, and frees the memory at once (sglang #27372).
TIMED     a failure tells them too, and frees the memory after a time (vLLM #32255).
DEFERRED  the memory is free when every source has drained, or after 30 s, whichever comes first
          (sglang #35049, with the time-out that #38961 describes).

All else is as in transfer.py, except that none of the three has a fence. DEFERRED is safe while its
clock does not run out. Without the clock a lease may last for ever. Only a fence closes this gap:
it keeps a writer out.
"""

from typing import Final

from pdproto.spec.handoff.ends import Receiving, b, d, h, k, lease, sink
from pdproto.spec.handoff.transfer import SAFETY, SYSTEM
from pdproto.spec.language import (
    ANY,
    AddEffect,
    AddRow,
    Configuration,
    Drains,
    DropRow,
    Fairness,
    OnRow,
    ReplaceProperties,
    Row,
    System,
    Timer,
    edited,
    forall,
    implies,
)

# Every row that ends a sink's life without its KV.
FAILURES: Final = (
    "abort_receive", "hear_failure", "lose_source", "give_up_source", "give_up_bootstrap",
    "give_up_transfer", "find_spoilt", "give_up_queue",
)
NO_FENCE: Final = tuple(map(DropRow, ("fence_silent", "fence_lost", "finish_fence")))
BY_CLOCK: Final = AddRow(sink, Row(
    "release_by_clock", on=Timer("held_too_long"), at=Receiving.FAILED, choose=(b,),
    when=lease(d, h, b), do=[lease(d, h, b).to(False)],
    why="a source that has not answered by now is assumed to write no more",
))
CONFIGURATIONS: Final = {
    "default": Configuration(
        SYSTEM.configurations["default"].sizes, dead_bits=True, symmetry=True),
}

PROPERTIES: Final = (
    *(claim for claim in SAFETY if claim.name != "S1_a_write_lands_after_the_failure"),
    OnRow("S1_no_write_into_the_next_requests_memory", "land",
          forall(k, implies(h.differs(k), ~lease(d, k, b))),
          why="users saw this: the answer to one request from the KV of another"),
    Drains("L4_every_chunk_comes_back", forall((d, h, b), ~lease(d, h, b)),
           under=(Fairness.TIMERS,), why="every lease ends, even if no source answers"),
)

LIGHT: Final[System] = edited(
    SYSTEM, "transfer-light",
    *NO_FENCE, DropRow("end_lease"),
    *(AddEffect(row, lease(d, h, ANY).to(False)) for row in FAILURES),
    ReplaceProperties(PROPERTIES),
    about="The transfer with a light notification: a failure frees the memory at once.",
    configurations=CONFIGURATIONS,
)

TIMED: Final[System] = edited(
    SYSTEM, "transfer-timed",
    *NO_FENCE, DropRow("end_lease"), BY_CLOCK,
    ReplaceProperties(PROPERTIES),
    about="The transfer with a timed release: a failure frees the memory after a time.",
    configurations=CONFIGURATIONS,
)

DEFERRED: Final[System] = edited(
    SYSTEM, "transfer-deferred",
    *NO_FENCE, BY_CLOCK,
    ReplaceProperties(PROPERTIES),
    about="The transfer with a deferred release: after every source's answer, or after a time.",
    configurations=CONFIGURATIONS,
)
