"""Optimistic prefill: the forward pass begins before the sink has said where the KV goes.

The source is the group of prefill ranks as one: what is decided here is decided once for all its
ranks and stages (agreement.py), from the reduced poll. A sink answers the bootstrap (*publish*)
only when it has a page of its own for the request. So each side may wait for the other: a request
holds a slot and a seat here while it waits for a page there, and another the reverse.

Rule 1: a slot is reserved when a request leaves the bootstrap queue, never before. One that finds
        none is passed over; who comes behind it is looked at all the same.
Rule 2: the bootstrap is polled before every further chunk and after the last. When it is there the
        pass is finalized, once, and cannot fail to be: the slot is there already.
Rule 3: nothing is sent before the pass is finalized.
Rule 4: a pass that ends without it is parked, with its KV. It yields as soon as one that could go
        on lacks a seat, or lacks a slot: its KV is dropped, and it runs again from the head.
Rule 5: the attempts are counted. After the last one a request waits for its bootstrap without a
        slot, and is not run before.
Rule 6: KV is dropped when no launched batch writes it, whatever the reason.
Rule 7: a retry is forced, for tests, by a sample that depends on the request alone, and only on a
        pass that is its first.

What a late remote write may do to a page is the transfer's business (transfer.py): here an abort
gives the page back at once.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.roles import Attempt, Life, Page, Slot
from pdproto.spec.language import (
    ANY,
    AddRow,
    Always,
    Call,
    Completion,
    Configuration,
    Drains,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    ReplaceProperties,
    ReplaceRow,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    auto,
    edited,
    exists,
    forall,
    implies,
    lose,
)


class Seat(Sort):
    """A row of the source's request table, with room for the KV of one request."""


class Stage(State):
    """Where a request stands at the source."""

    NEW = auto()
    QUEUED = auto()  # in the bootstrap queue, with no slot
    WAITING = auto()  # for a seat, with a slot
    HEAD = auto()  # for a seat, before all who are WAITING: it has run, and runs again
    RUNNING = auto()
    PARKED = auto()  # all chunks are computed; it holds its slot, its seat and its KV
    DEFERRED = auto()  # in the bootstrap queue again, with no slot and no attempts left
    SENDING = auto()
    SUCCESS = auto()
    FAILED = auto()


class Forward(State):
    """How far the forward pass of a request of two chunks has come."""

    NONE = auto()
    FIRST = auto()  # the device computes the first chunk
    HALF = auto()
    LAST = auto()  # the device computes the last chunk
    WHOLE = auto()


class Link(State):
    """Whether the pass knows where its KV goes."""

    PENDING = auto()
    FINALIZED = auto()


class Receiving(State):
    """Where a request stands at the sink."""

    NEW = auto()
    ASKED = auto()  # it waits for a page
    PUBLISHED = auto()
    SUCCESS = auto()
    FAILED = auto()


h, k, other = Life("h"), Life("k"), Life("other")
m, n = Slot("m"), Slot("n")
s, t = Seat("s"), Seat("t")
g = Page("g")
a, b = Attempt("a"), Attempt("b")

prefill = Machine("prefill")
decode = Machine("decode")
network = Machine("network", world=True)

_END: Final = (Stage.FAILED,)

stage = prefill.function("stage", Stage, Life, edges={
    Stage.NEW: (Stage.QUEUED, *_END),
    Stage.QUEUED: (Stage.WAITING, *_END),
    Stage.WAITING: (Stage.RUNNING, *_END),
    Stage.HEAD: (Stage.RUNNING, *_END),
    Stage.RUNNING: (Stage.PARKED, Stage.SENDING, Stage.HEAD, Stage.DEFERRED, *_END),
    Stage.PARKED: (Stage.SENDING, Stage.HEAD, Stage.DEFERRED, *_END),
    Stage.DEFERRED: (Stage.WAITING, *_END),
    Stage.SENDING: (Stage.SUCCESS, *_END),
})
forward = prefill.function("forward", Forward, Life, edges={
    Forward.NONE: (Forward.FIRST,),
    Forward.FIRST: (Forward.HALF,),
    Forward.HALF: (Forward.LAST, Forward.NONE),
    Forward.LAST: (Forward.WHOLE,),
    Forward.WHOLE: (Forward.NONE,),
})
link = prefill.function("link", Link, Life, edges={Link.PENDING: (Link.FINALIZED,)})
ready = prefill.relation("ready", Life)
slot = prefill.relation("slot", Life, Slot)
seat = prefill.relation("seat", Life, Seat)
tried = prefill.relation("tried", Life, Attempt)
retried = prefill.relation("retried", Life)

