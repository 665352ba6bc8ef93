"""Defects of the binding of a room to a life, each an edit of the tables of binding.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.binding import NO_TIMERS, SYSTEM
from pdproto.spec.handoff.binding_tables import (
    LATEST,
    NONE_WAITS,
    d,
    h,
    leads,
    name,
    named,
    p,
    q,
    u,
)
from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import Configuration, DropClause, DropEffect, each, edited

TWO_LIVES: Final = Configuration({Source: 2, Sink: 1, Life: 2, Use: 2}, dead_bits=True)
ONE_LIFE: Final = Configuration({Source: 2, Sink: 1, Life: 1, Use: 2}, dead_bits=True)

FIRST_COME: Final = edited(SYSTEM, "first-come-on-each-rank", DropClause("bind", leads(h, p)))

PREDECESSOR: Final = edited(
    SYSTEM, "failed-by-its-predecessor",
    DropClause("pass_failure_on", LATEST), DropClause("pass_failure_on", NONE_WAITS))

DEAD_LIFE: Final = edited(
    SYSTEM, "request-of-a-dead-life", DropClause("end_named", named(p, h, u)))

NOT_PASSED_ON: Final = edited(
    NO_TIMERS, "use-not-passed-on",
    DropEffect("hear_use", each(q, name(d, h, q, u), where=~leads(h, q))))

BUGS: Final[tuple[Bug, ...]] = (
    Bug("first-come", "pdproto itself; sglang #26486 has samples of one prompt in one room",
        "Two requests share a room, an introduction to one rank is lost, and a decode server "
        "generates from layers of both.", FIRST_COME, TWO_LIVES, "S2_no_life_is_two_requests",
        note="Each rank binds the lives of a room to its requests as they come."),
    Bug("retry-failed", "pdproto itself",
        "A client's retry fails at once with the reason for which its first request was aborted.",
        PREDECESSOR, ONE_LIFE, "a_retry_is_not_failed_by_its_predecessor"),
    Bug("retry-lost", "pdproto itself",
        "A retry waits for its time-out, because its half on prefill was given to the earlier "
        "life, which had ended.", DEAD_LIFE, ONE_LIFE, "an_ended_life_takes_no_request"),
    Bug("use-kept", "no report; a decode rank that knows the request and does not tell the others",
        "All prefill ranks except one wait for their time-out.", NOT_PASSED_ON, ONE_LIFE,
        "L1_every_rank_binds_as_its_leader"),
)
