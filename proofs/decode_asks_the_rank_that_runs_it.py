"""Claim: no room runs on one rank while decode turns to another, however many ranks and rooms.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/dp_rank_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: room modulo ranks is one rank (`modulo` relates a room to at
most one).
Vacuity: every row can fire in a state in which all claims hold. Mutant: ranks that serve what the
rule sends elsewhere.
"""

import pytest

from tests.prove import standing

SYSTEM = "dp-rank"


def test_it_holds_for_all_sizes() -> None:
    standing.is_proved(SYSTEM)


def test_it_is_about_something() -> None:
    standing.is_about_something(SYSTEM)


@pytest.mark.slow
def test_no_lemma_is_idle() -> None:
    standing.has_no_idle_lemma(SYSTEM)


def test_a_defect_is_noticed() -> None:
    standing.is_refuted(SYSTEM, standing.defect("B04"), "serve_by_rule")
