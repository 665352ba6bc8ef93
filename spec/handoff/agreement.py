"""A group of ranks admits, fails and releases requests alike: properties and systems.

The tables are those of group.py. Four systems check them, because their properties differ:
    agreement            messages arrive: no step waits for a time-out that a message makes needless
    agreement-loss       messages are lost: only the timers make up for them
    agreement-once       each message is delivered at most once
    agreement-no-timers  no message is repeated and no clock runs: one message is enough
Ranks die in all of them.

The bounds: a life needs at most two decisions, so there are twice as many numbers as lives. With
one slot the second life can be admitted only after the release of the first, so the order of
decisions matters. In every state the other life may be at any of its stages.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.group import (
    CRASH,
    ENTRY,
    LOSSY,
    RANK,
    WAITING,
    Decision,
    Health,
    Rank,
    Stage,
    Status,
    Verdict,
    applied,
    broke,
    confirmed,
    dead,
    granted,
    group,
    h,
    health,
    k,
    log,
    m,
    n,
    o,
    peer,
    prefetched,
    r,
    ready,
    slot,
    stage,
    status,
    taken,
)
from pdproto.spec.handoff.roles import Life, Slot
from pdproto.spec.language import (
    Always,
    Configuration,
    Drains,
    DropRow,
    Fairness,
    LeadsTo,
    OnRow,
    ReplaceProperties,
    Sometimes,
    System,
    Timer,
    all_of,
    any_of,
    edited,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.properties import Property

IN_BATCH: Final = (Stage.RUNNING, Stage.DONE, Stage.BROKEN)
ANSWERED: Final = (Status.SERVED, Status.REFUSED)

BOTH_UP: Final = all_of(health(r) == Health.UP, health(peer) == Health.UP)
SAME_DECISIONS: Final = forall(n, any_of(all_of(applied(r, n), applied(peer, n)),
                                         all_of(~applied(r, n), ~applied(peer, n))))
CLOSED: Final = stage(r, h) == Stage.CLOSED
ENDED: Final = group() == Health.DOWN


def _only_while_it_lives(row: str) -> OnRow:
    return OnRow(f"rule_8_an_ended_group_does_not_{row}", row, group() == Health.UP,
                 why="the entry of an ended group only tells waiting clients that it has ended")


RULE_8: Final[tuple[OnRow, ...]] = tuple(map(
    _only_while_it_lives,
    ("submit", "submit_again", "abort", "decide_admit", "decide_fail", "decide_release",
     "decide_drop", "admit_again", "fail_again", "release_again", "drop_again"),
))

def _until_confirmed(row: str) -> OnRow:
    return OnRow(f"{row}_ends_when_it_is_confirmed", row, ~confirmed(r, h),
                 why="the entry repeats a decision only until the rank confirms its end")


REPEATS: Final[tuple[OnRow, ...]] = tuple(map(
    _until_confirmed, ("admit_again", "fail_again", "release_again", "drop_again"),
))

def _as_decided(row: str, verdict: Verdict) -> OnRow:
    return OnRow(f"S7_{row}_follows_its_decision", row, log(n, h) == verdict,
                 why="a rank tells its server what the group has decided")


AS_DECIDED: Final[tuple[OnRow, ...]] = (
    _as_decided("start", Verdict.ADMIT), _as_decided("drain", Verdict.FAIL),
    _as_decided("free", Verdict.RELEASE), _as_decided("free_broken", Verdict.DROP),
)

SAFETY: Final[tuple[Property, ...]] = (
    Always("S5_same_decisions_same_batch",
           implies(all_of(BOTH_UP, SAME_DECISIONS, stage(r, h).among(*IN_BATCH)),
                   stage(peer, h).among(*IN_BATCH)),
           why="ranks that have applied the same decisions run the same requests"),
    Always("S5_same_decisions_same_queue",
           implies(all_of(BOTH_UP, SAME_DECISIONS, CLOSED), stage(peer, h) == Stage.CLOSED),
           why="these ranks have also removed the same requests from their queues"),
    Sometimes("two_ranks_run_one_request",
              all_of(r.differs(peer), stage(r, h) == Stage.RUNNING,
                     stage(peer, h) == Stage.RUNNING)),
    Always("S6_slot_has_one_owner", implies(all_of(slot(r, h, m), slot(r, k, m)), h.same(k)),
           why="each metadata slot of a rank has at most one owner"),
    Always("S6_a_running_request_holds_its_slot",
           implies(all_of(stage(r, h).among(*IN_BATCH), granted(h, m)), slot(r, h, m)),
           why="the slot in the decision is taken on every rank"),
    Always("S7_in_order", implies(all_of(applied(r, n), o.before(n)), applied(r, o)),
           why="decisions are applied in the same order on every rank"),
    Always("S7_one_number_one_decision",
           implies(all_of(log(n, h) != Verdict.NONE, log(n, k) != Verdict.NONE), h.same(k)),
           why="a number names one decision"),
    Always("S7_decided_once",
           implies(all_of(n.differs(o), log(n, h).among(Verdict.ADMIT, Verdict.FAIL)),
                   ~log(o, h).among(Verdict.ADMIT, Verdict.FAIL)),
           why="a life is admitted or failed, and only once"),
    Always("M4_1_all_have_voted",
           implies(stage(r, h) == Stage.RUNNING, ~stage(peer, h).among(Stage.ABSENT, *WAITING)),
           why="a request is admitted only when every rank has voted for it"),
    Always("M4_4_nothing_is_kept",
           implies(CLOSED, all_of(~prefetched(r, h), ~slot(r, h, m))),
           why="a closed request holds nothing"),
    Sometimes("something_is_held", all_of(prefetched(r, h), slot(r, h, m))),
    Always("S17_a_request_that_takes_part_holds_its_prefetch",
           implies(stage(r, h).among(Stage.PREPARED, Stage.READY, Stage.RUNNING, Stage.DONE),
                   prefetched(r, h)),
           why="the end of another request gives back nothing of it"),
    Always("M4_5_freed_when_all_have_ended",
           implies(all_of(BOTH_UP, CLOSED), stage(peer, h) != Stage.RUNNING),
           why="nothing is freed while a transfer of the same request runs on any rank"),
    Sometimes("ranks_free_one_by_one",
              all_of(BOTH_UP, CLOSED, stage(peer, h) == Stage.DONE)),
    Always("S14_success_is_of_all_ranks",
           implies(all_of(status(h) == Status.SERVED, health(r) == Health.UP),
                   stage(r, h).among(Stage.DONE, Stage.CLOSED)),
           why="a client gets Success only if every rank's part went well"),
    Always("S14_a_dropped_request_is_refused",
           implies(log(n, h) == Verdict.DROP, status(h) == Status.REFUSED),
           why="the ranks drop only a result that the client has not got"),
    OnRow("S14_a_drop_needs_a_broken_part", "decide_drop", exists(peer, broke(peer, h)),
          why="a request that went well on every rank is not refused"),
    OnRow("S14_a_rank_that_broke_off_is_not_done", "decide_drop", stage(r, h) != Stage.DONE,
          why="a rank's report agrees with its own state"),
    *RULE_8,
    *REPEATS,
    *AS_DECIDED,
    Always("a_confirmed_life_is_closed", implies(confirmed(r, h), stage(r, h) == Stage.CLOSED),
           why="the entry repeats nothing to a rank that has confirmed"),
    Sometimes("the_client_is_served", status(h) == Status.SERVED),
    Sometimes("the_client_is_refused", status(h) == Status.REFUSED),
    Sometimes("a_client_may_leave_although_all_is_well",
              all_of(status(h) == Status.REFUSED, group() == Health.UP,
                     forall(r, stage(r, h) == Stage.READY))),
)

TWO_LIVES: Final = (
    Sometimes("a_slot_is_used_again",
              all_of(h.differs(k), granted(h, m), granted(k, m), slot(r, h, m))),
    Sometimes("two_lives_are_decided",
              all_of(o.before(n), h.differs(k), applied(r, n),
                     log(n, h) == Verdict.ADMIT, log(o, k) == Verdict.FAIL)),
    Sometimes("a_client_may_leave_after_another_decision",
              all_of(o.before(n), log(n, h) == Verdict.FAIL, group() == Health.UP,
                     forall(r, stage(r, h) == Stage.READY))),
)

# These properties read old votes, which dead-bit clearing would then keep: small sizes only.
DEAD_VOTE: Final = Always(
    "M4_2_a_dead_vote_comes_from_a_failed_rank",
    implies(dead(r, h), stage(r, h).among(Stage.FAILED, Stage.BROKEN, Stage.CLOSED)),
    why="a rank that reports that it cannot take part does not begin")
VOTES: Final = (
    DEAD_VOTE,
    Sometimes("M4_2_a_dead_vote_follows_a_ready_one", all_of(ready(r, h), dead(r, h))),
)

# Each of these holds under any loss, because of the timers.
IN_TIME: Final = (
    LeadsTo("L1_every_request_is_answered", status(h) != Status.NEW, status(h).among(*ANSWERED),
            under=(Fairness.TIMERS,),
            why="each request gets its one answer"),
    LeadsTo("M4_2_failure_drains_everywhere", stage(r, h) == Stage.FAILED,
            forall(peer, stage(peer, h) == Stage.CLOSED),
            under=(Fairness.TIMERS,),
            why="a request that failed on one rank is removed on every rank"),
    Drains("L3_no_orphan",
           forall((r, h), any_of(
               stage(r, h) == Stage.CLOSED,
               all_of(stage(r, h) == Stage.ABSENT, status(h) == Status.NEW),
           )),
           under=(Fairness.TIMERS,),
           why="with no traffic the queues of all ranks become empty"),
    Drains("L4_slots_come_back",
           all_of(forall((r, h, m), ~slot(r, h, m)), forall(m, any_of(~taken(m), ENDED))),
           under=(Fairness.TIMERS,),
           why="no slot stays with a request that has ended"),
    LeadsTo("L4_the_entry_may_forget", status(h).among(*ANSWERED), any_of(confirmed(r, h), ENDED),
            under=(Fairness.TIMERS,),
            why="each rank confirms that it has closed a life, so the entry can forget it"),
)

# Where nothing is lost each of these follows from messages alone.
AT_ONCE: Final = (
    LeadsTo("a_request_reaches_every_rank", status(h) == Status.OPEN,
            any_of(status(h) != Status.OPEN, forall(r, stage(r, h) != Stage.ABSENT), ENDED),
            under=(Fairness.DETECTORS,),
            why="the first message to each rank is enough"),
    LeadsTo("L2_a_failure_is_decided", stage(r, h) == Stage.FAILED, status(h) != Status.OPEN,
            under=(Fairness.DETECTORS,),
            why="a failure of one rank reaches the entry, also after a ready vote"),
    LeadsTo("L2_a_decision_reaches_all", status(h).among(*ANSWERED),
            all_of(forall(r, stage(r, h) == Stage.CLOSED),
                   any_of(forall(r, confirmed(r, h)), ENDED)),
            under=(Fairness.DETECTORS,),
            why="every rank applies each decision, and the entry learns of it"),
    LeadsTo("L2_readiness_is_decided",
            all_of(forall(r, stage(r, h) == Stage.READY), ~taken(m)),
            any_of(status(h) != Status.OPEN, taken(m)),
            under=(Fairness.DETECTORS,),
            why="after the last ready vote the entry decides, if a slot is free"),
    LeadsTo("L2_an_end_is_decided", forall(r, stage(r, h).among(Stage.DONE, Stage.BROKEN)),
            status(h).among(*ANSWERED),
            under=(Fairness.DETECTORS,),
            why="when every rank has ended its part, the entry answers the request"),
)

SYSTEM: Final = System(
    "agreement",
    "A group of ranks admits, fails and releases requests by one ordered stream of decisions.",
    tables=(RANK, ENTRY),
    properties=(*SAFETY, *TWO_LIVES, *IN_TIME, *AT_ONCE),
    final=any_of(
        forall((r, h), any_of(status(h) == Status.NEW,
                              all_of(status(h).among(*ANSWERED), confirmed(r, h)))),
        all_of(ENDED, forall(r, health(r) == Health.DOWN),
               forall(h, status(h).among(Status.NEW, *ANSWERED))),
    ),
    faults={"lossy": (LOSSY,), "crash": (CRASH,)},
    configurations={
        "default": Configuration({Rank: 2, Life: 2, Slot: 1, Decision: 4}, faults=("crash",),
                                 symmetry=True, dead_bits=True),
        "deep": Configuration({Rank: 3, Life: 2, Slot: 1, Decision: 4},
                              symmetry=True, dead_bits=True),
        "two-slots": Configuration({Rank: 2, Life: 2, Slot: 2, Decision: 4},
                                   symmetry=True, dead_bits=True),
    },
)

LOSS: Final = edited(
    SYSTEM,
    "agreement-loss",
    ReplaceProperties((*SAFETY, *IN_TIME)),
    about="The same group, where votes and decisions are lost, repeated and reordered.",
    configurations={
        "default": Configuration({Rank: 3, Life: 1, Slot: 1, Decision: 2},
                                 faults=("lossy", "crash"), symmetry=True, dead_bits=True),
        "deep": Configuration({Rank: 2, Life: 2, Slot: 1, Decision: 4}, faults=("lossy",),
                              symmetry=True, dead_bits=True),
    },
)

# A message in a set is resent for ever, which hides a missing answer; here it is not. Timers bring
# back the messages that delivery takes away, so any mixture of messages is a state: small sizes.
ONCE: Final = edited(
    SYSTEM,
    "agreement-once",
    ReplaceProperties((
        *SAFETY, *VOTES, *(replace(claim, under=(Fairness.CONSUMED,)) for claim in IN_TIME),
    )),
    about="The same group over a network that delivers each message at most once.",
    configurations={
        "default": Configuration({Rank: 2, Life: 1, Slot: 1, Decision: 2},
                                 faults=("lossy", "crash"), symmetry=True, dead_bits=True),
        "deep": Configuration({Rank: 3, Life: 1, Slot: 1, Decision: 2},
                              faults=("crash",), symmetry=True, dead_bits=True),
    },
)

# A repeated message hides that the first one was missing, and so does its answer: a repeated
# decision gets the confirmation that was missing the first time. Here no message is repeated. The
# system has one life: with several, a decision may overtake another, and a rank whose turn has not
# come would lose it.
NO_TIMERS: Final = edited(
    SYSTEM,
    "agreement-no-timers",
    *(DropRow(row.name) for _, row in SYSTEM.rows() if isinstance(row.on, Timer)),
    ReplaceProperties((
        *(replace(claim, under=(Fairness.CONSUMED,)) for claim in AT_ONCE),
        Sometimes("a_rank_may_fail_before_it_is_prepared",
                  all_of(stage(r, h) == Stage.FAILED, ~prefetched(r, h))),
        Sometimes("a_prepared_rank_may_fail",
                  all_of(stage(r, h) == Stage.FAILED, prefetched(r, h), ~ready(r, h))),
        Sometimes("a_transfer_may_break_off_while_no_clock_runs",
                  all_of(stage(r, h) == Stage.BROKEN, ~dead(r, h))),
    )),
    about="The same group without clocks, where each message is sent once and delivered once.",
    configurations={
        "default": Configuration({Rank: 2, Life: 1, Slot: 1, Decision: 2}, faults=("crash",),
                                 symmetry=True, dead_bits=True),
        "deep": Configuration({Rank: 3, Life: 1, Slot: 1, Decision: 2}, faults=("crash",),
                              symmetry=True, dead_bits=True),
    },
)
