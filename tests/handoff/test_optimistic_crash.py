"""Optimistic prefill whose servers die: sizes, verdicts, and what each detector is for."""

from typing import Final

import pytest

from pdproto.check.checking import Settings, check
from pdproto.check.lint import Severity, lint, small_sizes
from pdproto.check.result import Finding, Verdict
from pdproto.spec.handoff.optimistic_crash import CRASHING
from pdproto.spec.handoff.roles import Page
from pdproto.spec.language import Configuration, DropRow, ReplaceProperties, System, edited

# The sink has no page to offer, so it publishes nothing that the next source could answer.
SIZES: Final = {
    **CRASHING.configurations,
    "no-memory": Configuration(
        {**CRASHING.configurations["default"].sizes, Page: 0}, faults=("crash",)),
}


def judged(system: System, name: str, configuration: str) -> Finding:
    settings = Settings(properties=(name,))
    found = check(system, SIZES[configuration], settings).findings
    (finding,) = (f for f in found if f.name == name)
    return finding


@pytest.mark.parametrize(
    ("configuration", "counts", "silent"),
    [
        ("default", (682, 3_107, 20), ("run_again", "fall_back", "force_fall_back")),
        ("lives", (42_618, 335_869, 40), ("run_again",)),
    ],
)
def test_everything_holds_at_the_pinned_counts(
    configuration: str, counts: tuple[int, int, int], silent: tuple[str, ...]
) -> None:
    """Alone, a request yields to nobody; with one attempt it falls back at once."""
    found = check(CRASHING, CRASHING.configurations[configuration], Settings(keep_going=True))
    assert [f.name for f in found.findings if f.verdict is not Verdict.HOLDS] == []
    assert (found.states, found.transitions, found.depth) == counts
    assert found.rows_never_fired == silent


@pytest.mark.parametrize(
    ("row", "broken", "configuration"),
    [
        ("lose_source", "L7_a_sink_notices_a_crash", "no-memory"),
        ("lose_sink", "a_source_notices_a_crash", "default"),
        ("lose_sink", "L5_no_capacity_deadlock", "default"),
        ("lose_sink", "L4_slots_and_seats_come_back", "lives"),
    ],
)
def test_each_side_needs_its_detector(row: str, broken: str, configuration: str) -> None:
    claims = tuple(claim for claim in CRASHING.properties if claim.name == broken)
    without = edited(CRASHING, f"without-{row}", ReplaceProperties(claims), DropRow(row))
    assert judged(CRASHING, broken, configuration).verdict is Verdict.HOLDS
    assert judged(without, broken, configuration).verdict is Verdict.VIOLATED


def test_lint_finds_no_error() -> None:
    remarks = lint(CRASHING, small_sizes(CRASHING))
    assert [remark for remark in remarks if remark.severity is Severity.ERROR] == []
