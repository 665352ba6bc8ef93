"""Claim: where sources write straight into pages, a write lands only while its own life has them,
and what an answer is generated from is every part of its life, however many of everything.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/direct_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: a finished fence keeps writes out of single pages (rule 2 of
spec/handoff/engine.py); a detector of dead processes is right.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a sink that frees its
pages as it aborts.
"""

import pytest

from pdproto.check.prove.examination import idle_lemmas, impossible_rows
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.spec.handoff.direct import FREE_PAGES, IN_PLACE
from pdproto.spec.language import AddEffect, edited
from pdproto.spec.lemmas.direct_lemmas import LEMMAS
from tests.prove.standing import LIMIT_S, unproved

CLAIMS = claims(IN_PLACE, LEMMAS)


def test_it_holds_for_all_sizes() -> None:
    settings = ProofSettings(engines=("cutoff",), timeout_s=LIMIT_S, workers=2)
    assert unproved(prove(IN_PLACE, obligations(IN_PLACE, CLAIMS), settings)) == []


def test_it_is_about_something() -> None:
    assert list(impossible_rows(IN_PLACE, CLAIMS, LIMIT_S)) == []


@pytest.mark.slow
def test_no_lemma_is_idle() -> None:
    found = obligations(IN_PLACE, CLAIMS)
    assert idle_lemmas(IN_PLACE, CLAIMS, found, LIMIT_S) == ()


def test_a_defect_is_noticed() -> None:
    broken = edited(IN_PLACE, "failure-frees-pages", AddEffect("abort_receive", FREE_PAGES))
    found = [one for one in obligations(broken, claims(broken, LEMMAS))
             if one.scope == "abort_receive"]
    proof = prove(broken, found, ProofSettings(timeout_s=LIMIT_S, workers=1))
    assert any(proof.status(one) in (Status.FAILED, Status.REFUSED) for one in found)
