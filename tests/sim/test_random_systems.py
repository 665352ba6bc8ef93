"""Running ends against the explorer, on random systems: what processes do, the tables allow.

The systems use every word of the language (tests/check/systems.py). `pdproto fuzz` runs the same
ends, as automata or as stores.
"""

from random import Random

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import SearchLimits
from pdproto.check.result import Verdict
from pdproto.spec.language import (
    Call,
    Configuration,
    Machine,
    Message,
    Row,
    SpecError,
    System,
    Table,
    exists,
)
from pdproto.testing.simulated import SimulatedSystem
from tests.check.systems import SIZES, Node, systems
from tests.judging import judged, judges

LIMITS = SearchLimits(states_max=20_000)
STORES = st.sampled_from([frozenset[str](), frozenset({"hub"}), frozenset({"hub", "node"})])


@pytest.mark.slow
@judges(2)
@given(systems(), st.sampled_from([(), ("lossy",)]), STORES, st.integers(0, 7))
@settings(
    max_examples=settings().max_examples // 4,  # 25 by day
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
def test_what_a_simulation_finds_the_explorer_finds_too(
    system: System, faults: tuple[str, ...], stores: frozenset[str], seed: int
) -> None:
    """No step differs from the tables, and a property that is seen violated is violated."""
    chosen = Configuration(SIZES, faults=faults)
    try:
        simulated = SimulatedSystem(system, chosen, Random, stores=stores)
    except SpecError:  # a store cannot look the cells up
        reject()
    seen = simulated.run(seed).finding
    if seen is None:
        return
    assert seen.name != "conforms", seen.note
    explored = check(system, chosen, CheckSettings(limits=LIMITS, keep_going=True))
    verdicts = {one.name: one.verdict for one in explored.findings}
    # Where the search has reached its bound, the verdict may be open.
    assert verdicts[seen.name] in (Verdict.VIOLATED, Verdict.UNKNOWN)
    if verdicts[seen.name] is Verdict.VIOLATED:
        judged()


@pytest.mark.parametrize("stores", [frozenset[str](), frozenset({"node"})])
def test_a_message_that_a_guard_reads_may_trigger_a_row_too(stores: frozenset[str]) -> None:
    """To have heard it is one event, and to take its row another."""
    n = Node("n")
    hub, node = Machine("hub"), Machine("node", n)
    taken, read = node.relation("taken"), node.relation("read")
    stop = Message("stop", sender=hub, receiver=node)
    system = System(
        "stopped", "Nodes are stopped.",
        tables=(
            Table(hub, rows=(Row("halt", on=Call("halt"), send=[stop()]),)),
            Table(node, rows=(
                Row("take", on=stop(), do=[taken(n).to(True)]),
                Row("look", on=Call("look"), when=stop(), do=[read(n).to(True)]),
            )),
        ),
        final=exists(n, taken(n) | ~taken(n)),
    )
    simulated = SimulatedSystem(system, Configuration({Node: 1}), Random, stores=stores)
    assert simulated.first_violation(range(20)) is None
