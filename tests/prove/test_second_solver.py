"""cvc5 confirms what the cut-off proves of the hand-over: a sample here, all by a command.

The command is `python -m tests.prove.second_solver`.
"""

from random import Random

import pytest

from pdproto.check.prove.examination import without
from pdproto.cli.prove import HAND_OVER
from tests.prove import standing
from tests.prove.second_solver import main, refuted, unconfirmed

SAMPLE = 15  # obligations of each system, always the same


@pytest.mark.parametrize("name", HAND_OVER)
def test_it_confirms_a_sample_of_the_hand_over(name: str) -> None:
    one, found = standing.all_of(name)
    chosen = Random(name).sample(found, SAMPLE)  # noqa: S311 - no secret
    assert [o.name for o in unconfirmed(one.system, chosen)] == []


def test_it_does_not_confirm_what_does_not_hold() -> None:
    """Without the lemma a participant commits on a word that nobody may have said."""
    one, found = standing.all_of("two-phase-commit")
    lemma = "commit_is_decided"
    open_ones = [o.name for o in unconfirmed(one.system, without(found, lemma))]
    assert open_ones
    assert set(open_ones) < {o.name for o in found}


def test_all_of_a_system(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = standing.all_of("two-phase-commit")
    assert main(["two-phase-commit"]) == 0
    count = len(found)
    told = capsys.readouterr().out
    assert told == f"two-phase-commit: cvc5 confirms {count} of {count} obligations\n"


def test_an_empty_clause_refutes() -> None:
    assert refuted("p cnf 1 1\n0\n")
    assert not refuted("c a tautology\np cnf 1 1\n1 -1 0\n")
