"""A group of sinks with the transfer: its sizes, its verdicts, and the need of each row."""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import CheckResult, Verdict
from pdproto.spec.bugs.sink_group import ONE
from pdproto.spec.handoff import agreement, transfer
from pdproto.spec.handoff.ends import Receiving, d, h, receiving
from pdproto.spec.handoff.group import Stage, r, stage
from pdproto.spec.handoff.roles import Chunk
from pdproto.spec.handoff.sink import NO_CLAIM
from pdproto.spec.handoff.sink_group import HOST, LOSS, PAIR, SYSTEM
from pdproto.spec.language import DropClause, DropRow, LeadsTo, ReplaceProperties, System, edited
from pdproto.spec.language.edit import RowEdit
from pdproto.spec.language.system import DEEP
from tests.handoff.exploring import EXPECTED, counts, explored, failing


def judged(system: System, *properties: str) -> CheckResult:
    return check(system, ONE, CheckSettings(properties=properties))


def test_a_rank_that_may_die_receives_under_decisions() -> None:
    found = explored(SYSTEM.name)
    assert failing(found) == []
    assert counts(found) == EXPECTED[SYSTEM.name, "default"]
    # More chunks, a source that dies, and a second rank to follow are elsewhere.
    assert found.rows_never_fired == (
        "send_more", "give_up_sending", "disown_meeting", "disown_address", "disown_abort",
        "lose_source", "note_gone", "fence_lost", "follow")


def test_a_source_learns_of_a_dead_sink_by_a_write_or_a_clock() -> None:
    """The proof that a refusal reaches it assumes that the caller hands every chunk over."""
    one = SYSTEM.configurations["default"]
    asked = CheckSettings(properties=("L2_a_refusal_reaches_every_source",))
    for chunks, verdict in ((1, Verdict.HOLDS), (2, Verdict.VIOLATED)):
        found = check(SYSTEM, replace(one, sizes={**one.sizes, Chunk: chunks}), asked)
        assert found.verdict is verdict


@pytest.mark.nightly
@pytest.mark.parametrize("system", [PAIR, LOSS], ids=lambda system: system.name)
def test_two_ranks_receive_under_decisions(system: System) -> None:
    found = explored(system.name, DEEP)
    assert failing(found) == []
    assert counts(found) == EXPECTED[system.name, DEEP]


def test_the_rows_are_those_of_the_parts() -> None:
    """Every other row is HOST's, which replaces the calls of the parts."""
    parts = {id(row) for part in (transfer.DIRECT, agreement.SYSTEM) for _, row in part.rows()}
    own = {id(row) for row in HOST.rows}
    assert {id(row) for table in PAIR.tables for row in table.rows} <= parts | own


# Without its clause, or its row, each of these goes wrong.
NEEDED: Final[list[tuple[str, RowEdit | DropRow]]] = [
    ("M4_5_no_page_is_free_while_a_write_to_it_is_possible", DropClause("report_broken", NO_CLAIM)),
    ("M4_1_nothing_is_published_before_all_agree",
     DropClause("publish_pages", stage(r, h) == Stage.RUNNING)),
    ("S14_no_rank_commits_while_another_fails",
     DropClause("report_done", receiving(d, h) == Receiving.SUCCESS)),
    ("S14_served_means_complete",
     DropClause("report_done", receiving(d, h) == Receiving.SUCCESS)),
    ("L1_every_request_is_answered", DropRow("report_broken")),
    ("L2_a_sinks_failure_is_decided", DropRow("vote_dead")),
    ("L4_every_chunk_comes_back", DropRow("free_pages")),
    ("L2_a_refusal_reaches_every_sink", DropRow("obey")),
]


@pytest.mark.parametrize(
    ("broken", "edit"), NEEDED, ids=[f"{name[:5]}-{edit.row}" for name, edit in NEEDED])
def test_each_link_between_the_parts_is_needed(broken: str, edit: RowEdit | DropRow) -> None:
    claims = tuple(claim for claim in SYSTEM.properties if claim.name == broken)
    wrong = edited(SYSTEM, "unlinked", ReplaceProperties(claims), edit)
    assert failing(judged(wrong, broken)) == [broken]


def test_only_claims_about_the_pages_of_the_group_notice_an_early_report() -> None:
    """No safety property of the agreement, and none of an end of the transfer, sees it."""
    safe = tuple(claim for claim in SYSTEM.properties if not isinstance(claim, LeadsTo))
    early = edited(SYSTEM, "early", ReplaceProperties(safe), DropClause("report_broken", NO_CLAIM))
    assert failing(check(early, ONE, CheckSettings(keep_going=True))) == [
        "S1_writes_stay_in_own_memory", "M4_5_no_page_is_free_while_a_write_to_it_is_possible"]
