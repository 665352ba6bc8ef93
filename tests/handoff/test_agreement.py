"""Ranks that decide alike: sizes, verdicts, the need of each timer, and historical defects."""

from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.bugs.agreement import BUGS
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.agreement import LOSS, NO_TIMERS, SAFETY, SYSTEM, TWO_LIVES
from pdproto.spec.handoff.group import Decision, Rank, closed, h, r
from pdproto.spec.handoff.roles import Life, Slot
from pdproto.spec.handoff.two_pass import LOCAL_DRAIN, NO_SECOND_LOOK, TWO_PASS
from pdproto.spec.language import Configuration, DropEffect, Fairness, System, edited
from proofs.draining import without
from tests.handoff.exploring import EXPECTED, counts, explored, failing, judged, lint_errors

SAFE: Final = tuple(claim.name for claim in (*SAFETY, *TWO_LIVES))


@pytest.mark.nightly
def test_three_ranks_are_safe() -> None:
    found = check(SYSTEM, SYSTEM.configurations["deep"], CheckSettings(properties=SAFE, workers=2))
    assert failing(found) == []
    assert counts(found) == EXPECTED[SYSTEM.name, "deep"]


def test_every_row_fires() -> None:
    """A `reject` row must not fire and is not listed; losing a message is no part of the group."""
    assert explored(SYSTEM.name).rows_never_fired == ()
    assert explored(LOSS.name).rows_never_fired == ()


@pytest.mark.parametrize("system", [LOCAL_DRAIN, NO_SECOND_LOOK], ids=str)
def test_lint_finds_no_error(system: System) -> None:
    assert lint_errors(system) == []


SMALL: Final = {Rank: 2, Life: 1, Slot: 1, Decision: 2}
LOSSY: Final = Configuration(SMALL, faults=("lossy",), symmetry=True, dead_bits=True)
CRASHING: Final = Configuration(SMALL, faults=("crash",), symmetry=True, dead_bits=True)
ANSWERED: Final = "L1_every_request_is_answered"
EMPTY: Final = "L3_no_orphan"
FORGOTTEN: Final = "L4_the_entry_may_forget"
REACHES_ALL: Final = "L2_a_decision_reaches_all"


@pytest.mark.parametrize("name", [ANSWERED, EMPTY, FORGOTTEN])
def test_timers_make_up_for_loss(name: str) -> None:
    assert judged(LOSS, name, LOSSY).verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ("give_up", ANSWERED),
        ("cut_off", ANSWERED),
        ("submit_again", ANSWERED),
        ("vote_ready_again", ANSWERED),
        ("vote_dead_again", ANSWERED),
        ("vote_done_again", ANSWERED),
        ("vote_broke_again", ANSWERED),
        ("admit_again", ANSWERED),
        ("fail_again", EMPTY),
        ("release_again", EMPTY),
        ("drop_again", EMPTY),
        ("confirm_fail", FORGOTTEN),
        ("confirm_release", FORGOTTEN),
        ("confirm_drop", FORGOTTEN),
    ],
)
def test_every_timer_and_repeat_is_needed(row: str, broken: str) -> None:
    assert judged(without(LOSS, row), broken, LOSSY).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("row", "broken"), [("answer_lost", ANSWERED), ("follow", EMPTY)])
def test_a_group_without_a_rank_must_end(row: str, broken: str) -> None:
    assert judged(SYSTEM, broken, CRASHING).verdict is Verdict.HOLDS
    assert judged(without(SYSTEM, row), broken, CRASHING).verdict is Verdict.VIOLATED


def test_only_timers_end_a_wait_for_the_other_side() -> None:
    """A decision needs none, but a bootstrap or a transfer may never end by itself."""
    calm = Configuration(SMALL, symmetry=True, dead_bits=True)
    assert judged(SYSTEM, ANSWERED, calm).verdict is Verdict.HOLDS
    assert judged(SYSTEM, ANSWERED, calm, Fairness.DETECTORS).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("row", ["drain", "turn_away", "free", "free_broken"])
def test_an_end_is_confirmed_at_once(row: str) -> None:
    """Where decisions are repeated, the answer to the repeat confirms it a little later."""
    for system, verdict in ((SYSTEM, Verdict.HOLDS), (NO_TIMERS, Verdict.VIOLATED)):
        silent = edited(system, "silent", DropEffect(row, closed(r, h)))
        assert judged(silent, REACHES_ALL, CRASHING).verdict is verdict


# The length of the shortest trace to each; a loop's steps count too.
TRACES: Final = {
    "B01": 13,
    "B01-merged": 7,
    "B01-obeyed": 7,
    "B06": 11,
    "B07": 15,
    "B08": 5,
    "B11": 12,
    "B13": 6,
    "B14": 3,
    "B20": 9,
    "B36-ranks": 11,
    "B38-ranks": 10,
    "B56": 4,
    "B61": 10,
    "local-drain": 4,
    "early-decision": 9,
    "early-drop": 12,
    "local-slot": 18,
}


def test_every_defect_has_a_pinned_trace() -> None:
    assert [bug.id for bug in BUGS] == list(TRACES)


@pytest.mark.parametrize("bug", BUGS, ids=[bug.id for bug in BUGS])
def test_every_defect_is_found(bug: Bug) -> None:
    finding = judged(bug.system, bug.violates, bug.configuration)
    assert finding.verdict is Verdict.VIOLATED
    assert finding.trace is not None
    assert len(finding.trace.steps) == TRACES[bug.id]


@pytest.mark.parametrize(
    ("system", "wrong"),
    [
        (TWO_PASS, ["S5_same_queue", "S7_same_outcome", "L3_no_orphan"]),
        (LOCAL_DRAIN, ["S5_same_queue", "S7_same_outcome"]),
        (NO_SECOND_LOOK, ["S5_same_queue"]),
    ],
    ids=str,
)
def test_each_fix_of_the_two_passes_mends_one_thing(
    system: System, wrong: list[str]
) -> None:
    """A local drain leaves no orphan, obeying the lists gives one outcome; neither agrees."""
    default = system.configurations["default"]
    found = check(system, default, CheckSettings(keep_going=True))
    assert failing(found) == wrong
    assert counts(found) == EXPECTED[system.name, "default"]
    assert found.rows_never_fired == ()


def test_three_stages_go_wrong_as_two_do() -> None:
    for system in (TWO_PASS, LOCAL_DRAIN, NO_SECOND_LOOK):
        deep = system.configurations["deep"]
        assert judged(system, "S5_same_queue", deep).verdict is Verdict.VIOLATED