receiving = decode.function("receiving", Receiving, Life, edges={
    Receiving.NEW: (Receiving.ASKED, Receiving.FAILED),
    Receiving.ASKED: (Receiving.PUBLISHED, Receiving.FAILED),
    Receiving.PUBLISHED: (Receiving.SUCCESS, Receiving.FAILED),
})
page = decode.relation("page", Life, Page)

publish = Message("publish", h, sender=decode, receiver=prefill)
abort = Message("abort", h, sender=decode, receiver=prefill)
done = Message("done", h, sender=prefill, receiver=decode)
failed = Message("failed", h, sender=prefill, receiver=decode)

# SHA-256 of the request's id, below a threshold: every rank computes the same.
sampled = Rigid("sampled", h)

QUEUED: Final = (Stage.QUEUED, Stage.DEFERRED)
FOR_A_SEAT: Final = (Stage.WAITING, Stage.HEAD)
ADMITTED: Final = (*FOR_A_SEAT, Stage.RUNNING, Stage.PARKED)
BEFORE_SENDING: Final = (*QUEUED, *ADMITTED)
ACTIVE: Final = (*BEFORE_SENDING, Stage.SENDING)
ENDED: Final = (Stage.SUCCESS, Stage.FAILED)
OPEN: Final = (Receiving.ASKED, Receiving.PUBLISHED)

AT_REST: Final = ~forward(h).among(Forward.FIRST, Forward.LAST)
POLLED: Final = any_of(
    stage(h) == Stage.PARKED,
    all_of(stage(h) == Stage.RUNNING, forward(h).among(Forward.HALF, Forward.WHOLE)),
)
HAS_PARKED: Final = all_of(stage(h) == Stage.PARKED, forward(h) == Forward.WHOLE)
BETWEEN_CHUNKS: Final = all_of(stage(h) == Stage.RUNNING, forward(h) == Forward.HALF)
UNSENT: Final = link(h) == Link.PENDING
FINALIZED: Final = link(h) == Link.FINALIZED
FORCED: Final = all_of(sampled(h), ~retried(h))
SLOT_IS_FREE: Final = forall(other, ~slot(other, m))
SEAT_IS_FREE: Final = forall(other, ~seat(other, s))
NEXT_ATTEMPT: Final = all_of(~tried(h, a), forall(b, implies(b.before(a), tried(h, b))))
NO_ATTEMPT_LEFT: Final = forall(b, tried(h, b))
# k has its bootstrap, and only a seat or a slot keeps it from going on.
WANTS_SEAT: Final = all_of(
    ready(k), stage(k).among(*FOR_A_SEAT), forall(t, exists(other, seat(other, t)))
)
WANTS_SLOT: Final = all_of(
    ready(k), stage(k).among(*QUEUED), forall(n, exists(other, slot(other, n)))
)
# h has nothing to send to, and k could go on in its place.
WITHOUT_LINK: Final = (~ready(h), UNSENT, ~FORCED, any_of(HAS_PARKED, BETWEEN_CHUNKS))
YIELDS: Final = (*WITHOUT_LINK, any_of(WANTS_SEAT, WANTS_SLOT))
DROP_KV: Final = (forward(h).to(Forward.NONE), seat(h, ANY).to(False), retried(h).to(True))
RUN_AGAIN: Final = (stage(h).to(Stage.HEAD), tried(h, a).to(True), *DROP_KV)
FREE_SLOT: Final = slot(h, ANY).to(False)
FALL_BACK: Final = (stage(h).to(Stage.DEFERRED), FREE_SLOT, *DROP_KV)
FAIL: Final = (stage(h).to(Stage.FAILED),)

