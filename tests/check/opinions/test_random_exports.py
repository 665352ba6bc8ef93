"""The exported models of random systems: TLC says what the interpreter and our engine say.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lab.compare import compare
from pdproto.check.interpret import Explored, Interpreter
from pdproto.check.opinions import tlc
from pdproto.ground.grounding import Ground
from pdproto.spec.language import Configuration, System
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


@needs_tlc
@pytest.mark.slow
@given(systems(), FAULTS)
@ASKED
def test_the_exports_have_the_states_of_the_interpreter(
    system: System, faults: tuple[str, ...]
) -> None:
    expected = explored(system, faults)
    ground = Ground(replace(system, properties=()), SIZES, faults)
    # TLC takes a step once for each part of a disjunction in its guard that holds.
    assert tlc.ask(ground).states == len(expected.depth)


@needs_tlc
@given(systems(), FAULTS)
@ASKED
def test_the_exports_refute_the_properties_that_our_engine_refutes(
    system: System, faults: tuple[str, ...]
) -> None:
    explored(system, faults)
    told = compare(system, "random", Configuration(SIZES, faults), ("tlc",))
    assert told.missing == {}
    assert told.differences == ()
