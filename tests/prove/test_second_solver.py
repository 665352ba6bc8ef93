"""cvc5 confirms what the cut-off proves of the hand-over: a sample of it, and nightly all.

All at once, and nothing else: `python -m tests.prove.second_solver`, eleven minutes of a core.
"""

from typing import Final

import pytest

from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.examination import without
from pdproto.check.prove.obligations import Method
from pdproto.cli.prove import RUN_BY_PROCESSES, subject
from pdproto.spec.handoff.routing import h, was_asked, x
from pdproto.spec.language import DropClause, edited
from proofs import draining, standing
from tests.property.profiles import some
from tests.prove.second_solver import main, refuted, unconfirmed
from tests.tiers import examples

SAMPLE = examples(2, 4)  # obligations of each kind and system, always the same
KINDS: Final = {
    "safety": lambda method: method not in (Method.COVERAGE, Method.RANKING),
    "coverage": lambda method: method is Method.COVERAGE,
    "ranking": lambda method: method is Method.RANKING,
}
RANKED: Final = tuple(name for name in RUN_BY_PROCESSES if subject(name).every_ranking)


@pytest.mark.parametrize(("name", "kind"), [
    (name, kind) for kind in KINDS
    for name in (RANKED if kind == "ranking" else RUN_BY_PROCESSES)
])
def test_it_confirms_the_hand_over(name: str, kind: str) -> None:
    one = subject(name)
    found = [o for o in one.obligations() if KINDS[kind](o.claim.method)]
    chosen = some(found, SAMPLE, name)
    assert [o.name for o in unconfirmed(one.system, chosen)] == []


def test_it_does_not_confirm_a_state_without_a_helper() -> None:
    """Nor that a trigger has one answer, where two rows answer it."""
    one = subject("dp-rank")
    ranking = draining.without_helper(draining.ranking("dp-rank", "L1_decode_ends"), "give_up")
    pending = draining.found(one, one.system, [ranking], helped_only=True)
    assert list(unconfirmed(one.system, pending)) == pending
    torn = edited(one.system, "torn", DropClause("hear_meet", ~was_asked(x, h)))
    twice = [o for o in coverage(torn, ()) if "hear_meet" in o.name and " or " in o.name
             and "gone" not in o.name]  # where the row has never run
    assert twice
    assert list(unconfirmed(torn, twice)) == twice


def test_it_does_not_confirm_a_false_claim() -> None:
    """Without the lemma a participant commits without a decision of the coordinator."""
    one, found = standing.all_of("two-phase-commit")
    lemma = "commit_is_decided"
    open_ones = [o.name for o in unconfirmed(one.system, without(found, lemma))]
    assert open_ones
    assert set(open_ones) < {o.name for o in found}


def test_all_of_a_system(capsys: pytest.CaptureFixture[str]) -> None:
    found = subject("two-phase-commit").obligations()
    assert main(["two-phase-commit"]) == 0
    count = len(found)
    told = capsys.readouterr().out
    assert told == f"two-phase-commit: cvc5 confirms {count} of {count} obligations\n"


def test_an_empty_clause_refutes() -> None:
    assert refuted("p cnf 1 1\n0\n")
    assert not refuted("c a tautology\np cnf 1 1\n1 -1 0\n")
