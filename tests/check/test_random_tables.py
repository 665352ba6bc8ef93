"""The page of a random system has its rows: read back from there, they have the same steps."""

import pytest
from hypothesis import HealthCheck, given, settings

from pdproto.check.interpret import Interpreter, Step, Store
from pdproto.check.tables import document
from pdproto.spec.language import System
from tests.check import systems
from tests.check.written_rows import rewritten
from tests.tiers import examples

STATES_MAX = 60
VARIABLES = {v.name: v for v in (systems.n, systems.m, systems.i, systems.j, systems.e, systems.f,
                                 systems.s, systems.t)}


def first_states(system: System) -> dict[Store, list[tuple[Step, Store]]]:
    """The first states of the system with all faults, each with its steps."""
    book = Interpreter(system, systems.SIZES, tuple(system.faults))
    found: dict[Store, list[tuple[Step, Store]]] = {}
    waiting: list[Store] = [frozenset()]
    for state in waiting:
        if state not in found and len(found) < STATES_MAX:
            found[state] = list(book.steps(state))
            waiting += [after for _, after in found[state]]
    return found


@pytest.mark.slow
@given(systems.systems())
@settings(
    max_examples=examples(12, settings().max_examples),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
def test_the_rows_of_the_page_have_the_steps_of_the_system(system: System) -> None:
    """Each guard, effect and trigger, in its order, also of the faults."""
    page = document(system)
    again = rewritten(system, page, VARIABLES)
    assert document(again) == page
    assert first_states(again) == first_states(system)
