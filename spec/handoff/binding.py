"""The binding of a room to a life, where two servers share only the room: each rank decides.

Rule 1: a rank binds a life to the oldest request of the room that waits there
        (binding_ordered.py: why the ranks decide alike).
Rule 2: a sink compares the uses that its sources name, and fails the request if they differ.
Rule 3: a request that ended before it was bound is no candidate while there is another, and neither
        is such a life. A rank tells the failure of such a request only to a life that has asked
        again, and only if the room has no later request. It tells no request of such a life.
Rule 4: a life that has ended ends the oldest request that waits, if no other life comes.

No server can tell these two cases apart: the life is the other half of the request that has ended
here, or of the next one, which has not come here yet. Rule 3 assumes the next one until the life
asks again. The caller can tell them apart (binding_named.py).

No row reads the absence of a message. So for safety a lost message is the same as one that is late
for ever: loss is explored for liveness with one life, and with two lives for safety alone.
"""

from typing import Final

from pdproto.spec.handoff.binding_tables import (
    ENDED,
    FREE,
    LATEST,
    NONE_WAITS,
    NOT_KNOWN,
    OLDEST,
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
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    each,
    edited,
    exists,
    forall,
    implies,
)

told = rank.relation("told", Life, Sink)  # the rank has told this sink the use
# In EXPECTING, FAILED and ABORT_ACK.
bound = Message("bound", p, h, d, u, sender=rank, receiver=sink)

RANK: Final = Table(rank, rows=(
    Row("open", on=Call("open_sender", u),
        when=[opening(p, u) == Opening.NEVER,
              forall(v, implies(v.before(u), opening(p, v) != Opening.NEVER))],
        do=[opening(p, u).to(Opening.WAITING)], why="the ranks open requests in one order"),
    *RANK_ROWS,
    Row("bind", choose=(h, u),
        when=[meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING, OLDEST],
        do=[meeting(p, h).to(Meeting.BOUND), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)],
        why="a rank cannot tell which of several requests it is"),
    Row("tell_use", choose=(d, h, u), when=[met(p, h, d), binds(p, h, u), ~told(p, h, d)],
        do=[told(p, h, d).to(True)], send=[bound(p, h, d, u)],
        why="also for a life that has failed: the sink compares the uses"),
    Row("pass_failure_on", on=ask(d, h, p), choose=(u,),
        when=[meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.OVER, NONE_WAITS, LATEST],
        do=[meeting(p, h).to(Meeting.FAILED), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)],
        why="the life has waited, and no other request of the room has come"),
    Ignore(ask(d, h, p), when=[meeting(p, h) == Meeting.UNBOUND, any_of(
        ~NONE_WAITS, forall(u, implies(opening(p, u) == Opening.OVER, ~LATEST)))],
           why="its request has not come here yet"),
    Row("tell_again", on=ask(d, h, p), choose=(u,),
        when=[meeting(p, h) == Meeting.BOUND, binds(p, h, u)],
        do=[met(p, h, d).to(True), told(p, h, d).to(True)], send=[bound(p, h, d, u)],
        why="the answer may have been lost"),
    Reject(ask(d, h, p), when=[meeting(p, h) == Meeting.BOUND, FREE],
           name="reject_ask_bound", why="a bound life has a request"),
    Row("stop_again", on=abort(d, h, p), choose=(u,),
        when=[meeting(p, h).among(*OVER), binds(p, h, u)],
        do=[met(p, h, d).to(True), told(p, h, d).to(True)], send=[bound(p, h, d, u)],
        why="the answer may have been lost"),
    Ignore(abort(d, h, p), when=[FREE, meeting(p, h).among(*OVER)],
           name="ignore_abort_unbound", why="the life has ended, and no request ended with it"),
    # Rule 3 holds for lives, and not for requests.
    Row("end_with_life", on=Timer("no_other_life"), choose=(h, u),
        when=[meeting(p, h) == Meeting.FAILED, FREE, opening(p, u) == Opening.WAITING, OLDEST,
              forall(k, meeting(p, k) != Meeting.UNBOUND)],
        do=[opening(p, u).to(Opening.BOUND), binds(p, h, u).to(True)],
        why="the sink has ended the life, and brings no other: the request is not a retry, so it "
            "does not wait for decode any longer"),
))

