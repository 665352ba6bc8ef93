"""Why a group answers and releases every request, for any number of ranks, requests and slots.

The request that is furthest behind makes progress for every waiting one: a rank that lags applies
the first decision that it lacks; an admitted request ends by its time-out, and gives its slot to a
waiting request. A group that lacks a rank ends, and answers all waiting clients.
"""

from collections.abc import Mapping
from typing import Final

from pdproto.spec.handoff.group import (
    Decision,
    Health,
    Rank,
    Stage,
    Status,
    Verdict,
    admit,
    applied,
    broke,
    closed,
    confirmed,
    dead,
    done,
    drop,
    fail,
    gone,
    granted,
    group,
    h,
    health,
    log,
    lost,
    m,
    n,
    numbered,
    peer,
    r,
    ready,
    release,
    request,
    slot,
    stage,
    status,
    taken,
)
from pdproto.spec.handoff.roles import Life, Slot
from pdproto.spec.language import Always, Formula, Sort, all_of, exists, forall, implies
from pdproto.spec.language.ranking import FaultFree, Help, Monotone, Ranking, Use, Witness

# A rank that lags, the first decision that it lacks, its request, and the slot in it.
behind, missing, decided, given = (
    Rank("behind"), Decision("missing"), Life("decided"), Slot("given"))
# A request that is admitted, and its slot; a rank that has not ended its part, one that broke it.
serving, held = Life("serving"), Slot("held")
unended, broken = Rank("unended"), Rank("broken")
# A request that is open, a rank that has not voted ready for it, and a slot that is free.
opening, silent, spare = Life("opening"), Rank("silent"), Slot("spare")
# A slot that is taken; a rank that holds one for a request, and that request.
occupied, keeper, kept, grip = Slot("occupied"), Rank("keeper"), Life("kept"), Slot("grip")
# The next number, a rank that is gone, one that is up, and the decision that ended a request.
following, departed, remaining, ending = (
    Decision("following"), Rank("departed"), Rank("remaining"), Decision("ending"))

BEGUN: Final = (Stage.RUNNING, Stage.DONE, Stage.BROKEN)
ENDS: Final = (Verdict.FAIL, Verdict.RELEASE, Verdict.DROP)
ANSWERED: Final = (Status.SERVED, Status.REFUSED)

LEMMAS: Final = (
    Always("a_lost_rank_leaves_all", implies(lost(peer), gone(peer, r)),
           why="when a rank dies, all its connections close"),
    Always("a_rank_that_left_is_lost", implies(gone(peer, r), lost(peer)),
           why="when a rank dies, all its connections close"),
    Always("an_ended_rank_lost_one",
           implies(health(r) == Health.DOWN, exists(peer, lost(peer))),
           why="the rank has died itself, or follows one that has"),
    Always("an_ended_rank_has_closed_all",
           implies(health(r) == Health.DOWN, stage(r, h) == Stage.CLOSED),
           why="a rank without its group keeps nothing"),
    Always("an_ended_group_lost_one", implies(group() == Health.DOWN, exists(peer, lost(peer))),
           why="the entry acts on a closed connection"),
    Always("requests_are_open", implies(request(r, h), status(h) != Status.NEW),
           why="the entry sends the request to the ranks when it opens it"),
    Always("a_new_request_is_on_no_rank",
           implies(status(h) == Status.NEW, stage(r, h).among(Stage.ABSENT, Stage.CLOSED)),
           why="a request reaches the ranks only through the entry"),
    Always("taken_is_admitted",
           implies(taken(m) & (group() == Health.UP),
                   exists(h, granted(h, m) & (status(h) == Status.ADMITTED))),
           why="the slot is given back with the answer"),
    Always("admitted_is_granted",
           implies(status(h) == Status.ADMITTED, exists(m, granted(h, m))),
           why="a slot is granted with the admission"),
    Always("admitted_is_logged",
           implies(status(h) == Status.ADMITTED, exists(n, log(n, h) == Verdict.ADMIT)),
           why="only a decision admits it"),
    Always("logged_admission_is_granted",
           implies(log(n, h) == Verdict.ADMIT, exists(m, granted(h, m))),
           why="a slot is granted with the admission"),
    Always("numbered_is_logged", implies(numbered(n), exists(h, log(n, h) != Verdict.NONE)),
           why="a number is taken with its decision"),
    Always("answered_is_logged",
           implies(status(h).among(*ANSWERED) & (group() == Health.UP),
                   exists(n, log(n, h).among(*ENDS))),
           why="while the group lives, a decision answers"),
    Always("closed_is_answered",
           implies(all_of(health(r) == Health.UP, stage(r, h) == Stage.CLOSED),
                   status(h).among(*ANSWERED)),
           why="a living rank closes only requests that the entry has answered"),
    Always("closed_has_applied_all",
           implies(all_of(health(r) == Health.UP, stage(r, h) == Stage.CLOSED,
                          log(n, h) != Verdict.NONE), applied(r, n)),
           why="the last decision about a request closes it"),
    Always("begun_has_applied_its_admission",
           implies(all_of(stage(r, h).among(*BEGUN), log(n, h) == Verdict.ADMIT), applied(r, n)),
           why="a rank begins with the admission that it applies"),
    Always("closing_is_closed", implies(closed(r, h), stage(r, h) == Stage.CLOSED),
           why="a rank confirms when it closes a request"),
    Always("confirmed_is_closed", implies(confirmed(r, h), stage(r, h) == Stage.CLOSED),
           why="the entry records a rank's confirmation"),
)

