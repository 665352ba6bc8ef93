"""Claim: where nobody compares digests, an answer is still generated from every part of its own
life and from nothing else, however many of everything, as long as the fence of pages holds.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/page_fence_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: a finished fence keeps writes out of single pages (rule 2 of
spec/handoff/engine.py), so that there is no `stray`; a detector of dead processes is right.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a sink that commits before
every source has said that its part has landed.
"""

import pytest

from pdproto.check.prove.examination import idle_lemmas, impossible_rows
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.spec.handoff.sink import ALL_LANDED
from pdproto.spec.handoff.transfer import DIRECT
from pdproto.spec.language import DropClause, edited
from pdproto.spec.lemmas.page_fence_lemmas import LEMMAS
from tests.prove.standing import LIMIT_S, is_refuted, unproved

CLAIMS = claims(DIRECT, LEMMAS)


def test_it_holds_for_all_sizes() -> None:
    settings = ProofSettings(engines=("cutoff",), timeout_s=LIMIT_S, workers=2)
    assert unproved(prove(DIRECT, obligations(DIRECT, CLAIMS), settings)) == []


def test_it_is_about_something() -> None:
    assert list(impossible_rows(DIRECT, CLAIMS, LIMIT_S)) == []


@pytest.mark.slow
def test_no_lemma_is_idle() -> None:
    found = obligations(DIRECT, CLAIMS)
    assert idle_lemmas(DIRECT, CLAIMS, found, LIMIT_S) == ()


def test_a_defect_is_noticed() -> None:
    is_refuted("transfer-direct",
               edited(DIRECT, "hasty-commit", DropClause("commit", ALL_LANDED)), "commit")