SINK: Final = Table(sink, state=status, rows=(
    Row("begin", on=Call("open_receiver"), at=Status.NONE, to=Status.BEGUN,
        send=[each(p, introduce(d, h, p))],
        why="to all sources at once: no source waits for another"),
    Row("ask_again", on=Timer("no_news"), at=Status.BEGUN, send=[each(q, ask(d, h, q))],
        why="the introduction, or the answer to it, may have been lost"),
    Row("hear_use", on=bound(p, h, d, u), at=(Status.BEGUN, Status.FAILED), when=NOT_KNOWN,
        do=[knows(d, h, u).to(True)]),
    Ignore(bound(p, h, d, u), at=(Status.BEGUN, Status.FAILED), when=~NOT_KNOWN,
           why="the sink knows the use already"),
    Ignore(bound(p, h, d, u), at=Status.SUCCESS, why="the life has ended"),
    Reject(bound(p, h, d, u), at=Status.NONE, why="the source cannot know of this life yet"),
    Row("take_first", on=done(p, h, d, u), at=Status.BEGUN, when=[NOT_KNOWN, ~took(d, h, p, u)],
        do=[took(d, h, p, u).to(True), knows(d, h, u).to(True)],
        why="the rank's earlier message was lost, or is late"),
    Row("take", on=done(p, h, d, u), at=Status.BEGUN, when=[~took(d, h, p, u), ~NOT_KNOWN],
        do=[took(d, h, p, u).to(True)]),
    *SINK_ROWS,
    Row("abort_again", on=Timer("no_answer"), at=Status.FAILED, send=[STOP_ALL],
        why="the abort, or the answer to it, may have been lost"),
))

COMMITTED_AS_ONE: Final = (
    Always("S2_no_success_has_parts_of_two_requests",
           implies(all_of(status(d, h) == Status.SUCCESS, took(d, h, p, u), took(d, h, q, v)),
                   u.same(v)),
           why="every part belongs to the request that the sink knows"),
    Always("S2_a_success_is_of_the_named_request",
           implies(all_of(status(d, h) == Status.SUCCESS, took(d, h, p, u)), knows(d, h, u)),
           why="a part of another request does not count"),
    Always("S2_a_success_has_every_part",
           implies(status(d, h) == Status.SUCCESS, exists(u, took(d, h, p, u))),
           why="a sink commits when the parts of all ranks have landed"),
    OnRow("S2_only_a_mixed_life_fails_as_mixed", "find_mixed",
          all_of(binds(p, h, u), exists(q, binds(q, h, v))),
          why="two ranks have bound the life to two requests"),
    Sometimes("S2_a_life_has_all_its_parts", status(d, h) == Status.SUCCESS),
)

# Whether a rank or the caller names the request of a life.
NAMED_BY_EITHER: Final = (
    Always("a_bound_request_has_a_life",
           implies(opening(p, u) == Opening.BOUND, exists(h, binds(p, h, u))),
           why="a request that ended before it was bound is not bound"),
    Always("a_life_has_bound_its_request",
           implies(binds(p, h, u), opening(p, u) == Opening.BOUND),
           why="also one that had ended: no other life gets it"),
    Always("a_life_is_met_with_a_sink",
           implies(meeting(p, h) != Meeting.UNMET, exists(d, met(p, h, d))),
           why="a rank knows a sink for every life, so it can answer without a question"),
    Always("a_sink_is_met_with_a_life", implies(met(p, h, d), meeting(p, h) != Meeting.UNMET),
           why="the same rows note both"),
    Always("a_rank_knows_each_sink_that_it_has_warned", implies(warned(p, h, d), met(p, h, d)),
           why="its part goes to the sinks that it knows"),
)
BOUND_ONCE: Final = Always(
    "S4_no_request_is_bound_twice_on_a_rank", implies(binds(p, h, u) & binds(p, k, u), h.same(k)),
    why="a rank binds a request that waits, or that has ended unbound")
TOLD_IS_MET: Final = Always(
    "a_rank_knows_each_sink_that_it_has_told", implies(told(p, h, d), met(p, h, d)),
    why="its part goes to the sinks that it knows")
NOT_FAILED_BY_PREDECESSOR: Final = OnRow(
    "a_retry_is_not_failed_by_its_predecessor", "pass_failure_on",
    all_of(ask(d, h, p), NONE_WAITS, LATEST),
    why="an ended request answers only if it is the last, and only a life that asks again")
IN_TIME: Final = (
    LeadsTo("L1_a_life_ends", status(d, h) == Status.BEGUN, status(d, h).among(*ENDED),
            under=(Fairness.TIMERS,), why="the sink has a clock"),
    LeadsTo("L1_a_request_waits_no_longer", opening(p, u) == Opening.WAITING,
            opening(p, u) != Opening.WAITING, under=(Fairness.TIMERS,), why="the rank has a clock"),
)
_SAFETY: Final = (
    *COMMITTED_AS_ONE,
    *NAMED_BY_EITHER,
    Always("S2_a_rank_binds_a_life_to_one_request",
           implies(binds(p, h, u) & binds(p, h, v), u.same(v)), why="also a life that has ended"),
    BOUND_ONCE,
    TOLD_IS_MET,
    NOT_FAILED_BY_PREDECESSOR,
    OnRow("a_rank_binds_the_oldest_request", "bind", OLDEST,
          why="no request overtakes one that has waited for longer"),
    OnRow("ranks_open_requests_in_one_order", "open",
          forall(v, implies(v.before(u), opening(p, v) != Opening.NEVER)),
          why="the oldest request of a rank is then the oldest on every rank"),
    OnRow("an_ended_life_ends_one_request", "end_with_life",
          all_of(meeting(p, h) == Meeting.FAILED, FREE),
          why="the sink has ended the life, and its rank decides which request that is"),
    OnRow("a_request_that_another_life_may_want_goes_on", "end_with_life",
          all_of(OLDEST, forall(k, meeting(p, k) != Meeting.UNBOUND)),
          why="a life that waits gets the oldest request"),
)


