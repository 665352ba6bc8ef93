"""Optimistic prefill on a group of ranks: what its decisions promise, and the system.

The tables are in group_attempts.py.
"""

from typing import Final

from pdproto.spec.handoff.attempts import Forward, Link, a, b, sampled
from pdproto.spec.handoff.group import Decision, Health, Rank, h, k, n, p, q
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
    Stage,
    Status,
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

BOTH_UP: Final = all_of(health(k) == Health.UP, health(q) == Health.UP)
SAME_DECISIONS: Final = forall(n, any_of(all_of(applied(k, n), applied(q, n)),
                                         all_of(~applied(k, n), ~applied(q, n))))
OTHER_COMPUTES: Final = forward(q, h).among(Forward.FIRST, Forward.LAST)


def _held_while_computed(chunk: str) -> OnRow:
    return OnRow(f"S8_kv_is_held_while_the_{chunk}_chunk_is_computed", f"finish_{chunk}", kv(k, h),
                 why="the pages that a launched batch writes belong to its request")


def _reports_its_pass(chunk: str) -> OnRow:
    return OnRow(f"a_report_of_the_{chunk}_chunk_names_its_pass", f"finish_{chunk}",
                 forall(b, implies(a.before(b), ~begun(k, h, b))),
                 why="a report of an earlier pass would end the wait for this one")


def _only_while_it_lives(row: str) -> OnRow:
    return OnRow(f"rule_6_an_ended_group_does_not_{row}", row, group() == Health.UP,
                 why="the entry of a group that has ended only tells who still waits")


RULE_6: Final[tuple[OnRow, ...]] = tuple(map(
    _only_while_it_lives,
    ("submit", "decide_run", "decide_to_go_on", "decide_finalize", "decide_to_yield",
     "force_retry", "decide_admit", "hand_over", "decide_fail", "give_up", "abort"),
))

SAFETY: Final[tuple[Property, ...]] = (
    Always("S5_same_decisions_same_batch",
           implies(all_of(BOTH_UP, SAME_DECISIONS, begun(k, h, a)), begun(q, h, a)),
           why="ranks that have applied the same decisions have begun the same passes"),
    Always("S5_same_decisions_same_queue",
           implies(all_of(BOTH_UP, SAME_DECISIONS, IN_QUEUE), stage(q, h) == Stage.QUEUED),
           why="and they have the same requests in their queues"),
    Always("no_rank_is_a_pass_ahead",
           implies(all_of(BOTH_UP, OTHER_COMPUTES, begun(k, h, a)), begun(q, h, a)),
           why="nobody begins the next pass while another computes a chunk of this one"),
    Always("no_rank_computes_a_dropped_pass",
           implies(all_of(BOTH_UP, OTHER_COMPUTES, forward(k, h) == Forward.NONE),
                   exists(a, begun(q, h, a) & ~begun(k, h, a))),
           why="who has no part of the pass has not come to it yet"),
    Sometimes("two_ranks_run_one_request",
              all_of(k.differs(q), COMPUTING, OTHER_COMPUTES)),
    Always("S7_in_order", implies(all_of(applied(k, n), p.before(n)), applied(k, p)),
           why="decisions are applied in the same order on every rank"),
    Sometimes("decisions_are_applied_one_by_one",
              all_of(p.before(n), applied(k, p), numbered(n), FRESH)),
    _held_while_computed("first"),
    _held_while_computed("last"),
    _reports_its_pass("first"),
    _reports_its_pass("last"),
    Always("S8_kv_is_held_while_it_is_sent", implies(stage(k, h) == Stage.SENDING, kv(k, h)),
           why="what is sent has not been given away"),
    Always("L4_kv_is_given_back",
           implies(kv(k, h), stage(k, h).among(Stage.RUNNING, Stage.SENDING)),
           why="who has yielded, or has ended, holds none"),
    Sometimes("S8_a_failed_request_is_computed", (status(h) == Status.REFUSED) & COMPUTING),
    OnRow("a_bootstrap_is_reported_before_the_end", "vote_ready", stage(k, h).among(*ACTIVE),
          why="of what has ended here there is nothing to report"),
    Sometimes("a_rank_has_its_bootstrap", vote(k, h) == Vote.READY),
    OnRow("a_failure_is_reported_once", "vote_dead",
          all_of(stage(k, h).among(*ACTIVE), ~dead(k, h)),
          why="a rank that forgot what it has voted would report without end"),
    Sometimes("a_rank_fails_in_a_pass", (vote(k, h) == Vote.DEAD) & RUNNING),
    Always("an_applied_decision_is_numbered", implies(applied(k, n), numbered(n)),
           why="the entry gives no number to two decisions"),
    Always("a_living_rank_closes_only_refused_requests",
           implies(all_of(health(k) == Health.UP, stage(k, h) == Stage.CLOSED),
                   status(h) == Status.REFUSED),
           why="a rank ends nothing by itself"),
    Always("S14_a_request_being_sent_is_not_refused",
           implies(all_of(group() == Health.UP, stage(k, h) == Stage.SENDING),
                   status(h) != Status.REFUSED),
           why="the client hears of a failure only where no rank sends"),
    OnRow("a_handed_over_request_is_computed", "hand_over",
          forall(k, forward(k, h) == Forward.WHOLE),
          why="on every rank, and in the pass that is the last"),
    *RULE_6,
    OnRow("M5_3_finalized_once_and_surely", "finalize",
          all_of(link(k, h) == Link.PENDING, forall(q, ready(q, h)), kv(k, h)),
          why="once, and when every rank has its bootstrap"),
    OnRow("M5_3_finalized_never_runs_again", "drop", link(k, h) == Link.PENDING,
          why="what was finalized has told the sink where it stands"),
    Sometimes("M5_1_finalized_between_chunks",
              all_of(link(k, h) == Link.FINALIZED, forward(k, h) == Forward.HALF)),
    Sometimes("M5_1_finalized_while_parked",
              all_of(finalized(h), RUNNING, forward(k, h) == Forward.WHOLE)),
    Always("M5_2_attempts_in_order", implies(tried(h, b) & a.before(b), tried(h, a)),
           why="no attempt is left out, so that there are no more passes than attempts"),
    Always("a_pass_is_an_attempt", implies(begun(k, h, a), tried(h, a)),
           why="no rank runs a pass that the entry has not counted"),
    Sometimes("M5_2_a_request_falls_back",
              all_of(forall(a, tried(h, a)), status(h) == Status.QUEUED)),
    Sometimes("M5_2_a_request_yields_between_its_chunks",
              all_of(status(h) == Status.QUEUED, retried(h), forward(k, h) == Forward.HALF)),
    Always("M5_5_a_retried_request_is_not_forced",
           implies(tried(h, b) & a.before(b), retried(h)),
           why="one retry is enough to be seen"),
    OnRow("M5_5_a_forced_request_does_not_yield", "decide_to_yield", ~FORCED,
          why="it runs again whether or not another needs its place"),
    OnRow("M5_2_an_admitted_request_has_its_bootstrap", "decide_admit", ALL_READY,
          why="what is handed over without a pass of its own knows where its KV goes"),
    OnRow("M5_5_a_forced_request_is_not_finalized", "decide_finalize", ~FORCED,
          why="it would have nothing to run again for"),
    OnRow("M5_5_a_forced_request_is_not_admitted", "decide_admit", ~FORCED,
          why="it would have nothing to run again for"),
    OnRow("M5_5_forced_on_the_first_pass_only", "force_retry",
          all_of(sampled(h), forall((a, b), implies(a.before(b), ~tried(h, b)))),
          why="and on every rank, for it is decided"),
    Sometimes("the_client_is_refused", status(h) == Status.REFUSED),
)