PREFILL: Final = Table(prefill, rows=(
    Row("submit", on=Call("submit", h), when=stage(h) == Stage.NEW,
        do=[stage(h).to(Stage.QUEUED)], fair=True,
        why="the router sends each request to both servers"),
    Ignore(Call("submit", h), when=stage(h) == Stage.FAILED,
           why="the sink gave up first: the caller is told so, and prefill is not run"),
    Row("reserve_early", choose=(h, m, a),
        when=[stage(h) == Stage.QUEUED, ~ready(h), SLOT_IS_FREE, NEXT_ATTEMPT],
        do=[stage(h).to(Stage.WAITING), slot(h, m).to(True), tried(h, a).to(True)],
        why="the wait for the sink is spent computing"),
    Row("reserve", choose=(h, m), when=[stage(h).among(*QUEUED), ready(h), SLOT_IS_FREE],
        do=[stage(h).to(Stage.WAITING), slot(h, m).to(True)]),
    Row("start", choose=(h, s),
        when=[stage(h) == Stage.WAITING, forward(h) == Forward.NONE,
              forall(k, stage(k) != Stage.HEAD), SEAT_IS_FREE],
        do=[stage(h).to(Stage.RUNNING), seat(h, s).to(True), forward(h).to(Forward.FIRST)]),
    Row("start_again", choose=(h, s),
        when=[stage(h) == Stage.HEAD, forward(h) == Forward.NONE, SEAT_IS_FREE],
        do=[stage(h).to(Stage.RUNNING), seat(h, s).to(True), forward(h).to(Forward.FIRST)],
        why="it has waited longest, and most of its prefix is still cached"),
    Row("finish_first", on=Completion("first_chunk", h), when=forward(h) == Forward.FIRST,
        do=[forward(h).to(Forward.HALF)]),
    Row("launch_last", choose=(h,),
        when=[BETWEEN_CHUNKS, any_of(~ready(h), FINALIZED, FORCED)],
        do=[forward(h).to(Forward.LAST)]),
    Row("finish_last", on=Completion("last_chunk", h), when=forward(h) == Forward.LAST,
        do=[forward(h).to(Forward.WHOLE)]),
    Row("finalize", choose=(h,), when=[POLLED, ready(h), UNSENT, ~FORCED],
        do=[link(h).to(Link.FINALIZED)],
        why="the poll between chunks, after the last one, or while parked finds the sink there"),
    Row("send", choose=(h,),
        when=[stage(h).among(Stage.RUNNING, Stage.PARKED), forward(h) == Forward.WHOLE,
              FINALIZED],
        do=[stage(h).to(Stage.SENDING)]),
    Row("succeed", on=Completion("landed", h), when=stage(h) == Stage.SENDING,
        do=[stage(h).to(Stage.SUCCESS), seat(h, ANY).to(False), FREE_SLOT], send=[done(h)]),
    *(Ignore(Completion(chunk, h), when=forward(h) != computing,
             why="a device reports what it was given, when that has ended")
      for chunk, computing in (("first_chunk", Forward.FIRST), ("last_chunk", Forward.LAST))),
    Ignore(Completion("landed", h), when=stage(h) != Stage.SENDING,
           why="it has failed meanwhile: what has landed is not counted"),

    Row("park", choose=(h,),
        when=[stage(h) == Stage.RUNNING, forward(h) == Forward.WHOLE, UNSENT,
              any_of(~ready(h), FORCED)],
        do=[stage(h).to(Stage.PARKED)],
        why="the KV is worth keeping for as long as nobody needs its place"),
    Row("run_again", choose=(h, k, a), when=[*YIELDS, NEXT_ATTEMPT], do=RUN_AGAIN,
        why="k has its bootstrap, and needs the seat or, in the end, the slot"),
    Row("fall_back", choose=(h, k), when=[*YIELDS, NO_ATTEMPT_LEFT], do=FALL_BACK,
        why="k needs the place, and h has had its passes"),
    Row("force_retry", choose=(h, a),
        when=[HAS_PARKED, UNSENT, FORCED, NEXT_ATTEMPT], do=RUN_AGAIN,
        why="a test wants to see a retry; all ranks sample alike"),
    Row("force_fall_back", choose=(h,),
        when=[HAS_PARKED, UNSENT, FORCED, NO_ATTEMPT_LEFT], do=FALL_BACK,
        why="a test wants to see a retry, and there is only one attempt"),

    Row("give_up_waiting", on=Timer("bootstrap_timeout"), choose=(h,),
        when=[stage(h).among(*BEFORE_SENDING), ~ready(h)], do=FAIL, send=[failed(h)],
        why="a request that reached one server only must end there"),
    Row("abort_prefill", on=Call("abort_prefill", h), when=stage(h).among(*ACTIVE),
        do=FAIL, send=[failed(h)]),
    Row("stop", on=abort(h), when=stage(h).among(Stage.NEW, *ACTIVE), do=FAIL,
        why="also one that it has not met yet: what comes of it later finds it Failed"),
    Row("release", choose=(h,),
        when=[stage(h) == Stage.FAILED, AT_REST,
              any_of(exists(m, slot(h, m)), exists(s, seat(h, s)))],
        do=[seat(h, ANY).to(False), FREE_SLOT],
        why="as soon as no launched batch writes the KV"),

    Row("learn", on=publish(h), when=[stage(h).among(Stage.NEW, *BEFORE_SENDING), ~ready(h)],
        do=[ready(h).to(True)]),
    Row("done_again", on=publish(h), when=stage(h) == Stage.SUCCESS, send=[done(h)],
        why="the answer may have been lost"),
    Row("refuse", on=publish(h), when=stage(h) == Stage.FAILED, send=[failed(h)],
        why="it comes late, or has not heard: nothing will be sent"),
    Ignore(publish(h), when=[stage(h).among(Stage.NEW, *ACTIVE), ready(h)], why="it is known"),
    Reject(publish(h), when=[stage(h) == Stage.SENDING, ~ready(h)],
           why="nothing is sent before it"),
    Ignore(abort(h), when=stage(h).among(*ENDED), why="it is over here too"),
))

