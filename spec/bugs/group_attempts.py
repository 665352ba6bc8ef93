"""Defects of ranks that decide alone about an attempt, as edits of the group's tables.

sglang refuses to run prefill before its bootstrap on more than one pipeline stage. These defects
are those of its code for one stage if it ran on two, and those of its agreement on other requests.
"""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.attempts import Forward, Target, a
from pdproto.spec.handoff.group import Decision, Health, Rank, h, n, r
from pdproto.spec.handoff.group_attempts import (
    ALL_COMPUTED,
    ALL_READY,
    COMPUTING,
    RUNNING,
    TURN,
    AtEntry,
    AtRank,
    Vote,
    applied,
    finalize,
    forward,
    half,
    kv,
    link,
    rank,
    ready,
    retried,
    stage,
    status,
    vote,
    whole,
)
from pdproto.spec.handoff.optimistic_group import SYSTEM
from pdproto.spec.handoff.optimistic_group_loss import LOSS
from pdproto.spec.handoff.roles import Attempt, Life
from pdproto.spec.language import (
    AddClause,
    AddRow,
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    Row,
    all_of,
    any_of,
    edited,
    exists,
)

_SIZES: Final = {Rank: 2, Life: 1, Attempt: 2, Decision: 7}
ONE: Final = Configuration(_SIZES, symmetry=True, dead_bits=True)
CRASHING: Final = Configuration(_SIZES, faults=("crash",), symmetry=True, dead_bits=True)
LOSSY: Final = Configuration({**_SIZES, Attempt: 1, Decision: 5}, faults=("lossy",),
                             symmetry=True, dead_bits=True)

SAME_QUEUE: Final = "S5_same_decisions_same_queue"
_DROPPED: Final = (
    stage(r, h).to(AtRank.QUEUED), forward(r, h).to(Forward.NONE), kv(r, h).to(False)
)

BUGS: Final = (
    Bug("B07-attempts", "sglang #27028, and the poll between chunks of #26780",
        "A rank checked its bootstrap again, and dropped the pass that the others finalized.",
        edited(SYSTEM, "B07-attempts", AddClause("finalize", vote(r, h) == Vote.READY),
               AddRow(rank, Row(
                   "poll_again", on=finalize(r, n, h), at=Health.UP,
                   when=[*TURN, RUNNING, ~COMPUTING, vote(r, h) == Vote.DEAD],
                   do=[applied(r, n).to(True), *_DROPPED]))),
        ONE, SAME_QUEUE, note="the bootstrap had failed on this rank since the vote"),
    Bug("O5-dice", "no report; the test hook of sglang #26780",
        "Each rank drew its own random number for a forced retry, and only some ran the pass "
        "again.",
        edited(SYSTEM, "O5-dice", AddRow(rank, Row(
            "force_by_own_dice", at=Health.UP, choose=(h,),
            when=[RUNNING, forward(r, h) == Forward.WHOLE, link(r, h) == Target.PENDING],
            do=_DROPPED))),
        ONE, SAME_QUEUE, note="a random number that does not depend on the request"),
    Bug("O5-later", "no report; the test hook of sglang #26780",
        "A later pass was forced to run again too, although the sample is for the first.",
        edited(SYSTEM, "O5-later", DropEffect("force_retry", retried(h).to(True))),
        ONE, "M5_5_forced_on_the_first_pass_only"),
    Bug("B06-attempts", "sglang #26912, and the reduced poll of #26780",
        "A pass was finalized as soon as one rank had its bootstrap.",
        edited(SYSTEM, "B06-attempts", DropClause("decide_finalize", ALL_READY),
               AddClause("decide_finalize", exists(r, ready(r, h)))),
        ONE, "M5_3_finalized_once_and_surely", note="the poll is not reduced over the ranks"),
    Bug("B36-attempts", "sglang #36926, #34149",
        "An abort freed KV on one rank while its launched chunk went on writing it.",
        edited(SYSTEM, "B36-attempts", DropClause("drain", ~COMPUTING),
               DropRow("wait_before_fail")),
        ONE, "S8_kv_is_held_while_the_first_chunk_is_computed"),
    Bug("early-yield", "no report; a chunk that is launched before the slower rank has finished",
        "A pass was dropped on one rank while another was still computing a chunk of it.",
        edited(SYSTEM, "early-yield",
               DropClause("decide_to_yield", ALL_COMPUTED),
               AddClause("decide_to_yield", any_of(
                   all_of(status(h) == AtEntry.FIRST, exists(r, half(r, h, a))),
                   all_of(status(h) == AtEntry.LAST, exists(r, whole(r, h, a)))))),
        ONE, "no_rank_computes_a_dropped_pass",
        note="one rank's report counts for all ranks"),
    Bug("report-once", "pdproto itself",
        "A rank's report was lost after its pass was finalized, and the client waited for ever.",
        edited(LOSS, "report-once", DropRow("whole_again"),
               DropProperty("rule_6_an_ended_rank_does_not_whole_again")),
        LOSSY, "L1_every_request_is_answered",
        note="no clock of the entry ends a pass that is finalized"),
    Bug("decision-once", "pdproto itself",
        "The end of a request was lost on its way to one rank, which kept the request for ever.",
        edited(LOSS, "decision-once", DropRow("fail_again"),
               DropProperty("rule_6_an_ended_group_does_not_fail_again")),
        LOSSY, "L3_no_orphan"),
    Bug("B38-attempts", "sglang #28086, #28236",
        "When one rank died, the others kept the KV of passes that would never be finalized.",
        edited(SYSTEM, "B38-attempts", DropRow("follow")),
        CRASHING, "L3_no_orphan"),
)
