"""`--suggest` on the protocols on which tools that find invariants are compared."""

from collections.abc import Sequence
from typing import Any

import pytest

from pdproto.check.prove import sieve
from pdproto.check.prove import suggest as suggesting
from pdproto.check.prove.judging import judged
from pdproto.check.prove.proving import ProofSettings
from pdproto.check.prove.sat import Answer, Solver
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.suggest import lemmas, suggest
from tests.prove.benchmarks import BENCHMARKS, Benchmark

DAY = 1.0  # seconds of processor time
# Of the solver, for each obligation of each round: whether it is met with all guesses, whether with
# the needed ones alone, and whether when a guess is left out.
QUESTIONS = 3


@pytest.mark.parametrize("benchmark", [
    pytest.param(one, id=one.system.name, marks=[pytest.mark.nightly] * (one.seconds > DAY))
    for one in BENCHMARKS if not one.lacks])
def test_its_lemmas_are_found_with_few_questions(
    benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found proves it again, from the beginning.

    Seen red: each obligation asked about alone (in `drop_from`), and clauses that say nothing are
    guessed too (without `_trivial`).
    """
    owed: list[int] = []
    asked: list[int] = []

    class Counted(Solver):
        def ask(self, assumed: Sequence[int]) -> Answer:
            asked.append(1)
            return super().ask(assumed)

    def sieves_of(system: Any, every: Sequence[Any], timeout_s: float) -> Any:
        owed.append(len(every))
        return sieve.sieves_of(system, every, timeout_s)

    monkeypatch.setattr(sieve, "Solver", Counted)
    monkeypatch.setattr(suggesting, "sieves_of", sieves_of)
    found = suggest(benchmark.system, ProofSettings(timeout_s=5.0))
    assert found.proved, found.inductive
    assert found.true == benchmark.clauses
    assert len(asked) <= QUESTIONS * sum(owed)
    proved = judged(ProofSubject(benchmark.system, lemmas(found.lemmas), {}),
                    ProofSettings(timeout_s=30.0)).proved
    assert {claim.name for claim in benchmark.system.properties} <= proved


@pytest.mark.parametrize("benchmark", [
    pytest.param(one, id=one.system.name, marks=[pytest.mark.nightly] * (one.seconds > DAY))
    for one in BENCHMARKS if one.lemmas])
def test_lemmas_of_what_is_not_found_prove_it(benchmark: Benchmark) -> None:
    proved = judged(ProofSubject(benchmark.system, benchmark.lemmas, {}),
                    ProofSettings(timeout_s=30.0)).proved
    assert {claim.name for claim in benchmark.system.properties} <= proved