GIVE_UP: Final = (receiving(h).to(Receiving.FAILED), page(h, ANY).to(False))

DECODE: Final = Table(decode, rows=(
    Row("open", on=Call("open", h), when=receiving(h) == Receiving.NEW,
        do=[receiving(h).to(Receiving.ASKED)], fair=True,
        why="the router sends each request to both servers"),
    Ignore(Call("open", h), when=receiving(h) == Receiving.FAILED, why="the source gave up first"),
    Row("grant", choose=(h, g),
        when=[receiving(h) == Receiving.ASKED, forall(k, ~page(k, g))],
        do=[receiving(h).to(Receiving.PUBLISHED), page(h, g).to(True)], send=[publish(h)]),
    Row("publish_again", on=Timer("no_bytes"), choose=(h,),
        when=receiving(h) == Receiving.PUBLISHED, send=[publish(h)],
        why="the address, or what answers it, may have been lost"),
    Row("take", on=done(h), when=receiving(h) == Receiving.PUBLISHED,
        do=[receiving(h).to(Receiving.SUCCESS)]),
    Row("finish", on=Call("finish", h, g), when=[receiving(h) == Receiving.SUCCESS, page(h, g)],
        do=[page(h, g).to(False)], fair=True, why="no answer is generated for ever"),
    Row("abort_decode", on=Call("abort_decode", h), when=receiving(h).among(*OPEN),
        do=GIVE_UP, send=[abort(h)]),
    Row("give_up_transfer", on=Timer("transfer_timeout"), choose=(h,),
        when=receiving(h).among(*OPEN), do=GIVE_UP, send=[abort(h)],
        why="a request that reached one server only must end there"),
    Row("hear_failure", on=failed(h), when=receiving(h).among(Receiving.NEW, *OPEN), do=GIVE_UP,
        why="also one that it has not met yet: it is answered Failed when it comes"),
    Ignore(failed(h), when=receiving(h) == Receiving.FAILED, why="it is over here too"),
    Ignore(done(h), when=receiving(h).among(Receiving.SUCCESS, Receiving.FAILED),
           why="an answer to what was asked twice, or it is over here"),
    Reject(failed(h), when=receiving(h) == Receiving.SUCCESS,
           why="a source that has succeeded does not fail"),
    Reject(done(h), when=receiving(h).among(Receiving.NEW, Receiving.ASKED),
           why="it has not published"),
))

LOSSY: Final = Table(network, rows=tuple(map(lose, (publish, abort, done, failed))))

HAS_SLOT: Final = exists(m, slot(h, m))
HAS_SEAT: Final = exists(s, seat(h, s))
OVER: Final = forall(h, all_of(
    stage(h).among(Stage.NEW, *ENDED),
    receiving(h).among(Receiving.NEW, Receiving.SUCCESS, Receiving.FAILED),
))
SOURCE_IS_FREE: Final = all_of(forall((h, m), ~slot(h, m)), forall((h, s), ~seat(h, s)))
SINK_IS_FREE: Final = forall((h, g), ~page(h, g))


def _held_while_written(row: str, chunk: str) -> OnRow:
    return OnRow(f"S8_kv_is_held_while_the_{chunk}_is_computed", row, HAS_SEAT,
                 why="the pages that a launched batch writes belong to its request")


