"""Claim: what is sent has a destination, a slot and its KV, and no slot, running slot or page has
two owners, however many requests, slots, running slots, pages and attempts.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/optimistic_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: nothing of the network.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a send before the
bootstrap was finalized.
"""

import pytest

from tests.prove import standing

SYSTEM = "optimistic"


def test_it_holds_for_all_sizes() -> None:
    standing.is_proved(SYSTEM)


def test_it_is_about_something() -> None:
    standing.is_about_something(SYSTEM)


@pytest.mark.slow
def test_no_lemma_is_idle() -> None:
    standing.has_no_idle_lemma(SYSTEM)


def test_a_defect_is_noticed() -> None:
    standing.is_refuted(SYSTEM, standing.defect("O1"), "send")
