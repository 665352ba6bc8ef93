"""The binding where the caller names the request: a retry is safe, and nothing waits for a clock.

Two servers that share only the room cannot tell the other half of a request that has ended from a
retry of it (binding_tables.py). The caller can: it gives the request a number among those of its
room, the same on both servers, and each number once. A sink says this number in every message.

Rule 1: every rank binds a life to the request of that number, so no rank has to lead.
Rule 2: a request that has ended ends the life that asks for it, and a life that has ended ends the
        request that it asks for, as soon as both are known. They end nothing else.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.binding import ASKS, COMMITTED_AS_ONE, IN_TIME, MESSAGES, NAMED_BY_EITHER
from pdproto.spec.handoff.binding import SYSTEM as BINDING
from pdproto.spec.handoff.binding_tables import (
    NOT_KNOWN,
    OVER,
    RANK,
    SINK,
    Meeting,
    Opening,
    Status,
    binds,
    bound,
    d,
    h,
    introduce,
    k,
    knows,
    leads,
    meeting,
    name,
    named,
    opening,
    p,
    q,
    sink,
    status,
    u,
    v,
    warned,
)
from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import (
    AddEffect,
    AddRow,
    Always,
    Call,
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    Fairness,
    LeadsTo,
    OnRow,
    Reject,
    ReplaceProperties,
    ReplaceRow,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    Timer,
    Tuples,
    all_of,
    any_of,
    each,
    edited,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.symbols import Sent


def _one_each(sizes: Sizes) -> Tuples:
    return [(i, i) for i in range(min(sizes[Life], sizes[Use]))]


# The caller has opened the life for this request.
asks: Final = Rigid("asks", h, u, given=_one_each)

# Rows of a leader, of a sink that does not know its request, and of two lives for one request.
_OF_LEADERS: Final = (
    "tell_use", "find_taken", "take_first", "ask_again", "abort_again",
    *(row.name for row in RANK.rows if leads(h, p) in row.conditions and row.name != "tell_use"),
    *(row.name for row in SINK.rows if isinstance(row.on, Sent) and row.on.symbol is bound),
)
_OF_OTHERS: Final = tuple(row.name for row in RANK.rows if ~leads(h, p) in row.conditions)
_TO_OTHERS: Final = each(q, name(d, h, q, u), where=~leads(h, q))
_TO_ALL: Final = each(q, name(d, h, q, u))
SAFETY: Final = (
    Always("S2_no_life_is_two_requests",
           implies(binds(p, h, u) & binds(q, h, v), u.same(v)),
           why="for every two ranks, after any loss or delay, and if only one side opens the room"),
    Always("S4_no_request_is_two_lives",
           implies(binds(p, h, u) & binds(q, k, u), h.same(k)),
           why="each request is named for one life"),
    Always("S2_a_life_has_the_request_that_it_asks_for", implies(binds(p, h, u), asks(h, u)),
           why="every rank binds by the number"),
    *COMMITTED_AS_ONE,
    *NAMED_BY_EITHER,
    *MESSAGES,
    Always("a_life_fails_with_its_request_or_its_sink",
           implies(meeting(p, h) == Meeting.FAILED,
                   any_of(exists(u, binds(p, h, u)),
                          exists(d, all_of(status(d, h) == Status.FAILED, warned(p, h, d))))),
           why="nothing else ends a life on a rank, and the sink that ends it needs no answer"),
    OnRow("a_retry_is_not_failed_by_its_predecessor", "find_over", asks(h, u),
          why="a request that has ended answers the life that asks for it, and no other"),
    OnRow("an_ended_life_takes_no_request", "end_named", asks(h, u),
          why="a life that has ended ends the request that it asks for, and no other"),
    Sometimes("a_rank_is_told_before_its_request_comes", all_of(
        named(p, h, u), opening(p, u) == Opening.NEVER)),
)
LEFT: Final = Sometimes("a_request_may_end_before_its_life_comes", opening(p, u) == Opening.OVER)
_OF_TWO: Final = (  # lives
    Sometimes("a_retry_is_bound_after_its_predecessor_has_ended", all_of(
        u.before(v), opening(p, u) == Opening.OVER, binds(p, h, v))),
    Sometimes("a_retry_is_bound_after_another_life_has_ended", all_of(
        meeting(p, k) == Meeting.FAILED, asks(k, u), u.before(v), binds(p, h, v),
        meeting(p, h) == Meeting.BOUND)),
)


def liveness(*under: Fairness) -> tuple[LeadsTo, ...]:
    return (
        LeadsTo("L1_a_request_on_both_servers_is_bound",
                all_of(status(d, h) == Status.BEGUN, asks(h, u),
                       opening(p, u) == Opening.WAITING),
                any_of(status(d, h) != Status.BEGUN, opening(p, u) != Opening.WAITING),
                under=under, why="every rank learns of a life that has begun"),
        LeadsTo("L2_a_request_that_has_ended_ends_its_life",
                all_of(opening(p, u) == Opening.OVER, asks(h, u), status(d, h) == Status.BEGUN),
                status(d, h) != Status.BEGUN, under=under,
                why="a message reports the failure, and no clock"),
        LeadsTo("L2_a_life_that_has_ended_ends_its_request",
                all_of(status(d, h) == Status.FAILED, asks(h, u),
                       opening(p, u) == Opening.WAITING),
                opening(p, u) != Opening.WAITING, under=under,
                why="a message reports the failure, and no clock"),
        LeadsTo("L2_a_failure_reaches_every_rank",
                all_of(status(d, h) == Status.FAILED, meeting(p, h).among(
                    Meeting.UNBOUND, Meeting.BOUND)),
                meeting(p, h).among(*OVER), under=under,
                why="a message reports the failure, and no clock"),
        LeadsTo("L2_a_failure_reaches_the_sink",
                all_of(meeting(p, h) == Meeting.FAILED, status(d, h) == Status.BEGUN),
                status(d, h) != Status.BEGUN, under=under,
                why="a message reports the failure, and no clock"),
    )


def _configuration(
    *faults: str, lives: int = 2, sources: int = 2, sinks: int = 1
) -> Configuration:
    return Configuration({Source: sources, Sink: sinks, Life: lives, Use: lives}, faults=faults,
                         dead_bits=True, symmetry=True)


BEGIN_NAMED: Final = Row(
    "begin", on=Call("open_receiver"), at=Status.NONE, to=Status.BEGUN, choose=(u,),
    when=asks(h, u), do=[knows(d, h, u).to(True)],
    send=[each(p, introduce(d, h, p)), _TO_ALL],
    why="the introduction carries the number of the request")

SYSTEM: Final = edited(
    replace(BINDING, configurations={}, like=BINDING, axioms={
        "a_life_asks_for_one_request": implies(asks(h, u) & asks(h, v), u.same(v)),
        "a_request_is_for_one_life": implies(asks(h, u) & asks(k, u), h.same(k)),
    }),
    "binding-named",
    *map(DropRow, _OF_LEADERS),
    *(DropClause(row, ~leads(h, p)) for row in _OF_OTHERS),
    DropClause("take", any_of(~leads(h, p), ~NOT_KNOWN)),
    *(edit for row in ("ask_again_by_name", "abort_again_by_name")
      for edit in (DropEffect(row, _TO_OTHERS), AddEffect(row, _TO_ALL))),
    AddRow(sink, Reject(bound(p, h, d, u), at=tuple(Status), why="no rank leads")),
    ReplaceRow("begin", BEGIN_NAMED),
    DropClause("open", forall(v, implies(v.before(u), opening(p, v) != Opening.NEVER))),
    ReplaceProperties((*SAFETY, ASKS, *_OF_TWO)),
    about="The binding where the caller names the request: a retry is never failed by its "
          "predecessor.",
    configurations={
        "default": _configuration(sources=1),
        "deep": _configuration(),
    },
)

LOSS: Final = edited(
    SYSTEM, "binding-named-loss", ReplaceProperties((*SAFETY, ASKS, *IN_TIME)),
    about="The binding by the caller's number, where messages are lost.",
    configurations={"default": _configuration("lossy", lives=1)},
)

TWO_LIVES: Final = edited(
    SYSTEM, "binding-named-two-lives", ReplaceProperties((*SAFETY, ASKS, *_OF_TWO)),
    about="The binding by the caller's number, where messages about two lives are lost.",
    configurations={"default": _configuration("lossy", sources=1)},
)

TIMEOUTS_ONLY: Final = edited(
    SYSTEM, "binding-named-timeouts-only", ReplaceProperties((
        *SAFETY, ASKS, *IN_TIME, *liveness(Fairness.TIMERS, Fairness.DETECTORS))),
    about="The binding by the caller's number, where nothing is lost, and clocks may still run "
          "out.",
    configurations={"default": _configuration(lives=1)},
)

NO_TIMEOUTS: Final = edited(
    SYSTEM, "binding-named-no-timeouts", DropRow("give_up"), DropRow("give_up_waiting"),
    ReplaceProperties((*SAFETY, ASKS, *liveness(Fairness.TIMERS, Fairness.CONSUMED))),
    about="The binding by the caller's number where no end gives up: a lost message is sent again.",
    configurations={"default": _configuration("lossy", lives=1)},
)

NO_TIMERS: Final = edited(
    SYSTEM, "binding-named-no-timers",
    *(DropRow(row.name) for table in SYSTEM.tables for row in table.rows
      if isinstance(row.on, Timer)),
    ReplaceProperties((*SAFETY, LEFT, *liveness(Fairness.NO_TIMERS, Fairness.CONSUMED))),
    about="The binding by the caller's number, where nothing is lost and there is no clock: no "
          "end waits for one.",
    configurations={
        "default": _configuration(sources=1),
        "ranks": _configuration(lives=1),
        "sinks": _configuration(lives=1, sources=1, sinks=2),
        "deep": _configuration(),
    },
)