MONOTONE: Final[tuple[Monotone, ...]] = ()

_OF_DECIDED: Final = {r: behind, n: missing, h: decided}
_OF_ADMITTED: Final = {**_OF_DECIDED, m: given}
_OF_OPEN: Final = {r: silent, h: opening}
_OF_SERVING: Final = {r: unended, h: serving}
_WITNESSES: Final = (
    Witness(missing, all_of(health(behind) == Health.UP, numbered(missing),
                            ~applied(behind, missing))),
    Witness(decided, log(missing, decided) != Verdict.NONE),
    Witness(given, granted(decided, given)),
    Witness(following, ~numbered(following)),
    Witness(serving, status(serving) == Status.ADMITTED),
    Witness(held, granted(serving, held)),
    Witness(unended, ~done(unended, serving) & ~broke(unended, serving)),
    Witness(broken, broke(broken, serving)),
    Witness(opening, status(opening) == Status.OPEN),
    Witness(silent, ~ready(silent, opening)),
    Witness(spare, ~taken(spare)),
    Witness(occupied, taken(occupied)),
    Witness(departed, lost(departed)),
    Witness(remaining, health(remaining) == Health.UP),
)
_HELPERS: Final = (
    # A group that lacks a rank ends.
    Help("end", at={r: departed}), Help("follow", at={peer: departed, r: remaining}),
    Help("answer_lost", at={h: opening}), Help("answer_lost", at={h: serving}),
    # A request reaches every rank, and every rank votes.
    Help("arrive", at=_OF_OPEN), Help("submit_again", ~request(r, h), _OF_OPEN),
    Help("give_up", at=_OF_OPEN), Help("vote_ready_again", ~ready(r, h), _OF_OPEN),
    Help("vote_dead_again", ~dead(r, h), _OF_OPEN),
    Help("decide_fail", at={r: silent, n: following, h: opening}),
    Help("decide_admit", at={n: following, h: opening, m: spare}),
    # A rank that lags applies the first decision that it lacks.
    Help("admit_again", ~admit(r, n, h, m), _OF_ADMITTED),
    Help("start", at=_OF_ADMITTED), Help("start_dead", at=_OF_ADMITTED),
    Help("fail_again", ~fail(r, n, h), _OF_DECIDED),
    Help("drain", at=_OF_DECIDED), Help("turn_away", at=_OF_DECIDED),
    Help("release_again", ~release(r, n, h), _OF_DECIDED), Help("free", at=_OF_DECIDED),
    Help("drop_again", ~drop(r, n, h), _OF_DECIDED), Help("free_broken", at=_OF_DECIDED),
    # An admitted request ends.
    Help("cut_off", at=_OF_SERVING), Help("vote_done_again", ~done(r, h), _OF_SERVING),
    Help("vote_broke_again", ~broke(r, h), _OF_SERVING),
    Help("decide_release", at={n: following, h: serving, m: held}),
    Help("decide_drop", at={r: broken, n: following, h: serving, m: held}),
)
# The entry learns of an end that it has decided.
_CONFIRMED: Final = (
    Help("confirm"),
    Help("fail_again", ~fail(r, n, h), {n: ending}),
    Help("confirm_fail", ~closed(r, h), {n: ending}),
    Help("release_again", ~release(r, n, h), {n: ending}),
    Help("confirm_release", ~closed(r, h), {n: ending}),
    Help("drop_again", ~drop(r, n, h), {n: ending}),
    Help("confirm_drop", ~closed(r, h), {n: ending}),
)
_USING: Final = (
    Use("an_ended_rank_lost_one"), Use("an_ended_group_lost_one"),
    Use("taken_is_admitted", {m: occupied}),
    Use("admitted_is_granted", {h: serving}), Use("admitted_is_logged", {h: serving}),
    Use("logged_admission_is_granted", {n: missing, h: decided}),
    Use("numbered_is_logged", {n: missing}),
)
_NUMBERS: Final = {"numbers_do_not_run_out": exists(n, ~numbered(n))}


def _ranking(
    leads_to: str, why: str, *, pending: Formula | None = None,
    answered: Life = h, witnesses: tuple[Witness, ...] = (), helpers: tuple[Help, ...] = (),
) -> Ranking:
    """The helpers are the same, because a waiting request waits for the whole group.

    answered: the request that has its answer already. witnesses, helpers: further ones.
    """
    return Ranking(
        leads_to, (*_HELPERS, *helpers), pending,
        witnesses=(*_WITNESSES, *witnesses),
        using=(*_USING, Use("answered_is_logged", {h: answered})),
        assumed=_NUMBERS, why=why,
    )


