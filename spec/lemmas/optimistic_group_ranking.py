"""Why optimistic prefill on a group answers and ends every request, for any number of ranks,
requests, attempts and decisions.

The rank that is furthest behind makes progress for every waiting request: it computes the chunk
that it has launched, or applies the first decision that it lacks. When no rank is behind, all have
computed the pass that the entry has decided, and the entry goes on. A request that is not finalized
ends by its time-out, or because all ranks have their bootstraps. A group that lacks a rank ends,
and answers all waiting clients.
"""

from collections.abc import Mapping
from typing import Final

from pdproto.spec.handoff.attempts import Forward, a
from pdproto.spec.handoff.group import Decision, Health, Rank, h, n, peer, r
from pdproto.spec.handoff.group_attempts import (
    ENDED,
    AtEntry,
    AtRank,
    Vote,
    admit,
    applied,
    dead,
    fail,
    finalize,
    finalized,
    forward,
    give_way,
    go_on,
    gone,
    group,
    half,
    health,
    lost,
    numbered,
    run,
    stage,
    status,
    tried,
    vote,
    whole,
)
from pdproto.spec.handoff.optimistic_group_history import (
    Verdict,
    current,
    latest,
    log,
    within,
)
from pdproto.spec.handoff.roles import Attempt, Life
from pdproto.spec.language import Always, Formula, Sort, all_of, any_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

# A rank that lags, the first decision that it lacks, its request and its pass; the pass in which
# this rank is.
behind, missing, decided, turn = (
    Rank("behind"), Decision("missing"), Life("decided"), Attempt("turn"))
present = Attempt("present")
# A rank that computes, for which request, and in which pass.
busy, computing, underway = Rank("busy"), Life("computing"), Attempt("underway")
# A rank that is gone, one that is up, the next number, and the pass and the next of a request.
departed, remaining, following = Rank("departed"), Rank("remaining"), Decision("following")
passing, untried = Attempt("passing"), Attempt("untried")
# A rank that has not reported that it has computed the pass.
unreported = Rank("unreported")

AT_WORK: Final = (Forward.FIRST, Forward.LAST)


def _sent(name: str, verdict: Verdict, message: Formula) -> Always:
    return Always(f"{name}_is_sent", implies(log(n, h) == verdict, message),
                  why="the entry sends a decision to every rank when it makes it")


# They hold also while messages are lost.
LOSSY: Final = (
    Always("a_lost_rank_leaves_all", implies(lost(peer), gone(peer, r)),
           why="when a rank dies, all its connections close"),
    Always("an_ended_rank_lost_one",
           implies(health(r) == Health.DOWN, exists(peer, lost(peer))),
           why="the rank has died itself, or follows one that has"),
    Always("an_ended_group_lost_one", implies(group() == Health.DOWN, exists(peer, lost(peer))),
           why="the entry acts on a closed connection"),
    Always("a_rank_that_left_is_lost", implies(gone(peer, r), lost(peer)),
           why="when a rank dies, all its connections close"),
    Always("numbered_is_logged", implies(numbered(n), exists(h, log(n, h) != Verdict.NONE)),
           why="a number is taken with its decision"),
    Always("a_refused_request_has_failed",
           implies(all_of(status(h) == AtEntry.REFUSED, group() == Health.UP),
                   exists(n, log(n, h) == Verdict.FAIL)),
           why="while the group lives, a decision refuses it"),
    Always("a_request_handed_over_without_its_pass_was_admitted",
           implies(status(h) == AtEntry.HANDED,
                   any_of(finalized(h), exists(n, log(n, h) == Verdict.ADMIT))),
           why="a decision hands it over"),
    Always("finalized_is_decided",
           implies(finalized(h), exists(n, log(n, h) == Verdict.FINALIZE)),
           why="only a decision finalizes"),
    Always("a_finalized_request_has_a_latest", implies(finalized(h), latest(h).is_set),
           why="a pass is finalized, and not a request that waits"),
    Always("a_pass_with_its_last_chunk_went_on",
           implies(all_of(any_of(status(h) == AtEntry.LAST,
                                 all_of(status(h) == AtEntry.HANDED, finalized(h))),
                          latest(h) == a),
                   exists(n, all_of(log(n, h) == Verdict.GO_ON, within(n, a)))),
           why="the last chunk is computed by decision"),
)
LEMMAS: Final = (
    *LOSSY,
    Always("a_decision_to_run_is_sent",
           implies(all_of(log(n, h) == Verdict.RUN, within(n, a)), run(r, n, h, a)),
           why="the entry sends a decision to every rank when it makes it"),
    _sent("a_decision_to_go_on", Verdict.GO_ON, go_on(r, n, h)),
    _sent("a_decision_to_finalize", Verdict.FINALIZE, finalize(r, n, h)),
    _sent("a_decision_to_yield", Verdict.YIELD, give_way(r, n, h)),
    _sent("an_admission", Verdict.ADMIT, admit(r, n, h)),
    _sent("a_failure", Verdict.FAIL, fail(r, n, h)),
    Always("a_computed_chunk_is_reported",
           implies(all_of(current(r, h) == a,
                          forward(r, h).among(Forward.HALF, Forward.LAST, Forward.WHOLE)),
                   half(r, h, a)),
           why="a rank reports a chunk when it has computed it"),
    Always("a_computed_pass_is_reported",
           implies(all_of(current(r, h) == a, forward(r, h) == Forward.WHOLE), whole(r, h, a)),
           why="a rank reports a pass when it has computed it"),
    Always("a_dead_vote_is_said",
           implies(vote(r, h) == Vote.DEAD,
                   any_of(dead(r, h), status(h).among(*ENDED), finalized(h))),
           why="a rank reports that it takes no part, or closes an ended request"),
)

