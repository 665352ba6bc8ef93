"""The abort of one hand-over by itself: its properties, its size, and the need of each wait."""

import pytest

from pdproto.check.result import Verdict
from pdproto.spec.handoff.abort import SYSTEM
from pdproto.spec.language import DropClause, edited
from tests.handoff.exploring import EXPECTED, counts, explored, failing, judged, lint_errors

NAME = "pdproto.spec.handoff.abort:SYSTEM"


def test_everything_holds_at_the_expected_counts() -> None:
    found = explored(NAME)
    assert failing(found) == []
    assert counts(found) == EXPECTED[SYSTEM.name, "default"]
    assert found.rows_never_fired == ()
    assert lint_errors(SYSTEM) == []


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ("say_drained", "drained_means_quiescent"),
        ("end_lease", "a_write_lands_in_leased_memory"),
        ("land", "a_write_lands_in_leased_memory"),
    ],
)
def test_each_wait_is_needed(row: str, broken: str) -> None:
    """Without its last condition the row fires too early."""
    found = SYSTEM.row(row)
    assert found is not None
    hasty = edited(SYSTEM, f"hasty-{row}", DropClause(row, found[1].conditions[-1]))
    finding = judged(hasty, broken, SYSTEM.configurations["default"])
    assert finding.verdict is Verdict.VIOLATED