RANKINGS: Final = (
    _ranking("L1_every_request_is_answered", "every rank votes, or the group ends"),
    _ranking("M4_2_failure_drains_everywhere", "every rank closes an answered request",
             pending=status(h) != Status.NEW),
    _ranking("L3_no_orphan", "every rank closes an answered request"),
    _ranking("L4_slots_come_back", "every admitted request ends, and gives its slot back",
             answered=kept, witnesses=(Witness(keeper, slot(keeper, kept, grip)),)),
    _ranking("L4_the_entry_may_forget", "a decision is repeated until its end is confirmed",
             witnesses=(Witness(ending, log(ending, h).among(*ENDS)),), helpers=_CONFIRMED),
)

# A rank that a request has not reached, one that has not confirmed its end, and its slot.
unreached, unconfirmed, own = Rank("unreached"), Rank("unconfirmed"), Slot("own")

_FOLLOWING: Final = Witness(following, ~numbered(following))
_DECIDES: Final[Mapping[Sort, Sort]] = {n: following}
_REACHES: Final = (
    Help("end", at={r: departed}), Help("follow", at={peer: departed, r: remaining}),
    *(Help(row, at=_OF_ADMITTED) for row in ("start", "start_dead")),
    *(Help(row, at=_OF_DECIDED) for row in ("drain", "turn_away", "free", "free_broken")),
    Help("confirm", at={r: unconfirmed}),
)


def _sent(name: str, verdict: Verdict, message: Formula) -> Always:
    return Always(name, implies(log(n, h) == verdict, message),
                  why="the entry sends a decision to every rank when it makes it")


# These follow from messages alone: nothing replaces a lost message.
FAULT_FREE: Final = FaultFree(
    ("lossy",),
    lemmas=(
        Always("an_opened_request_is_asked_of_every_rank",
               implies(status(h) != Status.NEW, request(r, h)),
               why="the entry sends the request to every rank when it opens it"),
        Always("a_failure_is_said", implies(stage(r, h) == Stage.FAILED, dead(r, h)),
               why="a rank votes when it fails"),
        Always("a_ready_rank_says_so", implies(stage(r, h) == Stage.READY, ready(r, h)),
               why="a rank votes when it is ready"),
        Always("a_done_rank_says_so", implies(stage(r, h) == Stage.DONE, done(r, h)),
               why="a rank votes when its part ends"),
        Always("a_broken_rank_says_so", implies(stage(r, h) == Stage.BROKEN, broke(r, h)),
               why="a rank votes when its part ends"),
        Always("a_closed_rank_says_so",
               implies(all_of(health(r) == Health.UP, stage(r, h) == Stage.CLOSED), closed(r, h)),
               why="a rank confirms when it closes a request, or ends with its group"),
        Always("an_ended_part_was_admitted",
               implies(done(r, h) | broke(r, h), ~status(h).among(Status.NEW, Status.OPEN)),
               why="a rank takes part only in admitted requests"),
        Always("an_admission_is_sent",
               implies(all_of(log(n, h) == Verdict.ADMIT, granted(h, m)), admit(r, n, h, m)),
               why="the entry sends a decision to every rank when it makes it"),
        _sent("a_failure_is_sent", Verdict.FAIL, fail(r, n, h)),
        _sent("a_release_is_sent", Verdict.RELEASE, release(r, n, h)),
        _sent("a_drop_is_sent", Verdict.DROP, drop(r, n, h)),
    ),
    rankings=(
        Ranking("a_request_reaches_every_rank", (Help("arrive", at={r: unreached}),),
                witnesses=(Witness(unreached, stage(unreached, h) == Stage.ABSENT),),
                why="the request is under way to every rank"),
        Ranking("L2_a_failure_is_decided",
                (Help("decide_fail", at=_DECIDES), Help("answer_lost")), pending=dead(r, h),
                witnesses=(_FOLLOWING,), assumed=_NUMBERS, why="the rank's vote is under way"),
        Ranking("L2_readiness_is_decided",
                (Help("decide_admit", at=_DECIDES), Help("answer_lost")),
                pending=forall(r, ready(r, h)), witnesses=(_FOLLOWING,), assumed=_NUMBERS,
                why="all votes are under way"),
        Ranking("L2_an_end_is_decided",
                (Help("decide_release", at={**_DECIDES, m: own}),
                 Help("decide_drop", at={**_DECIDES, r: broken, m: own}), Help("answer_lost")),
                pending=forall(r, done(r, h) | broke(r, h)),
                witnesses=(_FOLLOWING, Witness(own, granted(h, own)),
                           Witness(broken, broke(broken, h))),
                using=(Use("admitted_is_granted", {h: h}),),
                assumed=_NUMBERS, why="all votes are under way"),
        Ranking("L2_a_decision_reaches_all", _REACHES,
                witnesses=(*_WITNESSES, Witness(unconfirmed, ~confirmed(unconfirmed, h))),
                using=(*_USING, Use("answered_is_logged", {h: h})),
                why=
                "each rank applies the decisions that it lacks, in turn, and confirms the last"),
    ),
)
