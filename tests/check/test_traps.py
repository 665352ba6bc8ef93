"""Where a fair run can stay for ever: the native engine against the portable one, and lassos."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pdproto.check.engine import Assumptions, Engine, Flags, Traps
from pdproto.check.explore import NATIVE, PORTABLE, Exploration, SearchLimits, explore
from pdproto.check.liveness import Lasso, Liveness, is_fair
from pdproto.check.native import NativeEngine
from pdproto.check.portable import PortableEngine
from pdproto.check.questions import LeadsToInstance, leads_to_instances
from pdproto.ground.grounding import Ground
from pdproto.ground.program import Action, Guard, Program
from pdproto.spec.language import Fairness, LeadsTo, System
from tests.check.engines import explored, needs_compiler, stored
from tests.check.programs import programs
from tests.check.systems import SIZES, systems
from tests.judging import judged, judges
from tests.tiers import examples

ASSUMPTIONS = 3
STATES_MAX = 300
UNDER = (Fairness.TIMERS, Fairness.DETECTORS)


def some(engine: Engine, seed: int, percent: int) -> Flags:
    """[states]: some of them, the same ones for each engine."""
    chosen = [hash((state, seed)) % 100 < percent for state in stored(engine)]
    return np.array(chosen, dtype=bool)


def by_state(engine: Engine, traps: Traps) -> tuple[dict[int, int], set[frozenset[int]]]:
    """The assumptions under which each trap is one, and the components of all traps."""
    states = stored(engine)
    where = {state: int(bits) for state, bits in zip(states, traps.where, strict=True) if bits}
    components: dict[int, set[int]] = {}
    for state, component in zip(states, traps.components.tolist(), strict=True):
        if state in where:
            components.setdefault(component, set()).add(state)
    assert traps.found == int(np.bitwise_or.reduce(traps.where))
    return where, set(map(frozenset, components.values()))


@st.composite
def assumptions(draw: st.DrawFn, units: list[int]) -> Assumptions:
    """Rows of the same unit are fair under the same assumptions, and faults alike."""
    size = len(units)
    fair = draw(st.lists(st.integers(0, 7), min_size=size, max_size=size))
    faults = draw(st.lists(st.sampled_from([False] * 3 + [True]), min_size=size, max_size=size))
    bits = np.array([0 if fault else b for b, fault in zip(fair, faults, strict=True)], np.uint8)
    by_row = np.array(units, np.uint32)
    return Assumptions(ASSUMPTIONS, bits[by_row], np.array(faults, bool)[by_row], by_row)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Program, list[int]]:
    """A graph of at most 10 nodes, a row for each edge, and the rows' units.

    At most one edge of a unit leaves a node. So its rows fire throughout a cycle, as one row of a
    program without sweeps cannot: it changes nothing where it has just fired.
    """
    nodes = draw(st.integers(2, 10))
    node = st.integers(0, nodes - 1)
    edges = draw(st.dictionaries(st.tuples(node, st.integers(0, 3)), node, min_size=1,
                                 max_size=3 * nodes))
    rows = [Action(Guard(15, a), clear=15, assign=b) for (a, _), b in edges.items()]
    labels = [label for _, label in edges]
    program = Program(4, tuple(range(nodes)), tuple(rows), (True,) * len(rows))
    return program, [labels.index(label) for label in labels]


def plain_units(program: Program) -> tuple[Program, list[int]]:
    return program, list(range(len(program.rows)))


@needs_compiler
@given(
    case=graphs() | graphs() | (programs() | programs(swept=True, symmetric=True)).map(plain_units),
    seed=st.integers(0, 1 << 30),
    shares=st.tuples(st.sampled_from([10, 30]), st.sampled_from([60, 90, 100])),
    data=st.data(),
)
@settings(max_examples=examples(120, 400))
def test_native_traps_are_the_portable_ones(
    case: tuple[Program, list[int]], seed: int, shares: tuple[int, int], data: st.DataObject
) -> None:
    program, units = case
    assumed = data.draw(assumptions(units))
    found = []
    for make in (PortableEngine, lambda program: NativeEngine(program, workers=1)):
        engine = explored(make(program))
        pending, allowed = (some(engine, seed + i, share) for i, share in enumerate(shares))
        found.append(by_state(engine, engine.traps(pending, allowed, assumed)))
    assert found[0] == found[1]


# ---- Lassos


def assert_fair(liveness: Liveness, obligation: LeadsToInstance, lasso: Lasso,
                fairness: Fairness) -> None:
    """The rows are a run from the initial state. From some point on the goal never holds, though
    the premise did. The loop closes, has no faults, and treats each fair row fairly.
    """
    form = liveness.found.program
    states = [form.normal(form.initial[0])]
    for row in lasso.rows:
        assert row.action.guard.holds(states[-1]), f"{row} is not enabled"
        states.append(form.normal(row.action.apply(states[-1])))
    owed = [any(g.holds(s) for g in obligation.premise) for s in states]
    met = [any(g.holds(s) for g in obligation.goal) for s in states]
    assert any(now and not any(met[i:]) for i, now in enumerate(owed))
    start = len(states) - 1 if lasso.loop is None else lasso.loop
    assert states[start] == states[-1]
    loop = states[start:]
    fired = {liveness.units[liveness.rows.index(row)] for row in lasso.rows[start:]}
    assert not any(row.layer for row in lasso.rows[start:])
    for number, row in enumerate(liveness.rows):
        if is_fair(row, fairness) and liveness.units[number] not in fired:
            twins = [liveness.rows[i] for i in np.flatnonzero(
                liveness.units == liveness.units[number])]
            assert any(not any(moves(form, twin.action, state) for twin in twins)
                       for state in loop), f"{row} is enabled for ever"


def moves(form: Program, action: Action, state: int) -> bool:
    return action.guard.holds(state) and form.normal(action.apply(state)) != state


def search(system: System, faults: tuple[str, ...], *, portable: bool) -> Exploration:
    ground = Ground(system, SIZES, faults)
    return explore(ground, watched=(Guard(),), keep_going=True, limits=SearchLimits(STATES_MAX),
                   choice=PORTABLE if portable else NATIVE)


@needs_compiler
@judges(9)
@given(systems(), st.sampled_from([(), ("lossy",)]))
@settings(max_examples=examples(30, 80),
          suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_native_lassos_are_as_short_as_portable_ones(
    system: System, faults: tuple[str, ...]
) -> None:
    """The verdicts and the ways to the loops are equally long, and both runs are fair."""
    (claim,) = [c for c in system.properties if isinstance(c, LeadsTo)]
    ways: list[list[tuple[int, Fairness] | None]] = []
    for portable in (False, True):
        found = search(system, faults, portable=portable)
        assume(found.complete)
        liveness = Liveness(found)
        ways.append([])
        for obligation in leads_to_instances(found.ground, claim):
            unfulfilled = liveness.unfulfilled(obligation, UNDER)
            ways[-1].append(None)
            if unfulfilled is not None:
                lasso, fairness = unfulfilled
                assert_fair(liveness, obligation, lasso, fairness)
                stem = len(lasso.rows) if lasso.loop is None else lasso.loop
                ways[-1][-1] = stem, fairness
    assert ways[0] == ways[1]
    if any(ways[0]):
        judged()


# ---- The native engine alone


@needs_compiler
def test_arguments_that_would_corrupt_memory_are_refused() -> None:
    rows = tuple(Action(Guard(1, bit), clear=1, assign=1 - bit) for bit in (0, 1))
    engine = explored(NativeEngine(Program(1, (0,), rows, (True, True)), workers=1))
    yes, fair = np.ones(2, bool), np.ones(2, np.uint8)
    units = np.arange(2, dtype=np.uint32)
    good = Assumptions(1, fair, ~yes, units)
    assert engine.traps(yes, yes, good).where.tolist() == [1, 1]
    for pending, assumed in (
        (yes[:1], good),
        (np.ones(4, bool)[::2], good),
        (yes, Assumptions(1, fair[:1], ~yes, units)),
        (yes, Assumptions(1, fair, ~yes, units.astype(np.int64))),
        (yes, Assumptions(1, fair, ~yes, units + 1)),
    ):
        with pytest.raises(ValueError, match="want"):
            engine.traps(pending, yes, assumed)
