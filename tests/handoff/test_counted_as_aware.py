"""A source counts as aware of a failure only by its own answer, also beside another source."""

from dataclasses import replace

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Finding, Verdict
from pdproto.spec.handoff.ends import aware, d, h
from pdproto.spec.handoff.roles import Source
from pdproto.spec.handoff.transfer_told import TOLD
from pdproto.spec.language import ANY, Configuration, ReplaceRow, System, edited

NAME = "a_source_that_counts_as_aware_has_ended"


def counts_all(row: str) -> System:
    """The answer of one source is counted for all of them."""
    found = TOLD.row(row)
    assert found is not None
    return edited(TOLD, "counts-all", ReplaceRow(row, replace(
        found[1], do=(aware(d, h, ANY).to(True),))))


def asked(system: System) -> Finding:
    """With two sources, and no faults."""
    chosen = Configuration({**TOLD.configurations["default"].sizes, Source: 2}, symmetry=True,
                           dead_bits=True)
    (found,) = check(system, chosen, CheckSettings(properties=(NAME,))).findings
    return found


@pytest.mark.parametrize(("row", "steps"), [("note_aware_by_drain", 9), ("note_aware", 7)])
def test_two_sources_are_told_apart(row: str, steps: int) -> None:
    assert asked(TOLD).verdict is Verdict.HOLDS
    found = asked(counts_all(row))
    assert (found.verdict, found.trace_length) == (Verdict.VIOLATED, steps)