MONOTONE: Final = (
    Monotone("answered", status(h).among(*ENDED), why="an answer is final"),
    Monotone("released", stage(r, h).among(AtRank.SENDING, AtRank.CLOSED),
             why="a request that is sent does not come back to the queue"),
)

OF_DECIDED: Final[Mapping[Sort, Sort]] = {r: behind, n: missing, h: decided}
OF_RUN: Final[Mapping[Sort, Sort]] = {**OF_DECIDED, a: turn}
_AT_BEHIND: Final[Mapping[Sort, Sort]] = {r: behind, h: decided}
_OF_BUSY: Final[Mapping[Sort, Sort]] = {r: busy, h: computing, a: underway}
_NEXT: Final[Mapping[Sort, Sort]] = {n: following}
WITNESSES: Final = (
    Witness(missing, all_of(health(behind) == Health.UP, numbered(missing),
                            ~applied(behind, missing))),
    Witness(decided, log(missing, decided) != Verdict.NONE),
    Witness(turn, within(missing, turn)),
    Witness(present, current(behind, decided) == present),
    Witness(busy, all_of(health(busy) == Health.UP, forward(busy, computing).among(*AT_WORK))),
    Witness(underway, current(busy, computing) == underway),
    Witness(following, ~numbered(following)),
    Witness(departed, lost(departed)),
    Witness(remaining, health(remaining) == Health.UP),
)
# Every rank computes what it has launched, and applies each decision; a group without a rank ends.
CATCH_UP: Final = (
    Help("end", at={r: departed}), Help("follow", at={peer: departed, r: remaining}),
    *(Help(row, current(r, h) == a, _OF_BUSY) for row in ("finish_first", "finish_last")),
    Help("start", at=OF_RUN),
    *(Help(row, at=OF_DECIDED) for row in ("launch_last", "finalize", "drop", "take_up", "drain")),
)
# The rank that lags may apply a decision: the entry has made it for all ranks alike.
USING: Final = (
    Use("an_ended_group_lost_one"),
    Use("numbered_is_logged", {n: missing}),
    Use("a_decision_to_run_has_its_pass", {n: missing, h: decided}),
    Use("reject_run_up", OF_RUN),
    *(Use(f"reject_{message.name}_up", OF_DECIDED)
      for message in (go_on, finalize, give_way, admit, fail)),
    # It has not gone on in the pass that it is told to go on with.
    Use("a_decision_to_go_on_has_its_pass", {n: missing, h: decided}),
    Use("a_tried_pass_was_decided", {h: decided, a: turn}),
    Use("a_computed_request_has_a_current_pass", _AT_BEHIND),
    Use("begun_by_decision", {**_AT_BEHIND, a: present}),
    Use("gone_on_by_decision", {**_AT_BEHIND, a: present}),
    Use("a_computed_request_has_a_current_pass", {r: busy, h: computing}),
)


