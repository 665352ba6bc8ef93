"""A source counts as aware of a failure only by its own answer, also beside another source."""

from dataclasses import replace

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Finding, Verdict
from pdproto.spec.handoff.ends import aware, d, h
from pdproto.spec.handoff.roles import Source
from pdproto.spec.handoff.transfer_told import TOLD
from pdproto.spec.language import ANY, Configuration, ReplaceRow, System, edited

NAME = "a_source_that_counts_as_aware_has_ended"
ROW = "note_aware_by_drain"


def counts_all() -> System:
    """Its answer to one source is counted for all of them."""
    found = TOLD.row(ROW)
    assert found is not None
    return edited(TOLD, "counts-all", ReplaceRow(ROW, replace(
        found[1], do=(aware(d, h, ANY).to(True),))))


def asked(system: System) -> Finding:
    """With two sources, and no faults."""
    chosen = Configuration({**TOLD.configurations["default"].sizes, Source: 2}, symmetry=True,
                           dead_bits=True)
    (found,) = check(system, chosen, CheckSettings(properties=(NAME,))).findings
    return found


def test_two_sources_are_told_apart() -> None:
    assert asked(TOLD).verdict is Verdict.HOLDS
    found = asked(counts_all())
    assert (found.verdict, found.trace_length) == (Verdict.VIOLATED, 9)
