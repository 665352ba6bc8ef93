"""Claim: a failed look-up never waits for input, and nobody takes half a list of addresses for a
whole, however many ranks, runs, sinks and hand-offs.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/registry_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: what spec/handoff/registry.py assumes; of safety, nothing more.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a hand-off that takes half
a list for a whole.
"""

import pytest

from tests.prove import standing

SYSTEM = "registry"


def test_it_holds_for_all_sizes() -> None:
    standing.is_proved(SYSTEM)


def test_it_is_about_something() -> None:
    standing.is_about_something(SYSTEM)


@pytest.mark.slow
def test_no_lemma_is_idle() -> None:
    standing.has_no_idle_lemma(SYSTEM)


def test_a_defect_is_noticed() -> None:
    standing.is_refuted(SYSTEM, standing.defect("half-cache"), "connect")
