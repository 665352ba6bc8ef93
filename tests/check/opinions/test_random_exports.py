"""The exported models of random systems: SPIN and TLC say what the interpreter and our engine say.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pdproto.check.interpret import Explored, Interpreter
from pdproto.check.opinions import spin, tlc
from pdproto.check.opinions.compare import compare
from pdproto.check.opinions.promela import promela
from pdproto.ground.grounding import Ground
from pdproto.spec.language import Configuration, System
from tests.check.opinions.test_promela import needs_spin
from tests.check.opinions.test_tla import needs_tlc
from tests.check.systems import SIZES, systems
from tests.tiers import examples

STATES = range(20, 300)  # each checker starts a process: so no system that does nothing
FAULTS = st.sampled_from([(), ("lossy",)])
ASKED = settings(
    max_examples=examples(2, settings().max_examples // 4),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True, scope="module")
def one_compiler() -> Iterator[None]:
    """Java's second compiler costs a run of a second more than it saves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
        yield


def explored(system: System, faults: tuple[str, ...]) -> Explored:
    """What the interpreter finds, if that is neither little nor much."""
    try:
        found = Interpreter(system, SIZES, faults).explore(STATES.stop)
    except ValueError:
        assume(False)
        raise
    assume(len(found.depth) in STATES)
    return found


@needs_spin
@needs_tlc
@pytest.mark.slow
@given(systems(), FAULTS)
@ASKED
def test_the_exports_have_the_states_and_steps_of_the_interpreter(
    system: System, faults: tuple[str, ...]
) -> None:
    expected = explored(system, faults)
    counts = len(expected.depth), sum(expected.fired.values())
    ground = Ground(replace(system, properties=()), SIZES, faults)
    run = spin.spin(promela(ground), table_bits=16, keep_going=True)
    # Its further transitions: the one to the initial state, and those of violated assertions.
    assert (run.states, run.transitions - 1 - run.errors) == counts
    # TLC takes a step once for each part of a disjunction in its guard that holds.
    assert tlc.ask(ground).states == counts[0]


@needs_spin
@needs_tlc
@given(systems(), FAULTS)
@ASKED
def test_the_exports_refute_the_properties_that_our_engine_refutes(
    system: System, faults: tuple[str, ...]
) -> None:
    explored(system, faults)
    told = compare(system, "random", Configuration(SIZES, faults), ("spin", "tlc"))
    assert told.missing == {}
    assert told.differences == ()
