"""Claim: ranks that have applied the same decisions run and keep the same requests, however many
ranks, requests, slots and decisions.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/agreement_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: the identity of a life is never used again; messages may be
lost, repeated and reordered, and ranks die with their group.
Vacuity: every row can fire in a state in which all claims hold. Mutant: ranks that start what was
not decided in its turn.
"""

import pytest

from pdproto.spec.handoff.agreement import SYSTEM as GROUP
from pdproto.spec.handoff.group import EARLIER
from pdproto.spec.language import DropClause, edited
from tests.prove import standing

SYSTEM = "agreement"


def test_it_holds_for_all_sizes() -> None:
    standing.is_proved(SYSTEM)


def test_it_is_about_something() -> None:
    standing.is_about_something(SYSTEM)


@pytest.mark.slow
def test_no_lemma_is_idle() -> None:
    standing.has_no_idle_lemma(SYSTEM)


def test_a_defect_is_noticed() -> None:
    broken = edited(GROUP, "hasty", DropClause("start", EARLIER))
    standing.is_refuted(SYSTEM, broken, "start")
