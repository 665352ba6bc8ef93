"""The transfer under the group's decisions: its sizes, its verdicts, and the need of each row."""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import CheckResult, Verdict
from pdproto.spec.handoff import agreement, transfer
from pdproto.spec.handoff.ends import Sending, h, p, sending
from pdproto.spec.handoff.group import Stage, Status, r, stage, status
from pdproto.spec.handoff.group_transfer import HOST, PAIR, SYSTEM
from pdproto.spec.handoff.roles import Chunk, Source
from pdproto.spec.handoff.source import UNREAD
from pdproto.spec.language import (
    DropClause,
    DropRow,
    ReplaceProperties,
    ReplaceRow,
    System,
    edited,
)
from pdproto.spec.language.edit import RowEdit
from tests.handoff.exploring import EXPECTED, counts, failing


def judged(system: System, *properties: str) -> CheckResult:
    settings = CheckSettings(properties=properties, workers=2)
    (configuration,) = system.configurations.values()
    return check(system, configuration, settings)


def test_a_rank_that_may_die_hands_over_under_decisions() -> None:
    found = judged(SYSTEM)
    assert failing(found) == []
    assert counts(found) == EXPECTED[SYSTEM.name, "default"]
    # A spoilt chunk, and a second rank to follow, are in the parts, and in PAIR.
    assert found.rows_never_fired == ("find_spoilt", "follow")


def test_a_refusal_does_not_reach_the_sink_of_a_source_without_a_rank() -> None:
    """The proof assumes that a rank runs each source: its own part may have landed already."""
    (one,) = SYSTEM.configurations.values()
    asked = CheckSettings(properties=("L2_a_refusal_reaches_the_sink",))
    for sources, verdict in ((1, Verdict.HOLDS), (2, Verdict.VIOLATED)):
        found = check(SYSTEM, replace(one, sizes={**one.sizes, Source: sources, Chunk: 1}), asked)
        assert found.verdict is verdict


@pytest.mark.nightly
def test_two_ranks_hand_over_under_decisions() -> None:
    found = judged(PAIR)
    assert failing(found) == []
    assert [f.name for f in found.findings if "vacuous" in f.note] == []
    assert counts(found) == EXPECTED[PAIR.name, "deep"]


def test_the_rows_are_those_of_the_parts() -> None:
    """Every other row is HOST's, which replaces the calls of the parts."""
    parts = {id(row) for part in (transfer.SYSTEM, agreement.SYSTEM) for _, row in part.rows()}
    own = {id(row) for row in HOST.rows}
    assert {id(row) for table in PAIR.tables for row in table.rows} <= parts | own


(ABORT,) = (row for row in agreement.SYSTEM.tables[1].rows if row.name == "abort")
UNDECIDED: Final = status(h).among(Status.OPEN, Status.ADMITTED)
LATE: Final = replace(ABORT, when=tuple(
    UNDECIDED if clause == (status(h) == Status.OPEN) else clause for clause in ABORT.conditions
))

# Without its clause, or its row, each of these goes wrong.
NEEDED: Final[list[tuple[str, RowEdit | DropRow]]] = [
    ("S8_source_pages_are_held", DropClause("report_broken", UNREAD)),
    ("M4_1_nothing_is_sent_before_all_agree",
     DropClause("begin_transfer", stage(r, h) == Stage.RUNNING)),
    ("S14_served_means_sent", DropClause("report_done", sending(p, h) == Sending.SUCCESS)),
    ("S14_the_servers_agree", ReplaceRow("abort", LATE)),
    ("L1_every_request_is_answered", DropRow("report_broken")),
    ("L2_a_sinks_failure_is_decided", DropRow("vote_dead")),
    ("L4_source_pages_come_back", DropRow("free_pages")),
    ("L2_a_refusal_reaches_the_sink", DropRow("obey")),
    ("L4_source_pages_come_back", DropRow("end_sender")),
]


@pytest.mark.parametrize(
    ("broken", "edit"), NEEDED, ids=[f"{type(e).__name__}-{e.row}" for _, e in NEEDED]
)
def test_each_link_between_the_parts_is_needed(broken: str, edit: RowEdit | DropRow) -> None:
    claims = tuple(claim for claim in SYSTEM.properties if claim.name == broken)
    wrong = edited(SYSTEM, "unlinked", ReplaceProperties(claims), edit)
    assert failing(judged(wrong, broken)) == [broken]


def test_pages_wait_for_the_decision_of_both() -> None:
    """A rank that frees its pages when its own part has ended does so while another sends."""
    early = edited(PAIR, "early", DropClause("free_pages", stage(r, h) == Stage.CLOSED))
    assert failing(judged(early, "M4_5_no_rank_still_sends")) == ["M4_5_no_rank_still_sends"]
