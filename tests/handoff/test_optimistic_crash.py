"""Optimistic prefill whose servers die: sizes, verdicts, and the need of each detector."""

from typing import Final

import pytest

from pdproto.check.result import Verdict
from pdproto.spec.handoff.optimistic_crash import CRASHING
from pdproto.spec.handoff.roles import Page
from pdproto.spec.language import Configuration
from proofs.draining import without
from tests.handoff.exploring import explored, judged

# The sink has no page to offer, so it publishes nothing that the next source could answer.
SIZES: Final = {
    **CRASHING.configurations,
    "no-memory": Configuration(
        {**CRASHING.configurations["default"].sizes, Page: 0}, faults=("crash",)),
}


@pytest.mark.parametrize(
    ("size", "silent"),
    [
        ("default", ("run_again", "fall_back", "force_fall_back")),
        ("lives", ("run_again",)),
    ],
)
def test_the_rows_that_never_fire_are_known(size: str, silent: tuple[str, ...]) -> None:
    """Alone, a request yields to no other; with one attempt it falls back at once."""
    assert explored(CRASHING.name, size).rows_never_fired == silent


@pytest.mark.parametrize(
    ("row", "broken", "configuration"),
    [
        ("lose_source", "L7_a_sink_notices_a_crash", "no-memory"),
        ("lose_sink", "a_source_notices_a_crash", "default"),
        ("lose_sink", "L5_no_capacity_deadlock", "default"),
        ("lose_sink", "L4_slots_and_running_slots_come_back", "lives"),
    ],
)
def test_each_side_needs_its_detector(row: str, broken: str, configuration: str) -> None:
    assert judged(CRASHING, broken, SIZES[configuration]).verdict is Verdict.HOLDS
    assert judged(without(CRASHING, row), broken, SIZES[configuration]).verdict is Verdict.VIOLATED
