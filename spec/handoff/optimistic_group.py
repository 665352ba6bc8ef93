"""Optimistic prefill on a group of ranks: the properties of its decisions, and the system.

The tables are in group_attempts.py.
"""

from typing import Final

from pdproto.spec.handoff.attempts import Forward, Target, a, again, sampled
from pdproto.spec.handoff.group import Decision, Health, Rank, h, n, o, peer, r
from pdproto.spec.handoff.group_attempts import (
    ACTIVE,
    ALL_READY,
    COMPUTING,
    CRASH,
    ENDED,
    ENTRY,
    FORCED,
    FRESH,
    IN_QUEUE,
    OPEN,
    RANK,
    RUNNING,
    AtEntry,
    AtRank,
    Vote,
    applied,
    begun,
    dead,
    finalized,
    forward,
    group,
    health,
    kv,
    link,
    numbered,
    ready,
    retried,
    stage,
    status,
    tried,
    vote,
)
from pdproto.spec.handoff.roles import Attempt, Life
from pdproto.spec.language import (
    Always,
    Configuration,
    Drains,
    Fairness,
    LeadsTo,
    OnRow,
    Sometimes,
    System,
    all_of,
    any_of,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.properties import Property

BOTH_UP: Final = all_of(health(r) == Health.UP, health(peer) == Health.UP)
SAME_DECISIONS: Final = forall(n, any_of(all_of(applied(r, n), applied(peer, n)),
                                         all_of(~applied(r, n), ~applied(peer, n))))
OTHER_COMPUTES: Final = forward(peer, h).among(Forward.FIRST, Forward.LAST)


def _held_while_computed(chunk: str) -> OnRow:
    return OnRow(f"S8_kv_is_held_while_the_{chunk}_chunk_is_computed", f"finish_{chunk}", kv(r, h),
                 why="the pages that a launched batch writes belong to its request")


def _reports_its_pass(chunk: str) -> OnRow:
    return OnRow(f"a_report_of_the_{chunk}_chunk_names_its_pass", f"finish_{chunk}",
                 forall(again, implies(a.before(again), ~begun(r, h, again))),
                 why="a report of an earlier pass would end the wait for this one")


def _only_while_it_lives(row: str) -> OnRow:
    return OnRow(f"rule_6_an_ended_group_does_not_{row}", row, group() == Health.UP,
                 why="the entry of an ended group only tells waiting clients that it has ended")


RULE_6: Final[tuple[OnRow, ...]] = tuple(map(
    _only_while_it_lives,
    ("submit", "decide_run", "decide_to_go_on", "decide_finalize", "decide_to_yield",
     "force_retry", "decide_admit", "hand_over", "decide_fail", "give_up", "abort"),
))

SAFETY: Final[tuple[Property, ...]] = (
    Always("S5_same_decisions_same_batch",
           implies(all_of(BOTH_UP, SAME_DECISIONS, begun(r, h, a)), begun(peer, h, a)),
           why="ranks that have applied the same decisions have begun the same passes"),
    Always("S5_same_decisions_same_queue",
           implies(all_of(BOTH_UP, SAME_DECISIONS, IN_QUEUE), stage(peer, h) == AtRank.QUEUED),
           why="these ranks also have the same requests in their queues"),
    Always("no_rank_is_a_pass_ahead",
           implies(all_of(BOTH_UP, OTHER_COMPUTES, begun(r, h, a)), begun(peer, h, a)),
           why="no rank begins the next pass while another computes a chunk of this one"),
    Always("no_rank_computes_a_dropped_pass",
           implies(all_of(BOTH_UP, OTHER_COMPUTES, forward(r, h) == Forward.NONE),
                   exists(a, begun(peer, h, a) & ~begun(r, h, a))),
           why="a rank without a part of the pass has not begun it yet"),
    Sometimes("two_ranks_run_one_request",
              all_of(r.differs(peer), COMPUTING, OTHER_COMPUTES)),
    Always("S7_in_order", implies(all_of(applied(r, n), o.before(n)), applied(r, o)),
           why="decisions are applied in the same order on every rank"),
    Sometimes("decisions_are_applied_one_by_one",
              all_of(o.before(n), applied(r, o), numbered(n), FRESH)),
    _held_while_computed("first"),
    _held_while_computed("last"),
    _reports_its_pass("first"),
    _reports_its_pass("last"),
    Always("S8_kv_is_held_while_it_is_sent", implies(stage(r, h) == AtRank.SENDING, kv(r, h)),
           why="a rank keeps the KV that it sends"),
    Always("L4_kv_is_given_back",
           implies(kv(r, h), stage(r, h).among(AtRank.RUNNING, AtRank.SENDING)),
           why="a rank that has yielded or ended holds no KV"),
    Sometimes("S8_a_failed_request_is_computed", (status(h) == AtEntry.REFUSED) & COMPUTING),
    OnRow("a_bootstrap_is_reported_before_the_end", "vote_ready", stage(r, h).among(*ACTIVE),
          why="a rank has nothing to report of a request that has ended there"),
    Sometimes("a_rank_has_its_bootstrap", vote(r, h) == Vote.READY),
    OnRow("a_failure_is_reported_once", "vote_dead",
          all_of(stage(r, h).among(*ACTIVE), ~dead(r, h)),
          why="a rank that forgets its vote would report for ever"),
    Sometimes("a_rank_fails_in_a_pass", (vote(r, h) == Vote.DEAD) & RUNNING),
    Always("an_applied_decision_is_numbered", implies(applied(r, n), numbered(n)),
           why="the entry gives no number to two decisions"),
    Always("a_living_rank_closes_only_ended_requests",
           implies(all_of(health(r) == Health.UP, stage(r, h) == AtRank.CLOSED),
                   any_of(status(h).among(*ENDED), finalized(h))),
           why="a rank ends no request by itself"),
    Always("a_rank_takes_no_part_in_a_closed_request",
           implies(all_of(health(r) == Health.UP, stage(r, h) == AtRank.CLOSED),
                   vote(r, h) == Vote.DEAD),
           why="the runtime may forget a request only when nothing of it can change"),
    Always("S14_a_request_being_sent_is_not_refused",
           implies(all_of(group() == Health.UP, stage(r, h) == AtRank.SENDING),
                   status(h) != AtEntry.REFUSED),
           why="a client gets a failure only when no rank sends"),
    OnRow("a_handed_over_request_is_computed", "hand_over",
          forall(r, forward(r, h) == Forward.WHOLE),
          why="on every rank, and in its last pass"),
    OnRow("a_rank_drains_only_a_refused_request", "drain", status(h) == AtEntry.REFUSED,
          why="a rank that ends a request for which others send would keep the sink waiting"),
    Sometimes("a_request_that_is_handed_over_is_released",
              all_of(status(h) == AtEntry.HANDED, health(r) == Health.UP,
                     stage(r, h) == AtRank.CLOSED)),
    *RULE_6,
    OnRow("M5_3_finalized_once_and_surely", "finalize",
          all_of(link(r, h) == Target.PENDING, forall(peer, ready(peer, h)), kv(r, h)),
          why="once, and when every rank has its bootstrap"),
    OnRow("M5_3_finalized_never_runs_again", "drop", link(r, h) == Target.PENDING,
          why="a finalized request has told the sink that it is sent"),
    Sometimes("M5_1_finalized_between_chunks",
              all_of(link(r, h) == Target.FINALIZED, forward(r, h) == Forward.HALF)),
    Sometimes("M5_1_finalized_while_parked",
              all_of(finalized(h), RUNNING, forward(r, h) == Forward.WHOLE)),
    Always("M5_2_attempts_in_order", implies(tried(h, again) & a.before(again), tried(h, a)),
           why="no attempt is left out, so there are no more passes than attempts"),
    Always("a_pass_is_an_attempt", implies(begun(r, h, a), tried(h, a)),
           why="the entry counts every pass that a rank runs"),
    Sometimes("M5_2_a_request_falls_back",
              all_of(forall(a, tried(h, a)), status(h) == AtEntry.QUEUED)),
    Sometimes("M5_2_a_request_yields_between_its_chunks",
              all_of(status(h) == AtEntry.QUEUED, retried(h), forward(r, h) == Forward.HALF)),
    Always("M5_5_a_retried_request_is_not_forced",
           implies(tried(h, again) & a.before(again), retried(h)),
           why="one retry is enough for the test"),
    OnRow("M5_5_a_forced_request_does_not_yield", "decide_to_yield", ~FORCED,
          why="a forced request runs again even if no other needs its place"),
    OnRow("M5_2_an_admitted_request_has_its_bootstrap", "decide_admit", ALL_READY,
          why="a request that is handed over without a pass knows where its KV goes"),
    OnRow("M5_5_a_forced_request_is_not_finalized", "decide_finalize", ~FORCED,
          why="a finalized request has no reason to run again"),
    OnRow("M5_5_a_forced_request_is_not_admitted", "decide_admit", ~FORCED,
          why="an admitted request has no reason to run again"),
    OnRow("M5_5_forced_on_the_first_pass_only", "force_retry",
          all_of(sampled(h), forall((a, again), implies(a.before(again), ~tried(h, again)))),
          why="on every rank, because the entry decides it"),
    Sometimes("the_client_is_refused", status(h) == AtEntry.REFUSED),
)

RETRIES: Final = (
    Sometimes("M5_2_a_request_runs_again",
              all_of(a.before(again), begun(r, h, a), begun(r, h, again))),
)

LIVENESS: Final = (
    LeadsTo("L1_every_request_is_answered", status(h).among(*OPEN), status(h).among(*ENDED),
            under=(Fairness.TIMERS,),
            why="every wait for a bootstrap ends, with the bootstrap or without"),
    LeadsTo("L2_readiness_is_decided", status(h).among(*OPEN) & ALL_READY,
            any_of(status(h).among(*ENDED), finalized(h)),
            under=(Fairness.DETECTORS,),
            why="after the last report of a bootstrap the entry decides to use it"),
    LeadsTo("L2_a_failure_is_decided", vote(r, h) == Vote.DEAD,
            any_of(status(h).among(AtEntry.NEW, *ENDED), finalized(h)),
            under=(Fairness.DETECTORS,), why="a failure of one rank reaches the entry"),
    LeadsTo("L2_a_decision_reaches_all", status(h).among(*ENDED),
            forall(r, stage(r, h).among(AtRank.SENDING, AtRank.CLOSED)),
            under=(Fairness.DETECTORS,), why="every rank applies each decision"),
    Drains("L3_no_orphan",
           forall((r, h), any_of(stage(r, h).among(AtRank.SENDING, AtRank.CLOSED),
                                 status(h) == AtEntry.NEW)),
           under=(Fairness.TIMERS,),
           why="with no traffic the queues of all ranks become empty"),
)

SYSTEM: Final = System(
    "optimistic-group",
    "Prefill before its bootstrap on a group of ranks: attempts are decisions of the group.",
    tables=(RANK, ENTRY),
    properties=(*SAFETY, *RETRIES, *LIVENESS),
    final=all_of(forall(h, status(h).among(AtEntry.NEW, *ENDED)),
                 forall((r, h), any_of(stage(r, h).among(AtRank.SENDING, AtRank.CLOSED),
                                       status(h) == AtEntry.NEW))),
    faults={"crash": (CRASH,)},
    configurations={
        # Each attempt runs, continues, and yields; then the request is admitted or fails.
        "default": Configuration({Rank: 2, Life: 1, Attempt: 2, Decision: 7}, faults=("crash",),
                                 symmetry=True, dead_bits=True),
        "deep": Configuration({Rank: 3, Life: 1, Attempt: 2, Decision: 7},
                              symmetry=True, dead_bits=True),
    },
)