# A rank that has applied all decisions about the latest pass has computed it.
_WENT_ON: Final = (
    Use("a_finalized_request_has_a_latest", {h: h}),
    Use("a_tried_pass_was_decided", {h: h, a: passing}),
    Use("a_pass_with_its_last_chunk_went_on", {h: h, a: passing}),
)
_OF_REQUEST: Final = (
    Use("a_request_in_a_pass_has_a_latest", {h: h}),
    *_WENT_ON,
    Use("an_ended_rank_lost_one", {r: unreported}),
    Use("a_begun_request_has_a_current_pass", {r: unreported, h: h, a: passing}),
    Use("a_dropped_pass_has_yielded", {r: unreported, h: h, a: passing}),
)
_OF_END: Final = (
    Use("a_refused_request_has_failed", {h: h}),
    Use("a_request_handed_over_without_its_pass_was_admitted", {h: h}),
    Use("finalized_is_decided", {h: h}),
    Use("a_begun_request_has_a_current_pass", {r: r, h: h, a: passing}),
)
OF_PASS: Final = (
    Witness(passing, latest(h) == passing),
    Witness(unreported, ~whole(unreported, h, passing)),
)
NUMBERS: Final = {"numbers_do_not_run_out": exists(n, ~numbered(n))}

# A finalized request runs to its end.
TO_THE_END: Final = (
    Help("answer_lost"), Help("decide_to_go_on", at=_NEXT), Help("hand_over", at={a: passing}),
)
GIVE_UP: Final = Help("give_up", at=_NEXT)
SEND: Final = Help("send")


def answered(*more: Help) -> Ranking:
    return Ranking(
        "L1_every_request_is_answered", (*CATCH_UP, *TO_THE_END, GIVE_UP, *more),
        witnesses=(*WITNESSES, *OF_PASS), using=(*USING, *_OF_REQUEST), assumed=NUMBERS,
        why="a clock ends a request that is not finalized, and a finalized one runs to its end")


def reaches_all(*more: Help) -> Ranking:
    return Ranking(
        "L2_a_decision_reaches_all", (*CATCH_UP, SEND, *more),
        witnesses=(*WITNESSES, OF_PASS[0]),
        using=(*USING, *_WENT_ON, *_OF_END),
        why="each rank computes what it has launched, and applies the decisions that it lacks")


def drains(*more: Help) -> Ranking:
    return Ranking(
        "L3_no_orphan", (*CATCH_UP, *TO_THE_END, GIVE_UP, SEND, *more),
        witnesses=(*WITNESSES, *OF_PASS), using=(*USING, *_OF_REQUEST, *_OF_END), assumed=NUMBERS,
        why="every request is answered, and every decision reaches all")


RANKINGS: Final = (
    answered(),
    Ranking(
        "L2_readiness_is_decided",
        (*CATCH_UP, Help("answer_lost"), Help("decide_admit", at=_NEXT),
         Help("decide_finalize", at=_NEXT), Help("decide_run", at={**_NEXT, a: untried}),
         Help("decide_to_go_on", at=_NEXT), Help("force_retry", at={**_NEXT, a: passing})),
        witnesses=(*WITNESSES, *OF_PASS, Witness(untried, ~tried(h, untried))),
        using=(*USING, *_OF_REQUEST), assumed=NUMBERS,
        why="the entry admits or finalizes; a forced request first runs its pass"),
    Ranking(
        "L2_a_failure_is_decided", (Help("decide_fail", at=_NEXT), Help("answer_lost")),
        witnesses=(Witness(following, ~numbered(following)),), assumed=NUMBERS,
        why="the vote is under way"),
    reaches_all(),
    drains(),
)
