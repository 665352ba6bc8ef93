"""Z3 with quantifiers finds the state that violates a claim where an unbounded search gives up."""

from typing import Any, Final

import pytest

from pdproto.check.prove import quantified
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.cli.systems import load, subject
from pdproto.spec.handoff.binding_ordered import NAMING
from pdproto.spec.language import DropEffect, System, edited

LIMIT_S: Final = 30.0
ROW: Final = "be_asked_first"
CLAIMS: Final = ("a_rank_knows_the_lives_before_one_that_it_knows", "a_sink_is_met_with_a_life")


def owed(system: System, claim: str) -> Obligation:
    """The obligation of the row that keeps a lemma of `binding-ordered`."""
    found = obligations(system, claims(system, subject("binding-ordered").lemmas))
    return next(o for o in found if o.scope == ROW and o.claim.name == claim)


@pytest.fixture
def unbounded_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which questions Z3 gives up depends on those before; here it is each without a bound."""
    judged = quantified._judged

    def give_up(solver: Any, timeout_s: float) -> Judgement:
        is_bounded = "Life.1" in solver.sexpr()
        return judged(solver, timeout_s) if is_bounded else Judgement(Status.UNKNOWN)

    monkeypatch.setattr(quantified, "_judged", give_up)


@pytest.mark.usefixtures("unbounded_gives_up")
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_violated_claim_fails_in_a_state_with_few_elements(claim: str) -> None:
    """A rank that is asked about a life forgets the lives before it."""
    system = edited(load("binding-ordered"), "binding-unnamed", DropEffect(ROW, NAMING[0]))
    (found,) = quantified.decide(system, [owed(system, claim)], LIMIT_S)
    assert found.status is Status.FAILED


@pytest.mark.usefixtures("unbounded_gives_up")
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_that_few_elements_do_not_violate_is_not_proved(claim: str) -> None:
    system = load("binding-ordered")
    (found,) = quantified.decide(system, [owed(system, claim)], LIMIT_S)
    assert found.status is Status.UNKNOWN