SAFETY: Final = (
    Always("S6_slot_has_one_owner", implies(slot(h, m) & slot(k, m), h.same(k)),
           why="each metadata slot has at most one owner"),
    Always("S6_request_has_one_slot", implies(slot(h, m) & slot(h, n), m.same(n)),
           why="and each request at most one slot: it is kept across retries, not taken again"),
    Always("S6_slot_only_where_it_is_used",
           implies(slot(h, m), stage(h).among(*ADMITTED, Stage.SENDING, Stage.FAILED)),
           why="neither a request in the bootstrap queue nor one that has succeeded holds a slot"),
    Sometimes("S6_slot_is_kept_across_a_retry", slot(h, m) & (stage(h) == Stage.HEAD)),
    Always("S8_seat_has_one_owner", implies(seat(h, s) & seat(k, s), h.same(k)),
           why="the KV of one request is never another's"),
    _held_while_written("finish_first", "first_chunk"),
    _held_while_written("finish_last", "last_chunk"),
    Sometimes("S8_a_failed_request_is_computed",
              all_of(stage(h) == Stage.FAILED, forward(h) == Forward.LAST, seat(h, s))),
    Always("S11_no_send_before_finalize",
           implies(stage(h) == Stage.SENDING,
                   all_of(FINALIZED, ready(h), HAS_SLOT, HAS_SEAT)),
           why="what is sent has a destination, a slot, and its KV"),
    Sometimes("S11_somebody_sends", stage(h) == Stage.SENDING),
    OnRow("M5_3_finalized_once_and_surely", "finalize",
          all_of(UNSENT, HAS_SLOT, HAS_SEAT),
          why="once for each request, since one that is finalized runs to its end"),
    OnRow("M5_3_finalized_never_runs_again", "run_again", UNSENT,
          why="what was finalized has told the sink where it stands"),
    Sometimes("M5_1_finalized_between_chunks",
              all_of(FINALIZED, forward(h) == Forward.HALF)),
    Sometimes("M5_1_finalized_while_parked",
              all_of(FINALIZED, stage(h) == Stage.PARKED)),
    Always("M5_2_attempts_in_order", implies(tried(h, b) & a.before(b), tried(h, a)),
           why="no attempt is left out, so that there are no more passes than attempts"),
    Sometimes("M5_2_somebody_runs_again", all_of(a.before(b), tried(h, a), tried(h, b))),
    OnRow("M5_2_fallen_back_after_the_last", "fall_back", forall(a, tried(h, a)),
          why="the budget is used before a request goes back to waiting"),
    Sometimes("M5_2_somebody_falls_back", stage(h) == Stage.DEFERRED),
    OnRow("M5_5_forced_on_the_first_pass_only", "force_retry",
          all_of(sampled(h), forall((a, b), implies(a.before(b), ~tried(h, b)))),
          why="a sample decides, which is the same on all ranks"),
    Always("S1_one_life_a_page", implies(page(h, g) & page(k, g), h.same(k)),
           why="a page of the sink belongs to one life at a time"),
    Sometimes("S1_a_page_is_used_again",
              all_of(h.differs(k), receiving(h) == Receiving.SUCCESS, page(k, g))),
    Always("S14_no_success_after_a_failure",
           implies(receiving(h) == Receiving.SUCCESS, stage(h) == Stage.SUCCESS),
           why="a sink that answers Success contradicts no source"),
    Sometimes("S14_both_succeed", receiving(h) == Receiving.SUCCESS),
)

# The sink holds its page for k, and the source its slot or its seat for h.
CROSSED: Final = (
    Sometimes("L5_the_two_sides_are_crossed",
              all_of(h.differs(k), stage(h) == Stage.PARKED, receiving(h) == Receiving.ASKED,
                     receiving(k) == Receiving.PUBLISHED, ready(k),
                     stage(k).among(*QUEUED, *FOR_A_SEAT))),
)

_PROMPT: Final = (Fairness.TIMERS, Fairness.DETECTORS, Fairness.NO_TIMERS)

