"""Attempts that a group decides: sizes, verdicts, the need of each row, and the defects."""

from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.group_attempts import BUGS, CRASHING, ONE
from pdproto.spec.handoff.group import Rank
from pdproto.spec.handoff.optimistic_group import SYSTEM
from pdproto.spec.language import (
    Always,
    Configuration,
    OnRow,
)
from proofs.draining import without
from tests.handoff.exploring import explored, failing, judged
from tests.tiers import sampled


def test_every_row_fires_and_no_premise_is_empty() -> None:
    found = explored(SYSTEM.name)
    assert found.rows_never_fired == ()
    assert [f.name for f in found.findings if "vacuous" in f.note] == []


@pytest.mark.nightly
def test_three_ranks_run_alike() -> None:
    sizes = {**SYSTEM.configurations["default"].sizes, Rank: 3}
    safety = tuple(c.name for c in SYSTEM.properties if isinstance(c, Always | OnRow))
    three = Configuration(sizes, symmetry=True, dead_bits=True)
    found = check(SYSTEM, three, CheckSettings(properties=safety))
    assert found.complete
    assert failing(found) == []


TRACE_LENGTHS: Final = {
    "B07-attempts": 11,
    "O5-dice": 11,
    "O5-later": 24,
    "B06-attempts": 5,
    "B36-attempts": 5,
    "early-yield": 7,
    "report-once": 19,
    "decision-once": 4,
    "B38-attempts": 4,
}


@pytest.mark.parametrize("bug", BUGS, ids=[bug.id for bug in BUGS])
def test_the_defect_is_refuted(bug: Bug) -> None:
    found = judged(bug.system, bug.violates, bug.configuration)
    assert found.verdict is Verdict.VIOLATED
    assert found.trace_length == TRACE_LENGTHS[bug.id]


def test_each_defect_is_pinned_once() -> None:
    assert [bug.id for bug in BUGS] == list(TRACE_LENGTHS)


ROWS_SAMPLED: Final = 2
ANSWERED: Final = "L1_every_request_is_answered"


@pytest.mark.parametrize(("row", "broken", "configuration"), sampled([
    pytest.param("give_up", ANSWERED, ONE),
    pytest.param("force_retry", "L2_readiness_is_decided", ONE),
    pytest.param("decide_finalize", "L2_readiness_is_decided", ONE),
    pytest.param("decide_admit", "L2_readiness_is_decided", ONE),
    pytest.param("decide_fail", "L2_a_failure_is_decided", ONE),
    pytest.param("drain", "L2_a_decision_reaches_all", ONE),
    pytest.param("take_up", "L2_a_decision_reaches_all", ONE),
    pytest.param("send", "L3_no_orphan", ONE),
    pytest.param("hand_over", ANSWERED, ONE),
    pytest.param("follow", "L3_no_orphan", CRASHING),
    pytest.param("end", ANSWERED, CRASHING),
    pytest.param("answer_lost", ANSWERED, CRASHING),
], ROWS_SAMPLED, "rows of a group's attempts"))
def test_the_row_is_needed(row: str, broken: str, configuration: Configuration) -> None:
    assert judged(without(SYSTEM, row), broken, configuration).verdict is Verdict.VIOLATED
