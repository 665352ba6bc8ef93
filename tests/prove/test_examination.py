"""The lemmas that a proof uses: an idle lemma is named, and only proofs count."""

from dataclasses import replace

import pytest

from pdproto.check.prove import examination
from pdproto.check.prove.examination import idle_lemmas, rested_on, without
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED
from pdproto.spec.language import Always
from proofs import standing

SYSTEM = "two-phase-commit"


@pytest.mark.parametrize("engines", [(CUTOFF,), (QUANTIFIED,)], ids=", ".join)
def test_an_idle_lemma_is_named(engines: tuple[str, ...]) -> None:
    one, _ = standing.all_of(SYSTEM)
    always = one.lemmas[0].claim
    every = claims(one.system, (*one.lemmas, Always("spare", always | ~always)))
    found = obligations(one.system, every)
    assert idle_lemmas(one.system, every, found, standing.LIMIT_S, engines) == ("spare",)


def test_z3_names_the_claims_where_the_cut_off_does_not_decide(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Z3 such an obligation counts as not proved."""
    one, _ = standing.all_of("paxos")
    found = [o for o in obligations(one.system, one.claims)
             if o.name == "a_learned_value_has_a_quorum at vote"]
    monkeypatch.setattr(examination, "WEAKENED_MAX", 2_000)
    with pytest.raises(AssertionError, match="is not proved"):
        list(rested_on(one.system, found, standing.LIMIT_S))
    (names,) = rested_on(one.system, found, standing.LIMIT_S, (CUTOFF, QUANTIFIED))
    assert names == {"a_learned_value_has_a_quorum"}


def test_rows_asked_together_use_the_same_claims() -> None:
    """Rows that are asked about at once need no claim that they do not need alone."""
    one, found = standing.all_of(SYSTEM)
    row = next(o.scope for o in found if sum(p.scope == o.scope for p in found) > 1)
    group = [o for o in found if o.scope == row]
    for obligation, names in zip(
        group, rested_on(one.system, group, standing.LIMIT_S), strict=True
    ):
        needed = replace(obligation, sequent=replace(obligation.sequent, assumed=tuple(
            claim for claim in obligation.sequent.assumed if claim.name in names)))
        assert list(rested_on(one.system, [needed], standing.LIMIT_S))


def test_an_unproved_claim_uses_no_lemma() -> None:
    one, found = standing.all_of(SYSTEM)
    broken = [o for o in without(found, "commit_is_decided") if o.scope == "committed"]
    with pytest.raises(AssertionError, match="is not proved"):
        list(rested_on(one.system, broken, standing.LIMIT_S))
