"""The oracle agrees with the proofs of random systems: what is proved for every size holds, and a
state that is shown for a claim that fails breaks it.

By day 7 systems, by night 260, of which 60 also refine another one, or do not; and 40 of each kind
that no other night has drawn.
"""

from itertools import islice

import pytest

from pdproto.check.prove import guesses
from pdproto.check.prove import suggest as suggesting
from tests import tonight
from tests.oracle.proved import as_lemmas, compared, suggested
from tests.oracle.systems import PROVABLE

# Each has a proof, or a state that breaks a claim.
BY_DAY = (4, 20, 24, 33, 145, PROVABLE + 1, PROVABLE + 4)
BLOCK = 20
NIGHT = *range(0, 200, BLOCK), *range(PROVABLE, PROVABLE + 60, BLOCK)
TONIGHT = 40  # of which enough are decided, whatever the seeds: a fifth of the rarer kind is
# Of these, obligations are decided; that of 2 has a claim that can read past the end of a list.
WITH_LEMMAS = 99, *(seed for seed in range(40) if seed not in (
    3, 5, *range(8, 12), 13, 14, 21, 28, 29, 31, 35))


@pytest.mark.parametrize("seed", BY_DAY)
def test_the_oracle_agrees_with_a_proof(seed: int) -> None:
    """At sizes 1 and 2, and at those that were drawn; of a step that breaks a claim, at its own."""
    found = compared(seed)
    assert found.differences == ()
    assert found.proved or found.failed


@pytest.mark.nightly
@pytest.mark.parametrize("first", NIGHT)
def test_the_oracle_agrees_with_many_proofs(first: int) -> None:
    found = {seed: compared(seed) for seed in range(first, first + BLOCK)}
    assert {seed: one.differences for seed, one in found.items() if one.differences} == {}
    assert sum(one.proved + one.failed for one in found.values()) > BLOCK // 3


@pytest.mark.nightly
@pytest.mark.parametrize("first", [tonight.seeds(kind, TONIGHT)[0] for kind in (0, PROVABLE)])
def test_the_oracle_agrees_with_the_proofs_of_tonight(first: int) -> None:
    found = {seed: compared(seed) for seed in range(first, first + TONIGHT)}
    assert {seed: one.differences for seed, one in found.items() if one.differences} == {}
    assert sum(one.proved + one.failed for one in found.values()) >= 2
    both = {seed: as_lemmas(seed) for seed in range(first, first + TONIGHT)}
    assert {seed: told for seed, (told, _) in both.items() if told} == {}
    assert sum(decided for _, decided in both.values()) > TONIGHT


@pytest.mark.parametrize("seed", [
    pytest.param(PROVABLE + number, marks=[] if number in (2, 27) else pytest.mark.nightly)
    for number in WITH_LEMMAS])
def test_a_lemma_is_judged_as_a_property_is(seed: int) -> None:
    """Also where it reads past the end of a list."""
    differences, decided = as_lemmas(seed)
    assert differences == ()
    assert decided > 5


@pytest.mark.parametrize("seed", [4, 6, *(
    pytest.param(seed, marks=pytest.mark.nightly) for seed in (*range(4), *tonight.seeds(0, 6)))])
def test_what_is_suggested_is_proved_as_it_says(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each clause that is told is proved, and so is each claim but those that are named. Clauses
    over one variable of each sort, of systems with few literals: others take minutes.
    """
    shapes = guesses.shapes
    monkeypatch.setattr(suggesting, "shapes", lambda system: islice(shapes(system), 1))
    monkeypatch.setattr(guesses, "LITERALS_MAX", 40 if seed > BLOCK else 80)
    differences, clauses = suggested(seed)
    assert differences == ()
    assert clauses or seed > BLOCK
