"""Claim: a transfer is begun with the run of each rank that the sink has looked up and met, and
with no other: a failed look-up begins none, no other run takes a life over, and what holds of a
transfer alone holds behind a bootstrap too, however many ranks, runs, sinks, pages and chunks.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/complete_bootstrap_lemmas.py, each
with its reason, and those of both parts.
Bound: one life, as `crash` ends the one that a process holds; none on any other sort. Assumes: who
is found gone is gone; a finished fence keeps writes out (rule 2 of spec/handoff/engine.py).
Vacuity: every row can fire in a state in which all claims hold. Mutants: a run that welcomes who
means another one; a sink that opens its receiver before every rank has welcomed it.
Not covered: what comes about (liveness) is explored.
"""

import pytest

from pdproto.check.prove.examination import idle_lemmas, impossible_rows
from pdproto.check.prove.proving import Settings, prove
from pdproto.cli.prove import subject
from pdproto.spec.handoff.bootstrap import Phase, d, e, f, h
from pdproto.spec.handoff.complete_bootstrap import phase
from pdproto.spec.language import DropClause, Formula, edited
from pdproto.spec.lemmas.complete_bootstrap_lemmas import BRIDGE
from tests.prove.standing import LIMIT_S, is_refuted, unproved

BOOTED = subject("complete-bootstrap")


@pytest.mark.slow
def test_it_holds_for_all_sizes() -> None:
    settings = Settings(engines=("cutoff",), timeout_s=LIMIT_S, workers=2)
    assert unproved(prove(BOOTED.system, BOOTED.obligations(), settings)) == []


def test_it_is_about_something() -> None:
    assert list(impossible_rows(BOOTED.system, BOOTED.claims, LIMIT_S)) == []


@pytest.mark.slow
def test_no_lemma_between_the_parts_is_idle() -> None:
    idle = idle_lemmas(BOOTED.system, BOOTED.claims, BOOTED.obligations(), LIMIT_S)
    assert not {lemma.name for lemma in BRIDGE} & set(idle)


@pytest.mark.parametrize(("row", "clause"), [
    ("accept", f.same(e)), ("open_receiver", phase(d, h) == Phase.WAITING_FOR_INPUT),
])
def test_a_defect_is_noticed(row: str, clause: Formula) -> None:
    is_refuted(
        "complete-bootstrap", edited(BOOTED.system, "defect", DropClause(row, clause)), row)