def landed_life_ends(*under: Fairness) -> LeadsTo:
    return LeadsTo(
        "L1_a_life_with_all_parts_ends",
        all_of(status(d, h) == Status.BEGUN, forall(p, meeting(p, h) == Meeting.SENT)),
        status(d, h) != Status.BEGUN, under=under, why="each part is reported, and counts at once")


def _sink_learns(*under: Fairness) -> LeadsTo:
    return LeadsTo(
        "L1_a_sink_learns_its_request", all_of(binds(p, h, u), status(d, h) == Status.BEGUN),
        any_of(status(d, h) != Status.BEGUN, ~NOT_KNOWN), under=under,
        why="a rank tells the request, and again when the sink asks")


def _failure_reaches_every_rank(*under: Fairness) -> LeadsTo:
    return LeadsTo(
        "L2_a_failure_reaches_every_rank",
        all_of(status(d, h) == Status.FAILED, meeting(p, h).among(Meeting.UNBOUND, Meeting.BOUND)),
        meeting(p, h).among(*OVER), under=under, why="a message reports the failure, and no clock")


def _sizes(*, sources: int, lives: int) -> Sizes:
    return {Source: sources, Sink: 1, Life: lives, Use: 2}


GUARDED: Final = System(
    "binding-guarded",
    "The binding where each rank decides for itself: the sink notices where they differ, and mixes "
    "no requests.",
    tables=(RANK, SINK),
    properties=(
        *_SAFETY,
        landed_life_ends(Fairness.NO_TIMERS),
        _sink_learns(Fairness.NO_TIMERS),
        _failure_reaches_every_rank(Fairness.NO_TIMERS),
    ),
    final=all_of(forall((d, h), status(d, h) != Status.BEGUN),
                 forall((p, u), opening(p, u) != Opening.WAITING)),
    faults={"lossy": (losing(introduce, ask, abort, bound, done, failed),)},
    configurations={"default": Configuration(
        _sizes(sources=2, lives=1), dead_bits=True, symmetry=True)},
)

_LOST: Final = (Fairness.TIMERS, Fairness.CONSUMED)
GUARDED_NO_TIMEOUTS: Final = edited(
    GUARDED, "binding-guarded-no-timeouts", DropRow("give_up"), DropRow("give_up_waiting"),
    ReplaceProperties((
        *_SAFETY,
        Always("a_rank_notes_each_sink_that_it_tells",
               implies(bound(p, h, d, u), told(p, h, d)),
               why="it tells each sink once, and again only when asked"),
        LeadsTo("L1_a_life_that_has_ended_ends_a_request",
                all_of(meeting(p, h) == Meeting.FAILED, opening(p, u) == Opening.WAITING),
                any_of(opening(p, u) != Opening.WAITING, exists(v, binds(p, h, v))),
                under=(Fairness.TIMERS,), why="the request needs no time-out of its own"),
        LeadsTo("L1_a_life_and_a_request_are_bound",
                all_of(meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING),
                any_of(meeting(p, h) != Meeting.UNBOUND, opening(p, u) != Opening.WAITING),
                under=_LOST, why="neither waits for the other"),
        _sink_learns(*_LOST),
        LeadsTo("L2_a_request_that_has_ended_ends_a_life",
                all_of(opening(p, u) == Opening.OVER, LATEST, meeting(p, h) == Meeting.UNBOUND,
                       status(d, h) == Status.BEGUN),
                any_of(status(d, h) != Status.BEGUN, ~LATEST,
                       exists(k, all_of(h.differs(k), binds(p, k, u))),
                       exists(v, all_of(u.differs(v), binds(p, h, v)))),
                under=_LOST, why="it answers a life that asks again, unless a later request comes"),
        LeadsTo("L2_a_failure_reaches_the_sink",
                all_of(meeting(p, h) == Meeting.FAILED, status(d, h) == Status.BEGUN),
                status(d, h) != Status.BEGUN, under=_LOST,
                why="a message reports the failure, and no clock"),
        _failure_reaches_every_rank(*_LOST))),
    about="The binding where a rank decides for itself, and no end gives up: a lost message is "
          "sent again.",
    configurations={
        "default": Configuration(_sizes(sources=1, lives=2), dead_bits=True, symmetry=True),
        "lossy": Configuration(_sizes(sources=2, lives=1), faults=("lossy",), dead_bits=True,
                               symmetry=True)},
)
