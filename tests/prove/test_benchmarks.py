"""`--suggest` on the protocols on which tools that find invariants are compared."""

import resource

import pytest

from pdproto.check.prove.judging import judged
from pdproto.check.prove.proving import ProofSettings
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.suggest import lemmas, suggest
from tests.prove.benchmarks import BENCHMARKS, Benchmark

DAY = 3.0  # seconds of processor time


def _processor_time() -> float:
    return sum(used.ru_utime + used.ru_stime for used in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


@pytest.mark.parametrize("benchmark", [
    pytest.param(one, id=one.system.name, marks=[pytest.mark.nightly] * (one.seconds > DAY))
    for one in BENCHMARKS if not one.lacks])
def test_its_lemmas_are_found_in_time(benchmark: Benchmark) -> None:
    """What is found proves it again, from the beginning."""
    began = _processor_time()
    found = suggest(benchmark.system, ProofSettings(timeout_s=5.0))
    assert found.proved, found.inductive
    assert _processor_time() - began < benchmark.seconds
    proved = judged(ProofSubject(benchmark.system, lemmas(found.lemmas), {}),
                    ProofSettings(timeout_s=30.0)).proved
    assert {claim.name for claim in benchmark.system.properties} <= proved


@pytest.mark.parametrize("benchmark", [
    pytest.param(one, id=one.system.name) for one in BENCHMARKS if one.lemmas])
def test_lemmas_of_what_is_not_found_prove_it(benchmark: Benchmark) -> None:
    proved = judged(ProofSubject(benchmark.system, benchmark.lemmas, {}),
                    ProofSettings(timeout_s=30.0)).proved
    assert {claim.name for claim in benchmark.system.properties} <= proved
