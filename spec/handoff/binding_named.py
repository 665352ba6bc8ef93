"""The binding where the caller names the request: a retry is safe, and nothing waits for a clock.

Two servers that share only the room cannot tell the other half of a request that has ended from a
retry of it (binding_tables.py). The caller can: it gives the request a number among those of its
room, the same on both servers, and each number once. A sink says this number in every message.

Rule 1: every rank binds a life to the request of that number, whatever comes first.
Rule 2: a request that has ended ends the life that asks for it, and a life that has ended ends the
        request that it asks for, as soon as both are known. They end nothing else.
"""

from typing import Final

from pdproto.spec.handoff.binding import COMMITTED_AS_ONE, IN_TIME, NAMED_BY_EITHER, bound
from pdproto.spec.handoff.binding_tables import (
    FREE,
    OVER,
    RANK_ROWS,
    SINK_ROWS,
    STOP_ALL,
    Meeting,
    Opening,
    Status,
    abort,
    ask,
    binds,
    d,
    done,
    failed,
    h,
    introduce,
    k,
    knows,
    losing,
    meeting,
    met,
    opening,
    p,
    q,
    rank,
    sink,
    status,
    took,
    u,
    v,
    warned,
)
from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Message,
    OnRow,
    Reject,
    ReplaceProperties,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
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


def _one_each(sizes: Sizes) -> Tuples:
    return [(i, i) for i in range(min(sizes[Life], sizes[Use]))]


# The caller has opened the life for this request.
asks: Final = Rigid("asks", h, u, given=_one_each)

named = rank.relation("named", Life, Use)  # a sink has named this use
# In PUBLISH, in a repeated introduction, and in ABORT.
name = Message("name", d, h, p, u, sender=sink, receiver=rank)
NAMED_TO_ALL: Final = each(q, name(d, h, q, u))

RANK: Final = Table(rank, rows=(
    Row("open", on=Call("open_sender", u), when=opening(p, u) == Opening.NEVER,
        do=[opening(p, u).to(Opening.WAITING)], why="its number says which request it is"),
    *RANK_ROWS,
    Row("learn_use_first", on=name(d, h, p, u), when=[meeting(p, h) == Meeting.UNMET],
        do=[meeting(p, h).to(Meeting.UNBOUND), met(p, h, d).to(True), named(p, h, u).to(True)]),
    Row("learn_use", on=name(d, h, p, u),
        when=[meeting(p, h) != Meeting.UNMET, forall(v, ~named(p, h, v))],
        do=[met(p, h, d).to(True), named(p, h, u).to(True)]),
    Ignore(name(d, h, p, u), when=[meeting(p, h) != Meeting.UNMET, exists(v, named(p, h, v))],
           why="the rank has the name already"),
    Row("bind_named", choose=(h, u),
        when=[named(p, h, u), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING],
        do=[meeting(p, h).to(Meeting.BOUND), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)]),
    Row("end_named", choose=(h, u),
        when=[named(p, h, u), meeting(p, h) == Meeting.FAILED, FREE,
              opening(p, u) == Opening.WAITING],
        do=[opening(p, u).to(Opening.BOUND), binds(p, h, u).to(True)],
        why="the life has ended, so its request has ended: prefill does not run"),
    Row("find_over", choose=(h, u),
        when=[named(p, h, u), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.OVER],
        do=[meeting(p, h).to(Meeting.FAILED), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)],
        why="on this rank the request had ended before it was bound"),
    Ignore(ask(d, h, p), when=meeting(p, h).among(Meeting.UNBOUND, Meeting.BOUND),
           why="the sink names the request, too"),
    Ignore(abort(d, h, p), when=meeting(p, h).among(*OVER), why="the life has ended here"),
))

SINK: Final = Table(sink, state=status, rows=(
    Row("begin", on=Call("open_receiver"), at=Status.NONE, to=Status.BEGUN, choose=(u,),
        when=asks(h, u), do=[knows(d, h, u).to(True)],
        send=[each(p, introduce(d, h, p)), NAMED_TO_ALL],
        why="the introduction carries the number of the request"),
    Row("ask_again_by_name", on=Timer("no_news"), at=Status.BEGUN, choose=(u,),
        when=knows(d, h, u), send=[each(q, ask(d, h, q)), NAMED_TO_ALL],
        why="the message with the use, or the answer to it, may have been lost"),
    Row("take", on=done(p, h, d, u), at=Status.BEGUN, when=~took(d, h, p, u),
        do=[took(d, h, p, u).to(True)]),
    Reject(bound(p, h, d, u), at=tuple(Status), why="the sink has named the request"),
    *SINK_ROWS,
    Row("abort_again_by_name", on=Timer("no_answer"), at=Status.FAILED, choose=(u,),
        when=knows(d, h, u), send=[STOP_ALL, NAMED_TO_ALL],
        why="the ranks may not know which request has ended"),
))

# These read old messages, which dead-bit clearing would then keep: small sizes only.
MESSAGES: Final = (
    Always("a_part_has_been_sent", implies(done(p, h, d, u), meeting(p, h) == Meeting.SENT),
           why="a rank sends its part once, and says so then"),
    Always("a_rank_tells_a_failure_that_it_has_seen",
           implies(failed(p, h, d), all_of(meeting(p, h) == Meeting.FAILED, warned(p, h, d))),
           why="a rank reports its own state, and notes whom it has told"),
    Always("an_abort_follows_a_failure", implies(abort(d, h, p), status(d, h) == Status.FAILED),
           why="an abort follows a failure"),
)
ASKS: Final = OnRow(
    "a_sink_that_has_ended_asks_no_more", "ask_again_by_name", status(d, h) == Status.BEGUN,
    why="no answer would change its state")
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


SYSTEM: Final = System(
    "binding-named",
    "The binding where the caller names the request: a retry is never failed by its predecessor.",
    tables=(RANK, SINK),
    properties=(*SAFETY, ASKS, *_OF_TWO),
    final=all_of(forall((d, h), status(d, h) != Status.BEGUN),
                 forall((p, u), opening(p, u) != Opening.WAITING)),
    faults={"lossy": (losing(introduce, ask, name, abort, done, failed),)},
    axioms={
        "a_life_asks_for_one_request": implies(asks(h, u) & asks(h, v), u.same(v)),
        "a_request_is_for_one_life": implies(asks(h, u) & asks(k, u), h.same(k)),
    },
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
