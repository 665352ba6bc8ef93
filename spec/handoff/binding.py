"""The systems of the binding of a room to a life; binding_tables.py has the tables and rules.

No row reads the absence of a message. So for safety a lost message is the same as one that is late
for ever: loss is explored for liveness with one life, and with two lives for safety alone.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.binding_tables import (
    ALONE,
    END_WITH_LIFE,
    ENDED,
    FREE,
    LATEST,
    LOSSY,
    NONE_WAITS,
    OLDEST,
    OVER,
    RANK,
    SINK,
    Meeting,
    Opening,
    Status,
    abort,
    ask,
    binds,
    bound,
    d,
    done,
    failed,
    h,
    k,
    knows,
    leads,
    meeting,
    met,
    named,
    opening,
    p,
    q,
    rank,
    status,
    told,
    took,
    u,
    v,
    warned,
)
from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import (
    AddRow,
    Always,
    Configuration,
    DropRow,
    Fairness,
    LeadsTo,
    OnRow,
    ReplaceProperties,
    Sizes,
    Sometimes,
    System,
    Timer,
    Tuples,
    all_of,
    any_of,
    edited,
    exists,
    forall,
    implies,
)

# One rank decides for both lives. Where decode names two, requests may fail, but do not mix.
ONE_LEADER: Final = exists(p, all_of(leads(h, p), leads(k, p)))
ALL_UNDER_ONE: Final = forall((h, k, p), implies(leads(h, p), leads(k, p)))

COMMITTED_AS_ONE: Final = (
    Always("S2_no_success_has_parts_of_two_requests",
           implies(all_of(status(d, h) == Status.SUCCESS, took(d, h, p, u), took(d, h, q, v)),
                   u.same(v)),
           why="every part belongs to the request that the leader has named"),
    Always("S2_a_success_is_of_the_named_request",
           implies(all_of(status(d, h) == Status.SUCCESS, took(d, h, p, u)), knows(d, h, u)),
           why="a part of another request does not count"),
    Always("S2_a_success_has_every_part",
           implies(status(d, h) == Status.SUCCESS, exists(u, took(d, h, p, u))),
           why="a sink commits when the parts of all ranks have landed"),
    Sometimes("S2_a_life_has_all_its_parts", status(d, h) == Status.SUCCESS),
)

BOUND_TO_A_LIFE: Final = Always(
    "a_bound_request_has_a_life",
    implies(opening(p, u) == Opening.BOUND, exists(h, binds(p, h, u))),
    why="a request that ended before it was bound is not bound")
# Whether the leader or the caller names the request of a life.
NAMED_BY_EITHER: Final = (
    BOUND_TO_A_LIFE,
    Always("a_life_has_bound_its_request",
           implies(binds(p, h, u), opening(p, u) == Opening.BOUND),
           why="also one that had ended: no other life gets it"),
    Always("a_life_is_met_with_a_sink",
           implies(meeting(p, h) != Meeting.UNMET, exists(d, met(p, h, d))),
           why="a rank knows a sink for every life, so it can answer without a question"),
    Always("a_sink_is_met_with_a_life", implies(met(p, h, d), meeting(p, h) != Meeting.UNMET),
           why="the same rows note both"),
    Always("a_rank_knows_each_sink_that_it_has_told",
           implies(told(p, h, d) | warned(p, h, d), met(p, h, d)),
           why="its part goes to the sinks that it knows"),
)
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
BOUND_ONCE: Final = Always(
    "S4_no_request_is_bound_twice_on_a_rank", implies(binds(p, h, u) & binds(p, k, u), h.same(k)),
    why="also where decode names two leaders")
NOT_FAILED_BY_PREDECESSOR: Final = OnRow(
    "a_retry_is_not_failed_by_its_predecessor", "pass_failure_on",
    all_of(ask(d, h, p), NONE_WAITS, LATEST),
    why="an ended request answers only if it is the last, and only a life that asks again")
SAFETY: Final = (
    Always("S2_no_life_is_two_requests",
           implies(binds(p, h, u) & binds(q, h, v), u.same(v)),
           why="for every two ranks, after any loss or delay, and if only one side opens the room"),
    BOUND_ONCE,
    Always("S4_no_request_is_two_lives",
           implies(all_of(ONE_LEADER, binds(p, h, u), binds(q, k, u)), h.same(k)),
           why="its leader binds it once, and the other ranks follow"),
    *COMMITTED_AS_ONE,
    *NAMED_BY_EITHER,
    ASKS,
    NOT_FAILED_BY_PREDECESSOR,
    OnRow("an_ended_life_takes_no_request", "end_named",
          exists(q, all_of(leads(h, q), binds(q, h, u))),
          why="except the request that the leader has bound to it"),
    OnRow("the_leader_binds_the_living", "bind",
          all_of(meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING),
          why="an ended life is no candidate, and neither is an ended request"),
    OnRow("ranks_open_requests_in_one_order", "open",
          forall(v, implies(v.before(u), opening(p, v) != Opening.NEVER)),
          why="the oldest request of the leader is then the oldest on every rank"),
    OnRow("the_leader_binds_the_oldest_request", "bind", OLDEST,
          why="no request overtakes one that has waited for longer"),
    OnRow("a_life_fails_if_another_has_its_request", "find_taken",
          all_of(named(p, h, u), exists(k, all_of(h.differs(k), binds(p, k, u)))),
          why="and for no request but its own"),
    Sometimes("a_rank_is_told_before_its_request_comes", all_of(
        ~leads(h, p), named(p, h, u), opening(p, u) == Opening.NEVER)),
    Sometimes("a_life_hears_of_a_request_that_ended_before_it", all_of(
        meeting(p, h) == Meeting.FAILED, binds(p, h, u), status(d, h) == Status.BEGUN,
        warned(p, h, d), leads(h, p), opening(q, u) == Opening.NEVER)),
)


FAILS_BY_ITSELF: Final = Sometimes(
    "a_bound_life_fails_by_itself",
    all_of(leads(h, p), meeting(p, h) == Meeting.FAILED, status(d, h) == Status.BEGUN),
    why="no sink has ended it, and without a clock no life asks for a request that has ended")
_OF_TWO: Final = (
    Sometimes("two_lives_are_bound", all_of(
        h.differs(k), p.differs(q), binds(p, h, u), binds(q, h, u), binds(p, k, v),
        binds(q, k, v))),
    Sometimes("a_later_request_is_bound_first", all_of(
        u.before(v), opening(p, u) == Opening.OVER, binds(p, h, v))),
)


def _liveness(*under: Fairness) -> tuple[LeadsTo, ...]:
    """A life and a request on both servers are bound, on every rank, as far as messages allow."""
    return (
        LeadsTo("L1_a_life_and_a_request_are_bound",
                all_of(leads(h, p), meeting(p, h) == Meeting.UNBOUND,
                       opening(p, u) == Opening.WAITING),
                any_of(meeting(p, h) != Meeting.UNBOUND, opening(p, u) != Opening.WAITING),
                under=under, why="neither waits for the other"),
        LeadsTo("L1_a_request_on_both_servers_is_bound",
                all_of(leads(h, p), status(d, h) == Status.BEGUN,
                       opening(p, u) == Opening.WAITING),
                any_of(status(d, h) != Status.BEGUN, opening(p, u) != Opening.WAITING,
                       exists(v, binds(p, h, v))),
                under=under, why="every rank learns of a life that has begun"),
        LeadsTo("L1_a_sink_learns_its_request",
                all_of(leads(h, p), binds(p, h, u), status(d, h) == Status.BEGUN),
                any_of(status(d, h) != Status.BEGUN, knows(d, h, u)), under=under,
                why="the sink has to tell the other ranks"),
        _every_rank_binds(*under),
        LeadsTo("L2_a_failure_reaches_the_sink",
                all_of(meeting(p, h) == Meeting.FAILED, status(d, h) == Status.BEGUN),
                status(d, h) != Status.BEGUN, under=under,
                why="a message reports the failure, and no clock"),
        _failure_reaches_every_rank(*under),
    )


def _every_rank_binds(*under: Fairness) -> LeadsTo:
    return LeadsTo(
        "L1_every_rank_binds_as_its_leader",
        all_of(ALL_UNDER_ONE, leads(h, p), binds(p, h, u), opening(q, u) == Opening.WAITING),
        opening(q, u) != Opening.WAITING, under=under,
        why="sinks pass the use on, even for a life that has ended")


def _failure_reaches_every_rank(*under: Fairness) -> LeadsTo:
    return LeadsTo(
        "L2_a_failure_reaches_every_rank",
        all_of(status(d, h) == Status.FAILED, meeting(p, h).among(Meeting.UNBOUND, Meeting.BOUND)),
        meeting(p, h).among(*OVER), under=under, why="a message reports the failure, and no clock")


def _landed_life_ends(*under: Fairness) -> LeadsTo:
    return LeadsTo(
        "L1_a_life_with_all_parts_ends",
        all_of(status(d, h) == Status.BEGUN, forall(p, meeting(p, h) == Meeting.SENT)),
        status(d, h) != Status.BEGUN, under=under, why="each part is reported, and counts at once")


IN_TIME: Final = (
    LeadsTo("L1_a_life_ends", status(d, h) == Status.BEGUN, status(d, h).among(*ENDED),
            under=(Fairness.TIMERS,), why="the sink has a clock"),
    LeadsTo("L1_a_request_waits_no_longer", opening(p, u) == Opening.WAITING,
            opening(p, u) != Opening.WAITING, under=(Fairness.TIMERS,), why="the rank has a clock"),
)
_ASKED: Final = (  # properties of a life that asks again
    "a_retry_is_not_failed_by_its_predecessor",
    "a_life_hears_of_a_request_that_ended_before_it",
    ASKS.name,
)
_ONCE: Final = (Fairness.TIMERS, Fairness.CONSUMED)


def _each_leads_one(sizes: Sizes) -> Tuples:
    return [(i, i % sizes[Source]) for i in range(sizes[Life])]


def _sizes(*, sources: int = 2, sinks: int = 1, lives: int = 2, uses: int = 2) -> Sizes:
    return {Source: sources, Sink: sinks, Life: lives, Use: uses}


SYSTEM: Final = System(
    "binding",
    "To which request of a room a life belongs, on every rank of a prefill server.",
    tables=(RANK, SINK),
    properties=SAFETY,
    final=all_of(forall((d, h), status(d, h) != Status.BEGUN),
                 forall((p, u), opening(p, u) != Opening.WAITING)),
    faults={"lossy": (LOSSY,)},
    axioms={"one_leader": forall((h, p, q), implies(leads(h, p) & leads(h, q), p.same(q)))},
    configurations={
        "default": Configuration(_sizes(), dead_bits=True, symmetry=True),
        "sinks": Configuration(_sizes(sinks=2, lives=1), dead_bits=True, symmetry=True),
        "deep": Configuration(
            _sizes(uses=1), faults=("lossy",), dead_bits=True, symmetry=True),
    },
)

TWO_LEADERS: Final = edited(
    replace(SYSTEM, configurations={}, like=SYSTEM), "binding-two-leaders",
    ReplaceProperties((
        *SAFETY, *MESSAGES,
        Always("a_leader_notes_each_sink_that_it_tells", implies(bound(p, h, d, u), told(p, h, d)),
               why="it tells each sink once, and again only when asked"),
        LeadsTo("L2_a_life_fails_if_another_has_its_request",
                all_of(h.differs(k), named(p, h, u), binds(p, k, u), status(d, h) == Status.BEGUN),
                status(d, h) != Status.BEGUN, why="a message reports the failure, and no clock"))),
    about="The binding where decode names two leaders: requests may fail, but do not mix.",
    configurations={"default": Configuration(
        _sizes(uses=1), given={leads: _each_leads_one}, dead_bits=True)},
)

_LOSING_ONE: Final = Configuration(
    _sizes(lives=1), faults=("lossy",), dead_bits=True, symmetry=True)
LOSS: Final = edited(
    SYSTEM, "binding-loss",
    ReplaceProperties((*SAFETY, *IN_TIME)),
    about="The binding of a life to a request, where messages are lost.",
    configurations={"default": _LOSING_ONE},
)

NO_TIMEOUTS: Final = edited(
    SYSTEM, "binding-no-timeouts", DropRow("give_up"), DropRow("give_up_waiting"),
    ReplaceProperties((*SAFETY, *_liveness(*_ONCE))),
    about="The binding where no end gives up: a lost message is sent again.",
    configurations={"default": _LOSING_ONE},
)

NO_TIMERS: Final = edited(
    SYSTEM, "binding-no-timers",
    *(DropRow(row.name) for table in (RANK, SINK) for row in table.rows
      if isinstance(row.on, Timer)),
    ReplaceProperties((
        *(claim for claim in SAFETY if claim.name not in _ASKED), *_OF_TWO, FAILS_BY_ITSELF,
        *_liveness(Fairness.NO_TIMERS))),
    about="The binding of a life to a request, where nothing is lost and there is no clock.",
    configurations={"default": Configuration(_sizes(), dead_bits=True, symmetry=True)},
)

# A message that is delivered again hides that it did not count the first time.
ONCE: Final = edited(
    NO_TIMERS, "binding-once",
    ReplaceProperties((_landed_life_ends(Fairness.NO_TIMERS, Fairness.CONSUMED),
                       _every_rank_binds(Fairness.NO_TIMERS, Fairness.CONSUMED))),
    about="The binding where each message is delivered once, and there is no clock.",
    configurations={"default": Configuration(_sizes(lives=1), dead_bits=True, symmetry=True)},
)

_ALONE: Final = (  # properties of a rank that decides for itself
    *COMMITTED_AS_ONE,
    *NAMED_BY_EITHER,
    Always("S2_a_rank_binds_a_life_to_one_request",
           implies(binds(p, h, u) & binds(p, h, v), u.same(v)), why="also a life that has ended"),
    BOUND_ONCE,
    NOT_FAILED_BY_PREDECESSOR,
    OnRow("an_ended_life_ends_one_request", "end_with_life",
          all_of(leads(h, p), meeting(p, h) == Meeting.FAILED, FREE),
          why="the sink has ended the life, and its leader decides which request that is"),
    OnRow("a_request_that_another_life_may_want_goes_on", "end_with_life",
          all_of(OLDEST, forall(k, meeting(p, k) != Meeting.UNBOUND)),
          why="a life that waits gets the oldest request"),
)
GUARDED: Final = edited(
    replace(SYSTEM, faults={**SYSTEM.faults, "alone": (ALONE,)}, configurations={}, like=SYSTEM),
    "binding-guarded",
    AddRow(rank, END_WITH_LIFE),
    ReplaceProperties((
        *_ALONE,
        OnRow("S2_only_a_mixed_life_fails_as_mixed", "find_mixed",
              exists(q, all_of(~leads(h, q), binds(q, h, u))),
              why="a rank has bound the life to a request that its leader has not named"),
        _landed_life_ends(Fairness.NO_TIMERS), _failure_reaches_every_rank(Fairness.NO_TIMERS))),
    about="The binding where a rank decides for itself: the sink notices it, and mixes no "
          "requests.",
    configurations={
        "default": Configuration(
            _sizes(lives=1), faults=("alone",), dead_bits=True, symmetry=True)},
)

GUARDED_NO_TIMEOUTS: Final = edited(
    replace(GUARDED, faults={}, configurations={}, like=GUARDED), "binding-guarded-no-timeouts",
    DropRow("give_up"), DropRow("give_up_waiting"),
    ReplaceProperties((
        *_ALONE,
        LeadsTo("L1_a_life_that_has_ended_ends_a_request",
                all_of(leads(h, p), meeting(p, h) == Meeting.FAILED,
                       opening(p, u) == Opening.WAITING),
                any_of(opening(p, u) != Opening.WAITING, exists(v, binds(p, h, v))),
                under=(Fairness.TIMERS,), why="the request needs no time-out of its own"),)),
    about="The binding where a rank decides for itself, and no end gives up.",
    configurations={
        "default": Configuration(_sizes(sources=1), dead_bits=True, symmetry=True)},
)