LIVENESS: Final = (
    LeadsTo("L5_no_capacity_deadlock", stage(h).among(*ACTIVE), stage(h).among(*ENDED),
            under=_PROMPT,
            why="with room for one request on each side every request ends, and by no clock"),
    LeadsTo("L1_a_sink_ends", receiving(h).among(*OPEN),
            receiving(h).among(Receiving.SUCCESS, Receiving.FAILED), under=_PROMPT,
            why="every accepted request ends on the decode server"),
    Drains("L4_slots_and_seats_come_back", SOURCE_IS_FREE, under=_PROMPT,
           why="on success, failure, abort and fallback"),
    Drains("L4_pages_come_back", SINK_IS_FREE, under=_PROMPT,
           why="and on the other side"),
)


def _sizes(*, slots: int = 1, seats: int = 1, pages: int = 1, attempts: int = 2) -> Sizes:
    return {Life: 2, Slot: slots, Seat: seats, Page: pages, Attempt: attempts}


def _configuration(sizes: Sizes, *faults: str) -> Configuration:
    return Configuration(sizes, faults=faults, symmetry=True, dead_bits=True)


SYSTEM: Final = System(
    "optimistic",
    "Prefill that begins before its bootstrap: slots, seats, attempts, and the sink's pages.",
    tables=(PREFILL, DECODE),
    properties=SAFETY + CROSSED + LIVENESS,
    final=all_of(OVER, SOURCE_IS_FREE, SINK_IS_FREE),
    faults={"lossy": (LOSSY,)},
    configurations={
        # Two requests, and room for one of them in each place: all they can wait for.
        "default": _configuration(_sizes()),
        "slots": _configuration(_sizes(slots=2)),
        "seats": _configuration(_sizes(seats=2)),
        "deep": _configuration({**_sizes(), Life: 3}),
    },
)


def _under(*fairness: Fairness) -> ReplaceProperties:
    """What must come about, under these assumptions; what must not is SYSTEM's matter."""
    return ReplaceProperties(tuple(replace(claim, under=fairness) for claim in LIVENESS))


ONE_ATTEMPT: Final = edited(
    SYSTEM, "optimistic-one-attempt", ReplaceProperties(LIVENESS),
    about="Optimistic prefill with a single attempt: who yields falls back at once.",
    configurations={"default": _configuration(_sizes(attempts=1))},
)

_ONE: Final[Sizes] = {Life: 1, Slot: 1, Seat: 1, Page: 1, Attempt: 1}

LOSING: Final = edited(
    SYSTEM, "optimistic-lossy", _under(Fairness.TIMERS, Fairness.CONSUMED),
    about="Optimistic prefill while messages are lost, or are delivered once and never again.",
    configurations={
        "default": _configuration(_ONE, "lossy"),
        "deep": _configuration(_sizes(attempts=1), "lossy"),
    },
)

PATIENT: Final = edited(
    LOSING, "optimistic-patient", DropRow("give_up_transfer"),
    about="Optimistic prefill whose sinks never give up: what is lost is made good by resending.",
    configurations={"default": _configuration(_ONE, "lossy")},
)

ONE_SIDED: Final = edited(
    SYSTEM, "optimistic-one-sided",
    *(ReplaceRow(row.name, replace(row, fair=False, why="it may reach the other server only"))
      for row in (PREFILL.rows[0], DECODE.rows[0])),
    _under(Fairness.TIMERS),
    about="Optimistic prefill of requests that may reach one of the two servers only.",
    configurations={"default": _configuration(_ONE)},
)

# As SGLang first did: it waits in the bootstrap queue with the slot that it will need.
KEEPING: Final = edited(
    SYSTEM, "optimistic-keeping",
    *(ReplaceRow(row.name, replace(row, do=tuple(u for u in row.do if u != FREE_SLOT)))
      for row in PREFILL.rows if row.name in ("fall_back", "force_fall_back")),
    ReplaceRow("reserve", Row(
        "reserve", choose=(h, m),
        when=[stage(h).among(*QUEUED), ready(h), ~exists(n, slot(h, n)), SLOT_IS_FREE],
        do=[stage(h).to(Stage.WAITING), slot(h, m).to(True)])),
    AddRow(prefill, Row(
        "resume", choose=(h,), when=[stage(h) == Stage.DEFERRED, ready(h), exists(n, slot(h, n))],
        do=[stage(h).to(Stage.WAITING)], why="its slot has waited with it")),
    ReplaceProperties(LIVENESS),
    about="Optimistic prefill in which a request that falls back keeps its slot.",
    # A page for each request: the sink never makes one wait for another.
    configurations={"default": _configuration(_sizes(pages=2))},
)