RETRIES: Final = (
    Sometimes("M5_2_a_request_runs_again", all_of(a.before(b), begun(k, h, a), begun(k, h, b))),
)

LIVENESS: Final = (
    LeadsTo("L1_every_request_is_answered", status(h).among(*OPEN), status(h).among(*ENDED),
            under=(Fairness.TIMERS,), why="a wait for a bootstrap ends, with it or without"),
    LeadsTo("L2_readiness_is_decided", status(h).among(*OPEN) & ALL_READY,
            any_of(status(h).among(*ENDED), finalized(h)),
            under=(Fairness.DETECTORS,),
            why="the last report of a bootstrap is followed by the decision to use it"),
    LeadsTo("L2_a_failure_is_decided", vote(k, h) == Vote.DEAD,
            any_of(status(h).among(Status.NEW, *ENDED), finalized(h)),
            under=(Fairness.DETECTORS,), why="a failure of one rank reaches the entry"),
    LeadsTo("L2_a_decision_reaches_all", status(h).among(*ENDED),
            forall(k, stage(k, h).among(Stage.SENDING, Stage.CLOSED)),
            under=(Fairness.DETECTORS,), why="what has been decided is applied by every rank"),
    Drains("L3_no_orphan",
           forall((k, h), any_of(stage(k, h).among(Stage.SENDING, Stage.CLOSED),
                                 status(h) == Status.NEW)),
           under=(Fairness.TIMERS,),
           why="with no traffic the queues of all ranks become empty"),
)

SYSTEM: Final = System(
    "optimistic-group",
    "Prefill before its bootstrap on a group of ranks: attempts are decisions of the group.",
    tables=(RANK, ENTRY),
    properties=(*SAFETY, *RETRIES, *LIVENESS),
    final=all_of(forall(h, status(h).among(Status.NEW, *ENDED)),
                 forall((k, h), any_of(stage(k, h).among(Stage.SENDING, Stage.CLOSED),
                                       status(h) == Status.NEW))),
    faults={"crash": (CRASH,)},
    configurations={
        # Each attempt is run, gone on with, and yielded; then the request is admitted or fails.
        "default": Configuration({Rank: 2, Life: 1, Attempt: 2, Decision: 7}, faults=("crash",),
                                 symmetry=True, dead_bits=True),
        "deep": Configuration({Rank: 3, Life: 1, Attempt: 2, Decision: 7},
                              symmetry=True, dead_bits=True),
    },
)
