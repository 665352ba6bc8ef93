"""Suggested lemmas: clauses that hold in small instances prove a property that needs some."""

import pytest

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.suggest import suggest
from pdproto.cli.systems import load
from pdproto.spec.language import Always

LIMIT_S = 30.0


@pytest.mark.parametrize("name", [
    "two-phase-commit",
    pytest.param("lock-server", marks=pytest.mark.nightly),
    pytest.param("pdproto.spec.handoff.abort:SYSTEM", marks=pytest.mark.nightly),
])
def test_it_is_proved_unaided(name: str) -> None:
    """What is suggested is proved again, from the beginning and with faults."""
    system = load(name)
    found = suggest(system, LIMIT_S)
    assert found.proved
    lemmas = [Always(f"lemma_{n}", formula) for n, formula in enumerate(found.lemmas)]
    owed = obligations(system, claims(system, lemmas))
    proof = prove(system, owed, ProofSettings(timeout_s=LIMIT_S, workers=2))
    assert {proof.status(obligation) for obligation in owed} == {Status.PROVED}
    assert len(found.lemmas) <= found.kept <= found.true


def test_no_suggested_lemma_can_be_left_out() -> None:
    """Of many that say nearly the same, a reader gets as few as possible."""
    system = load("two-phase-commit")
    found = suggest(system, LIMIT_S)
    lemmas = [Always(f"lemma_{n}", formula) for n, formula in enumerate(found.lemmas)]
    for one in lemmas:
        rest = [lemma for lemma in lemmas if lemma is not one]
        owed = obligations(system, claims(system, rest))
        proof = prove(system, owed, ProofSettings(timeout_s=LIMIT_S))
        assert {proof.status(obligation) for obligation in owed} != {Status.PROVED}, one


@pytest.mark.nightly
def test_a_false_property_is_not_proved() -> None:
    """The lock server with a clock: no clause can save it, and none pretends to."""
    assert not suggest(load("lock-server-broken"), LIMIT_S).proved
