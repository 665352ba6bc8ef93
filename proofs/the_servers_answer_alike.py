"""Claim: what a group of prefill ranks decides and what their transfers do agree: nothing is sent
before all have agreed, served means sent, decode never serves what prefill has refused while all
ranks live, and what holds of a transfer alone holds under the decisions too, however many ranks,
sinks, lives, decisions, pages and chunks.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/group_transfer_lemmas.py, each with
its reason, and those of both parts. Bound: none, on any sort. Assumes: each rank runs one sender of
its own, and each sender feeds every sink; a finished fence keeps writes out (rule 2 of
spec/handoff/engine.py). Vacuity: every row can fire in a state in which all claims hold. Mutants: a
rank that reports its part broken while its engine still reads the pages; one that sends before it
is admitted. Not covered: what comes about (liveness) is explored.
"""

import pytest

from pdproto.cli.systems import load
from pdproto.spec.handoff.group import Stage, h, k, stage
from pdproto.spec.handoff.source import UNREAD
from pdproto.spec.language import DropClause, Formula, edited
from pdproto.spec.lemmas.group_transfer_lemmas import BRIDGE
from tests.prove import standing

SYSTEM = "group-transfer"


@pytest.mark.slow
def test_it_holds_for_all_sizes() -> None:
    standing.is_wholly_proved(SYSTEM)


def test_it_is_about_something() -> None:
    standing.is_about_something(SYSTEM)


@pytest.mark.slow
def test_no_lemma_between_the_parts_is_idle() -> None:
    standing.has_no_idle_lemma_among(SYSTEM, BRIDGE)


@pytest.mark.parametrize(("row", "clause"), [
    ("report_broken", UNREAD), ("begin_transfer", stage(k, h) == Stage.RUNNING),
])
def test_a_defect_is_noticed(row: str, clause: Formula) -> None:
    standing.is_refuted(SYSTEM, edited(load(SYSTEM), "defect", DropClause(row, clause)), row)
