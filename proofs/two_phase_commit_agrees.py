"""Claim: no participant commits while another aborts, however many there are.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/two_phase_commit_lemmas.py, each
with its reason.
Bound: none, on any sort. Assumes: messages are neither forged nor taken back.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a coordinator that commits
without having heard everybody.
"""

from pdproto.spec.examples.two_phase_commit import SYSTEM as COMMIT
from pdproto.spec.examples.two_phase_commit import heard, p
from pdproto.spec.language import DropClause, edited, forall
from tests.prove import standing

SYSTEM = "two-phase-commit"


def test_it_holds_for_all_sizes() -> None:
    standing.is_proved(SYSTEM)


def test_it_is_about_something() -> None:
    standing.is_about_something(SYSTEM)


def test_no_lemma_is_idle() -> None:
    standing.has_no_idle_lemma(SYSTEM)


def test_a_defect_is_noticed() -> None:
    broken = edited(COMMIT, "hasty", DropClause("decide_commit", forall(p, heard(p))))
    standing.is_refuted(SYSTEM, broken, "decide_commit")
