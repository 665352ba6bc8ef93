"""Claim: a write lands only in memory leased to its own life, what is committed is whole, and
DRAINED means quiescent, however many sources, sinks, lives, chunks and pages, in any topology.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/transfer_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: a finished fence keeps writes out (rule 2 of
spec/handoff/engine.py); a detector of dead processes is right.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a sink that frees its
lease as it aborts.
"""

import pytest

from tests.prove import standing

SYSTEM = "transfer"


def test_it_holds_for_all_sizes() -> None:
    standing.is_proved(SYSTEM)


def test_it_is_about_something() -> None:
    standing.is_about_something(SYSTEM)


@pytest.mark.slow
def test_no_lemma_is_idle() -> None:
    standing.has_no_idle_lemma(SYSTEM)


def test_a_defect_is_noticed() -> None:
    standing.is_refuted(SYSTEM, standing.defect("B22"), "abort_receive")
