"""Defects of prefill before its bootstrap, as edits of its tables.

Most of them keep every safety property: two requests wait for each other for ever. A defect without
a report removes an assertion or a silent assumption of the code that its source names.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.attempts import (
    AT_REST,
    FINALIZED,
    FREE_SLOT,
    NEXT_ATTEMPT,
    NO_ATTEMPT_LEFT,
    PREFILL,
    SLOT_IS_FREE,
    UNSENT,
    WANTS_RUNNING_SLOT,
    WANTS_SLOT,
    WITHOUT_LINK,
    RunningSlot,
    Stage,
    a,
    h,
    other,
    retried,
    stage,
    tried,
)
from pdproto.spec.handoff.optimistic import (
    KEEPING,
    KEPT,
    LIVENESS,
    ONE_ATTEMPT,
    SYSTEM,
)
from pdproto.spec.handoff.optimistic_retracted import RETRACTED, retracted
from pdproto.spec.handoff.roles import Attempt, Life, Page, Slot
from pdproto.spec.language import (
    AddClause,
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    Formula,
    ReplaceProperties,
    ReplaceRow,
    edited,
    forall,
)

ONE: Final = Configuration({Life: 1, Slot: 1, RunningSlot: 1, Page: 1, Attempt: 2}, dead_bits=True)
SCARCE: Final = Configuration(
    {Life: 2, Slot: 1, RunningSlot: 1, Page: 1, Attempt: 1}, symmetry=True, dead_bits=True)
TWO_ATTEMPTS: Final = replace(SCARCE, sizes={**SCARCE.sizes, Attempt: 2})
TWO_PAGES: Final = replace(SCARCE, sizes={**SCARCE.sizes, Page: 2})
TWO_SLOTS: Final = replace(SCARCE, sizes={**SCARCE.sizes, Slot: 2})
TWO_SEATS: Final = replace(SCARCE, sizes={**SCARCE.sizes, RunningSlot: 2})

STUCK: Final = "L5_no_capacity_deadlock"
LEAK: Final = "L4_slots_and_running_slots_come_back"



def _yielding_only_when(lacking: Formula) -> tuple[ReplaceRow, ReplaceRow]:
    """The two rows that yield, with only this condition."""
    return (
        ReplaceRow("run_again", replace(
            PREFILL.row("run_again"), when=(*WITHOUT_LINK, lacking, NEXT_ATTEMPT))),
        ReplaceRow("fall_back", replace(
            PREFILL.row("fall_back"), when=(*WITHOUT_LINK, lacking, NO_ATTEMPT_LEFT))),
    )


CAPACITY: Final = (
    Bug("B03", "sglang #26780, found in review",
        "Requests with a finished bootstrap starved behind one that found no metadata slot.",
        edited(KEEPING, "B03", AddClause("resume", forall(other, stage(other) != Stage.QUEUED))),
        TWO_PAGES, STUCK,
        note="the scan stops at the first request that finds no slot, and should skip it"),
    Bug("B32", "sglang #31473",
        "Prefill was full of parked requests whose sinks waited for requests that could not run.",
        edited(SYSTEM, "B32", ReplaceProperties(LIVENESS),
               DropRow("run_again"), DropRow("fall_back")),
        SCARCE, STUCK, note="no request yields"),
    Bug("B32-slots", "sglang, from the code of 0.5.23",
        "The same with fewer slots than rows: only a lack of rows made a request yield.",
        edited(SYSTEM, "B32-slots", *_yielding_only_when(WANTS_RUNNING_SLOT)),
        TWO_SEATS, STUCK, note="a request with a bootstrap is queued, and finds no slot"),
    Bug("B32-seats", "sglang #31473",
        "The same with fewer rows than slots: only a lack of slots made a request yield.",
        edited(SYSTEM, "B32-seats", *_yielding_only_when(WANTS_SLOT)),
        TWO_SLOTS, STUCK, note="a request with a bootstrap waits, and finds no row"),
    Bug("B32-budget", "sglang #31075",
        "A parked request was put back into the queue for ever.",
        edited(SYSTEM, "B32-budget", DropEffect("run_again", tried(h, a).to(True))),
        TWO_ATTEMPTS, STUCK, note="its passes are not counted"),
    Bug("B32-slot-kept", "sglang #26780, as it was merged",
        "A request that had used its attempts kept the slot that another request needed.",
        edited(SYSTEM, "B32-slot-kept", *KEPT), SCARCE, STUCK,
        note="harmless only while decode has a page for each request"),
    Bug("B32-slot-leak", "no report; an assumption of sglang 0.5.23",
        "Metadata slots of aborted requests never came back.",
        edited(SYSTEM, "B32-slot-leak", DropEffect("release", FREE_SLOT)),
        ONE, LEAK, note="progress needs every way to end to give the slot back"),
)

ORDER: Final = (
    Bug("B36-optimistic", "sglang #36926, #34149",
        "An abort during an overlapped chunk freed KV while the launched batch went on writing it.",
        edited(SYSTEM, "B36-optimistic", DropClause("release", AT_REST)),
        ONE, "S8_kv_is_held_while_the_first_chunk_is_computed"),
    Bug("O1", "no report; an assertion of sglang 0.5.23",
        "KV was sent for a request whose bootstrap had not been finalized.",
        edited(SYSTEM, "O1", DropClause("send", FINALIZED)),
        ONE, "S11_no_send_before_finalize"),
    Bug("O2", "no report; an assertion of sglang 0.5.23",
        "A pass was finalized twice, and the second began to send from the wrong chunk.",
        edited(SYSTEM, "O2", DropClause("finalize", UNSENT)),
        ONE, "M5_3_finalized_once_and_surely"),
    Bug("O2-slot", "no report; an assumption of sglang 0.5.23",
        "Two requests got one metadata slot.",
        edited(SYSTEM, "O2-slot", DropClause("reserve_early", SLOT_IS_FREE)),
        SCARCE, "S6_slot_has_one_owner"),
    Bug("O5", "no report; the test hook of sglang #26780",
        "A forced retry was forced on every attempt, and the request never ended.",
        edited(SYSTEM, "O5", *(
            DropEffect(row, retried(h).to(True))
            for row in ("run_again", "fall_back", "force_retry", "force_fall_back"))),
        SYSTEM.configurations["attempts"], "M5_5_forced_on_the_first_pass_only"),
    Bug("O5-endless", "no report; the test hook of sglang #26780",
        "With one attempt a request that was forced to fall back was forced again, for ever.",
        edited(ONE_ATTEMPT, "O5-endless", DropEffect("force_fall_back", retried(h).to(True))),
        ONE_ATTEMPT.configurations["default"], STUCK,
        note="the number of attempts does not show whether it is the first pass"),
    Bug("O6", "no report; a condition of sglang #26780",
        "A request that was retracted for lack of memory ran again before its bootstrap.",
        edited(RETRACTED, "O6", DropClause("reserve_early", ~retracted(h))),
        ONE, "M5_1_a_retracted_request_waits_for_its_bootstrap"),
    Bug("O6-forced", "no report; a condition of sglang #26780",
        "A test forced a retracted request to run again: its first pass was long over.",
        edited(RETRACTED, "O6-forced", DropEffect("submit_retracted", retried(h).to(True))),
        ONE, "M5_1_a_retracted_request_runs_once"),
)

BUGS: Final[tuple[Bug, ...]] = CAPACITY + ORDER
