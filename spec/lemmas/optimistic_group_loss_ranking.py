"""Why optimistic prefill on a group answers and ends every request while messages are lost.

As without loss (optimistic_group_ranking.py), but a decision reaches a rank, and a report the
entry, because clocks repeat them. A request that is not finalized ends by its time-out.
"""

from typing import Final

from pdproto.spec.handoff.attempts import a
from pdproto.spec.handoff.group import h, n, r
from pdproto.spec.handoff.group_attempts import OPEN, numbered, run, status, whole
from pdproto.spec.handoff.optimistic_group_history import Verdict, log, within
from pdproto.spec.handoff.optimistic_group_loss import DECISIONS, said, said_run
from pdproto.spec.language import Always, all_of, implies
from pdproto.spec.language.ranking import Help, Ranking, Witness
from pdproto.spec.lemmas.optimistic_group_loss_lemmas import NOTED
from pdproto.spec.lemmas.optimistic_group_ranking import (
    GIVE_UP,
    LOSSY,
    MONOTONE,
    NUMBERS,
    OF_DECIDED,
    OF_RUN,
    answered,
    drains,
    following,
    passing,
    reaches_all,
    unreported,
)

__all__ = ["LEMMAS", "MONOTONE", "RANKINGS"]

LEMMAS: Final = (
    *LOSSY,
    *(Always(f"a_logged_{verdict.name.lower()}_is_noted",
             implies(log(n, h) == verdict, said(n, h) == noted),
             why="the entry notes what it decides")
      for noted, verdict in NOTED),
    Always("a_logged_pass_is_noted",
           implies(all_of(log(n, h) == Verdict.RUN, within(n, a)), said_run(n, h, a)),
           why="the entry notes what it decides"),
)

_REPEATED: Final = (
    Help("run_again", ~run(r, n, h, a), OF_RUN),
    *(Help(f"{message.name}_again", ~message(r, n, h), OF_DECIDED)
      for _, message, _ in DECISIONS),
)
_REPORTED: Final = Help("whole_again", ~whole(r, h, a), {r: unreported, a: passing})


def _by_the_clock(leads_to: str) -> Ranking:
    return Ranking(
        leads_to, (GIVE_UP, Help("answer_lost")), status(h).among(*OPEN),
        witnesses=(Witness(following, ~numbered(following)),), assumed=NUMBERS,
        why="a clock ends a request that is not finalized")


RANKINGS: Final = (
    answered(*_REPEATED, _REPORTED),
    _by_the_clock("L2_readiness_is_decided"),
    Ranking(
        "L2_a_failure_is_decided", (GIVE_UP, Help("answer_lost")),
        witnesses=(Witness(following, ~numbered(following)),), assumed=NUMBERS,
        why="a clock ends a request that is not finalized"),
    reaches_all(*_REPEATED),
    drains(*_REPEATED, _REPORTED),
)
