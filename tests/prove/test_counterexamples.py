"""Z3 with quantifiers finds the state that violates a claim, whatever it was asked before."""

import pytest

from pdproto.check.prove import quantified
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.cli.systems import load, subject
from pdproto.spec.handoff.binding_ordered import NAMING
from pdproto.spec.language import DropEffect, System, edited

LIMIT_S = 2.0
VIOLATED = ("a_rank_knows_the_lives_before_one_that_it_knows", "a_sink_is_met_with_a_life")


def unnamed() -> tuple[System, list[Obligation]]:
    """A rank that forgets the lives before one that asks it; what it owes the two claims."""
    row = DropEffect("be_asked_first", NAMING[0])
    system = edited(load("binding-ordered"), "binding-unnamed", row)
    owed = obligations(system, claims(system, subject("binding-ordered").lemmas))
    return system, [o for o in owed if o.scope == row.row and o.claim.name in VIOLATED]


@pytest.mark.parametrize("claim", VIOLATED)
def test_a_claim_fails_in_a_state_with_few_elements_where_an_unbounded_search_gives_up(
    claim: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The first question shares a solver with others, and may be lucky: it gets no time here.
    monkeypatch.setattr(quantified, "SHARED_S", 0.001)
    system, owed = unnamed()
    (one,) = (o for o in owed if o.claim.name == claim)
    unbounded = quantified.question(quantified.Theory(system), [one])
    unbounded.set("timeout", int(LIMIT_S * 1000))
    assert str(unbounded.check()) == "unknown"

    assert [j.status for j in quantified.decide(system, [one], LIMIT_S)] == [Status.FAILED]


def test_a_claim_that_holds_does_not_fail_in_a_state_with_few_elements() -> None:
    system = load("binding-ordered")
    owed = obligations(system, claims(system, subject("binding-ordered").lemmas))
    met = [o for o in owed if o.scope == "be_asked_first" and o.claim.name in VIOLATED]
    assert [quantified._fails_with_few(system, one, size, LIMIT_S)
            for one in met for size in quantified.FEW] == [False] * 4
