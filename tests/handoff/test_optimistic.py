"""Optimistic prefill: its sizes, its verdicts, its defects, and the need of its timers."""

from typing import Final

import pytest

from pdproto.check.result import Verdict
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.optimistic import BUGS
from pdproto.spec.handoff.optimistic import (
    LOSS,
    NO_TIMEOUTS,
    ONE_ATTEMPT,
    ONE_SIDED,
    SYSTEM,
)
from pdproto.spec.language import System
from proofs.draining import without
from tests.handoff.exploring import explored, judged, name_of


def test_no_premise_is_empty() -> None:
    assert [f.name for f in explored(SYSTEM.name).findings if "vacuous" in f.note] == []


def test_every_row_fires_somewhere() -> None:
    """A fall-back by force needs a budget of one attempt, and a retry by need one of two."""
    assert explored(SYSTEM.name).rows_never_fired == ("force_fall_back",)
    assert explored(ONE_ATTEMPT.name).rows_never_fired == ("run_again",)


TRACE_LENGTHS: Final = {
    "B03": 12,
    "B32": 12,
    "B32-slots": 12,
    "B32-seats": 13,
    "B32-budget": 13,
    "B32-slot-kept": 10,
    "B32-slot-leak": 4,
    "B36-optimistic": 5,
    "O1": 7,
    "O2": 8,
    "O2-slot": 4,
    "O5": 13,
    "O5-endless": 14,
    "O6": 2,
    "O6-forced": 10,
}


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_the_defect_is_refuted(bug: Bug) -> None:
    found = judged(bug.system, bug.violates, bug.configuration)
    assert found.verdict is Verdict.VIOLATED
    assert found.trace_length == TRACE_LENGTHS[bug.id]


def test_each_defect_is_pinned_once() -> None:
    assert [bug.id for bug in BUGS] == list(TRACE_LENGTHS)


PREFILL_ENDS: Final = "L5_no_capacity_deadlock"
SINK_ENDS: Final = "L1_a_sink_ends"
HELD: Final = "L4_slots_and_running_slots_come_back"

# Repeated messages, clocks, and steps that release: each is needed for this property.
NEEDED: Final[list[tuple[str, System, str]]] = [
    ("give_up_waiting", LOSS, PREFILL_ENDS),
    ("give_up_waiting", ONE_SIDED, PREFILL_ENDS),
    ("give_up_transfer", ONE_SIDED, SINK_ENDS),
    ("publish_again", NO_TIMEOUTS, SINK_ENDS),
    ("done_again", NO_TIMEOUTS, SINK_ENDS),
    ("refuse", NO_TIMEOUTS, SINK_ENDS),
    ("stop", SYSTEM, PREFILL_ENDS),
    ("hear_failure", SYSTEM, SINK_ENDS),
    ("release", SYSTEM, HELD),
    ("run_again", SYSTEM, PREFILL_ENDS),
    ("fall_back", SYSTEM, PREFILL_ENDS),
    ("force_retry", SYSTEM, PREFILL_ENDS),
    ("force_fall_back", ONE_ATTEMPT, PREFILL_ENDS),
    ("finish", SYSTEM, "L4_pages_come_back"),
]


@pytest.mark.parametrize(("row", "system", "broken"), NEEDED, ids=name_of)
def test_liveness_needs_the_row(row: str, system: System, broken: str) -> None:
    found = judged(without(system, row), broken, system.configurations["default"])
    assert found.verdict is Verdict.VIOLATED
