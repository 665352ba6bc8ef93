"""Optimistic prefill: the properties of its attempts, and the systems that check them.

The tables are in attempts.py. A system or a configuration of its own covers each property that
depends on the amount of a resource, or on the servers that a request reaches.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.attempts import (
    ACTIVE,
    ADMITTED,
    DECODE,
    ENDED,
    FINALIZED,
    FOR_A_RUNNING_SLOT,
    FORCED,
    FREE_SLOT,
    LOSSY,
    NEXT_ATTEMPT,
    OPEN,
    PREFILL,
    QUEUED,
    SLOT_IS_FREE,
    UNSENT,
    WANTS_RUNNING_SLOT,
    WANTS_SLOT,
    Forward,
    Receiving,
    RunningSlot,
    Stage,
    a,
    abort,
    again,
    done,
    failed,
    forward,
    g,
    h,
    k,
    m,
    page,
    prefill,
    ready,
    receiving,
    retried,
    running_slot,
    s,
    sampled,
    slot,
    spare,
    stage,
    tried,
)
from pdproto.spec.handoff.roles import Attempt, Life, Page, Slot
from pdproto.spec.language import (
    AddRow,
    Always,
    Configuration,
    Drains,
    DropRow,
    Fairness,
    LeadsTo,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Row,
    Sizes,
    Sometimes,
    System,
    all_of,
    any_of,
    edited,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.edit import Edit
from pdproto.spec.language.properties import Property

HAS_SLOT: Final = exists(m, slot(h, m))
HAS_RUNNING_SLOT: Final = exists(s, running_slot(h, s))
OVER: Final = forall(h, all_of(
    stage(h).among(Stage.NEW, *ENDED),
    receiving(h).among(Receiving.NEW, Receiving.SUCCESS, Receiving.FAILED),
))
SOURCE_IS_FREE: Final = all_of(forall((h, m), ~slot(h, m)), forall((h, s), ~running_slot(h, s)))
SINK_IS_FREE: Final = forall((h, g), ~page(h, g))


def _held_while_written(row: str, chunk: str) -> OnRow:
    return OnRow(f"S8_kv_is_held_while_the_{chunk}_is_computed", row, HAS_RUNNING_SLOT,
                 why="the pages that a launched batch writes belong to its request")


def _only_without_its_sink(row: str) -> OnRow:
    return OnRow(f"M5_2_a_bootstrapped_pass_does_not_{row}", row, ~ready(h),
                 why="the pass goes on: it uses no attempt, and gives up no place")


def _only_once_parked(row: str) -> OnRow:
    return OnRow(f"M5_5_a_forced_request_does_not_{row}", row, ~FORCED,
                 why="a forced request runs again even if no other needs its place")


def _only_for_somebody(row: str) -> OnRow:
    return OnRow(f"M5_2_a_ready_request_needs_a_place_at_{row}",
                 row, any_of(WANTS_RUNNING_SLOT, WANTS_SLOT),
                 why="a request keeps its KV until another needs its place")


def _uses_an_attempt(row: str) -> OnRow:
    return OnRow(f"M5_2_{row}_uses_the_next_attempt", row, NEXT_ATTEMPT,
                 why="a pass that is not counted could run for ever")


SAFETY: Final[tuple[Property, ...]] = (
    Always("S6_slot_has_one_owner", implies(slot(h, m) & slot(k, m), h.same(k)),
           why="each metadata slot has at most one owner"),
    Always("S6_request_has_one_slot", implies(slot(h, m) & slot(h, spare), m.same(spare)),
           why="each request has at most one slot: it keeps the slot across retries"),
    Always("S6_slot_only_where_it_is_used",
           implies(slot(h, m), stage(h).among(*ADMITTED, Stage.SENDING, Stage.FAILED)),
           why="a request in the bootstrap queue holds no slot, and neither does one that "
               "succeeded"),
    Sometimes("S6_slot_is_kept_across_a_retry", slot(h, m) & (stage(h) == Stage.HEAD)),
    Always("S8_a_running_slot_has_one_owner",
           implies(running_slot(h, s) & running_slot(k, s), h.same(k)),
           why="each running slot has at most one owner"),
    _held_while_written("finish_first", "first_chunk"),
    _held_while_written("finish_last", "last_chunk"),
    Sometimes("S8_a_failed_request_is_computed",
              all_of(stage(h) == Stage.FAILED, forward(h) == Forward.LAST, running_slot(h, s))),
    Always("S11_no_send_before_finalize",
           implies(stage(h) == Stage.SENDING,
                   all_of(FINALIZED, ready(h), HAS_SLOT, HAS_RUNNING_SLOT)),
           why="a request that is sent has a destination, a slot, and its KV"),
    Sometimes("S11_a_request_is_sent", stage(h) == Stage.SENDING),
    OnRow("M5_3_finalized_once_and_surely", "finalize",
          all_of(UNSENT, HAS_SLOT, HAS_RUNNING_SLOT),
          why="once for each request, because a finalized request runs to its end"),
    OnRow("M5_1_a_pass_is_finalized_by_a_poll", "finalize",
          any_of(stage(h) == Stage.PARKED, ~forward(h).among(Forward.FIRST, Forward.LAST)),
          why="while a batch is computed, nobody looks for the sink"),
    OnRow("M5_3_finalized_never_runs_again", "run_again", UNSENT,
          why="a finalized request has told the sink that it is sent"),
    Sometimes("M5_1_finalized_between_chunks",
              all_of(FINALIZED, forward(h) == Forward.HALF)),
    Sometimes("M5_1_finalized_while_parked",
              all_of(FINALIZED, stage(h) == Stage.PARKED)),
    OnRow("M5_2_a_bootstrapped_pass_finalizes_between_chunks", "launch_last",
          any_of(~ready(h), FINALIZED, FORCED),
          why="the poll between chunks finds the bootstrap, so no pass ends without it"),
    *map(_only_without_its_sink, ("reserve_early", "run_again", "fall_back")),
    *map(_only_for_somebody, ("run_again", "fall_back")),
    OnRow("M5_2_a_bootstrapped_pass_does_not_park", "park", ~ready(h) | FORCED,
          why="a bootstrapped pass is finalized as soon as it is polled"),
    Always("M5_2_an_early_pass_uses_an_attempt",
           implies(any_of(stage(h) == Stage.HEAD, all_of(stage(h).among(*ADMITTED), ~ready(h))),
                   exists(again, tried(h, again))),
           why="every pass without a bootstrap is counted, and every pass that runs again"),
    Sometimes("M5_2_a_request_waits_without_an_early_pass",
              all_of(stage(h) == Stage.WAITING, forall(again, ~tried(h, again)))),
    Always("M5_2_attempts_in_order", implies(tried(h, again) & a.before(again), tried(h, a)),
           why="no attempt is left out, so there are no more passes than attempts"),
    *map(_uses_an_attempt, ("run_again", "force_retry")),
    Sometimes("M5_2_a_request_runs_again", all_of(a.before(again), tried(h, a), tried(h, again))),
    Sometimes("M5_2_a_yielding_request_runs_again", all_of(stage(h) == Stage.HEAD, ~sampled(h))),
    Sometimes("M5_5_a_forced_request_runs_again", all_of(stage(h) == Stage.HEAD, sampled(h))),
    Always("M5_5_a_retried_request_is_not_forced",
           implies(stage(h).among(Stage.HEAD, Stage.DEFERRED), retried(h)),
           why="one retry is enough for the test"),
    OnRow("a_retried_request_goes_first", "start", forall(k, stage(k) != Stage.HEAD),
          why="this request has waited longest, and most of its prefix is still cached"),
    OnRow("M5_2_fallen_back_after_the_last", "fall_back", forall(a, tried(h, a)),
          why="a request uses its whole budget before it waits again"),
    Sometimes("M5_2_a_request_falls_back", stage(h) == Stage.DEFERRED),
    OnRow("M5_5_a_forced_request_is_not_finalized", "finalize", ~FORCED,
          why="a finalized request has no reason to run again"),
    *map(_only_once_parked, ("run_again", "fall_back")),
    OnRow("M5_5_forced_on_the_first_pass_only", "force_retry",
          all_of(sampled(h), forall((a, again), implies(a.before(again), ~tried(h, again)))),
          why="a sample decides, and it is the same on all ranks"),
    Always("S1_one_life_a_page", implies(page(h, g) & page(k, g), h.same(k)),
           why="a page of the sink belongs to one life at a time"),
    Sometimes("S1_a_page_is_used_again",
              all_of(h.differs(k), receiving(h) == Receiving.SUCCESS, page(k, g))),
    Always("S1_a_published_sink_has_its_page",
           implies(receiving(h) == Receiving.PUBLISHED, exists(g, page(h, g))),
           why="a published page belongs to no other request"),
    Always("S14_no_success_after_a_failure",
           implies(receiving(h) == Receiving.SUCCESS, stage(h) == Stage.SUCCESS),
           why="no source of a sink that answers Success has failed"),
    Sometimes("S14_both_succeed", receiving(h) == Receiving.SUCCESS),
)

# The sink holds its page for k, and the source holds its slot or its running slot for h.
CROSSED: Final = (
    Sometimes("L5_the_two_sides_are_crossed",
              all_of(h.differs(k), stage(h) == Stage.PARKED, receiving(h) == Receiving.ASKED,
                     receiving(k) == Receiving.PUBLISHED, ready(k),
                     stage(k).among(*QUEUED, *FOR_A_RUNNING_SLOT))),
)

BOOTSTRAP_ONLY: Final = OnRow(
    "prefill_does_not_time_a_request_that_has_its_bootstrap", "give_up_waiting", ~ready(h),
    why="the request waits for its pass, and other requests let it run")

# With a budget of one attempt. With more, a forced request runs again.
FORCED_BACK: Final = (
    OnRow("M5_2_forced_back_after_the_last", "force_fall_back", forall(a, tried(h, a)),
          why="the test sees it after the only attempt"),
    OnRow("M5_5_only_a_forced_request_is_forced_back", "force_fall_back", FORCED,
          why="any other request keeps its KV until another needs its place"),
)

# Where no message is lost.
TOLD: Final = Always("a_success_is_said", implies(stage(h) == Stage.SUCCESS, done(h)),
                     why="no sink has to ask again")
TOLD_OF_FAILURE: Final = Always(
    "a_failure_is_said", implies(stage(h) == Stage.FAILED, failed(h) | abort(h)),
    why="a sink that has not failed itself gets the failure, and waits for no clock")

_PROMPT: Final = (Fairness.TIMERS, Fairness.DETECTORS, Fairness.NO_TIMERS)

LIVENESS: Final = (
    LeadsTo("L5_no_capacity_deadlock", stage(h).among(*ACTIVE), stage(h).among(*ENDED),
            under=_PROMPT,
            why="with room for one request on each side every request ends, without a clock"),
    LeadsTo("L1_a_sink_ends", receiving(h).among(*OPEN),
            receiving(h).among(Receiving.SUCCESS, Receiving.FAILED), under=_PROMPT,
            why="every accepted request ends on the decode server"),
    Drains("L4_slots_and_running_slots_come_back", SOURCE_IS_FREE, under=_PROMPT,
           why="after success, failure, abort and fallback"),
    Drains("L4_pages_come_back", SINK_IS_FREE, under=_PROMPT,
           why="the sink gets every page back too"),
)


def _sizes(*, slots: int = 1, running_slots: int = 1, pages: int = 1, attempts: int = 2) -> Sizes:
    return {Life: 2, Slot: slots, RunningSlot: running_slots, Page: pages, Attempt: attempts}


def _configuration(sizes: Sizes, *faults: str) -> Configuration:
    return Configuration(sizes, faults=faults, symmetry=True, dead_bits=True)


SYSTEM: Final = System(
    "optimistic",
    "Prefill before its bootstrap has ended: slots, running slots, attempts and the sink's pages.",
    tables=(PREFILL, DECODE),
    properties=(*SAFETY, *CROSSED, BOOTSTRAP_ONLY, *LIVENESS),
    final=all_of(OVER, SOURCE_IS_FREE, SINK_IS_FREE),
    faults={"lossy": (LOSSY,)},
    configurations={
        # Two requests, and room for one of them in each place: they wait for each other everywhere.
        "default": _configuration(_sizes()),
        "slots": _configuration(_sizes(slots=2)),
        "running-slots": _configuration(_sizes(running_slots=2)),
        # Only with a third attempt could a request be forced to run again a second time.
        "attempts": _configuration(_sizes(attempts=3)),
        "deep": _configuration({**_sizes(), Life: 3}),
    },
)


def _under(*fairness: Fairness) -> ReplaceProperties:
    """SYSTEM's liveness properties under these assumptions. SYSTEM itself has the safety
    properties.
    """
    return ReplaceProperties(tuple(replace(claim, under=fairness) for claim in LIVENESS))


ONE_ATTEMPT: Final = edited(
    SYSTEM, "optimistic-one-attempt", ReplaceProperties((*LIVENESS, *FORCED_BACK)),
    about="Optimistic prefill with a single attempt: a request that yields falls back at once.",
    configurations={
        "default": _configuration(_sizes(attempts=1)),
        "deep": _configuration({**_sizes(attempts=1), Life: 3}),
    },
)

_ONE: Final[Sizes] = {Life: 1, Slot: 1, RunningSlot: 1, Page: 1, Attempt: 1}

LOSS: Final = edited(
    SYSTEM, "optimistic-loss", _under(Fairness.TIMERS, Fairness.CONSUMED),
    about="Optimistic prefill where messages are lost, or are delivered once and never again.",
    configurations={
        "default": _configuration(_ONE, "lossy"),
        "deep": _configuration(_sizes(attempts=1), "lossy"),
    },
)

NO_TIMEOUTS: Final = edited(
    LOSS, "optimistic-no-timeouts", DropRow("give_up_transfer"),
    ReplaceProperties((
        *_under(Fairness.TIMERS, Fairness.CONSUMED).properties,
        Sometimes("a_sink_may_call_off_a_good_hand_over", abort(h)),
    )),
    about="Optimistic prefill whose sinks never give up: lost messages are sent again.",
    configurations={
        "default": _configuration(_ONE, "lossy"),
        "deep": _configuration(_sizes(attempts=1), "lossy"),
    },
)

ONE_SIDED: Final = edited(
    replace(SYSTEM, faults={}, like=SYSTEM), "optimistic-one-sided",
    *(ReplaceRow(row.name, replace(row, fair=False,
                                   why="the request may reach only the other server"))
      for row in (PREFILL.row("submit"), DECODE.row("open"))),
    ReplaceProperties((
        *_under(Fairness.TIMERS).properties,
        Sometimes("a_request_on_both_servers_may_succeed", receiving(h) == Receiving.SUCCESS),
        Sometimes("a_source_may_call_off_a_good_hand_over",
                  all_of(stage(h) == Stage.FAILED, ready(h), ~abort(h))),
        Sometimes("M5_5_a_forced_request_falls_back",
                  all_of(stage(h) == Stage.DEFERRED, sampled(h))),
        TOLD, TOLD_OF_FAILURE,
    )),
    about="Optimistic prefill of requests that may reach only one of the two servers.",
    configurations={
        "default": _configuration(_ONE),
        "deep": _configuration(_sizes(attempts=1)),
    },
)

# As in SGLang's first version: the request waits in the bootstrap queue with its slot.
KEPT: Final[tuple[Edit, ...]] = (
    *(ReplaceRow(row.name, replace(row, do=tuple(u for u in row.do if u != FREE_SLOT)))
      for row in map(PREFILL.row, ("fall_back", "force_fall_back"))),
    ReplaceRow("reserve", Row(
        "reserve", choose=(h, m),
        when=[stage(h).among(*QUEUED), ready(h), ~exists(spare, slot(h, spare)), SLOT_IS_FREE],
        do=[stage(h).to(Stage.WAITING), slot(h, m).to(True)])),
    AddRow(prefill, Row(
        "resume", choose=(h,), when=[stage(h) == Stage.DEFERRED, ready(h), exists(spare, slot(h,
        spare))],
        do=[stage(h).to(Stage.WAITING)], why="the request has kept its slot while it waited")),
    ReplaceProperties(LIVENESS),
)
KEEPING: Final = edited(
    SYSTEM, "optimistic-keeping", *KEPT,
    about="Optimistic prefill in which a request that falls back keeps its slot.",
    # A page for each request: no request waits for a page of another.
    configurations={
        "default": _configuration(_sizes(pages=2)),
        "deep": _configuration(_sizes(pages=2, attempts=3)),
    },
)
