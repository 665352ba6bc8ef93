"""The portable engine alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.check.portable import PortableEngine
from tests.check.engines import ONE_BIT, everything, explored
from tests.check.programs import TWO_PHASE_COMMIT_STATES, two_phase_commit
from tests.tiers import examples


class FullDictionary(dict[int, int]):
    def __setitem__(self, key: int, value: int) -> None:
        raise MemoryError


def test_portable_engine_survives_a_memory_error() -> None:
    """The state whose storing failed is not half stored, and the search goes on when it can."""
    engine = PortableEngine(two_phase_commit(3))
    engine.step(1)
    ids, before = engine._ids, engine.states
    engine._ids = FullDictionary(ids)
    with pytest.raises(MemoryError):
        engine.step(1)
    assert engine.states == before
    engine._ids = ids
    assert explored(engine).states == TWO_PHASE_COMMIT_STATES[3]
    assert engine.fired.tolist() == explored(PortableEngine(two_phase_commit(3))).fired.tolist()


@given(limit=st.integers(1, 50))
@settings(max_examples=examples(4, 10))
def test_portable_results_do_not_depend_on_steps(limit: int) -> None:
    program = two_phase_commit(3)
    results = [everything(explored(PortableEngine(program), n), sample=1) for n in (limit, 1 << 20)]
    assert results[0] == results[1]


def test_closing_the_portable_engine_forgets_the_states() -> None:
    engine = explored(PortableEngine(ONE_BIT))
    engine.close()
    engine.close()
    assert engine.states == 0
