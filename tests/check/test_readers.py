"""Every reader of the tables gives the same answer: oracle, ground form, engines, reductions.

Random systems are drawn in the language itself (systems.py), so grounding is on trial too.
"""

from collections import Counter
from itertools import product

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pdproto.check.checking import CheckSettings, check
from pdproto.check.engine import Engine
from pdproto.check.explore import Reductions, program
from pdproto.check.interpret import Explored, Interpreter, Step, Store
from pdproto.check.native import NativeEngine
from pdproto.check.portable import PortableEngine
from pdproto.check.result import CheckResult, Finding, Trace
from pdproto.ground.grounding import Ground
from pdproto.spec.language import ANY, Configuration, Fairness, System
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.symbols import Symbol
from tests.check.fair import pending_for_ever
from tests.check.systems import SIZES, systems
from tests.judging import judged, judges
from tests.tiers import examples

STATES_MAX = 300
SEARCHES = settings(
    max_examples=examples(6, settings().max_examples // 4),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def oracle(system: System, faults: tuple[str, ...]) -> Explored:
    try:
        return Interpreter(system, SIZES, faults).explore(STATES_MAX)
    except ValueError:
        assume(False)
        raise


def stored(ground: Ground, state: int) -> Store:
    """A packed state as the oracle writes it."""
    return frozenset(
        (cell, value)
        for cell, value in ground.layout.decode(state).items()
        if value != cell[0].values[0]
    )


@judges(3)
@given(systems(), st.sampled_from([(), ("lossy",)]))
@SEARCHES
def test_engines_agree_with_the_oracle(system: System, faults: tuple[str, ...]) -> None:
    """The same states, depths, transitions, coverage and graph, for both engines."""
    expected = oracle(system, faults)
    ground = Ground(system, SIZES, faults)
    form = program(ground)
    engines: list[Engine] = [PortableEngine(form), NativeEngine(form, workers=2)]
    for engine in engines:
        while engine.step(1_000):
            pass
        identities = [engine.identity(position) for position in range(engine.states)]
        states = {stored(ground, engine.state(identity)) for identity in identities}
        assert states == set(expected.depth)
        assert engine.levels == tuple(
            list(expected.depth.values()).count(d) for d in range(len(engine.levels))
        )
        fired = Counter[Step]()
        for row, count in zip(ground.rows, engine.fired.tolist(), strict=True):
            fired[row.row.name, tuple(row.environment.values())] += count
        assert +fired == expected.fired
        assert _edges(ground, engine) == expected.edges
        engine.close()
    if expected.edges:
        judged()


@given(systems())
@settings(SEARCHES, max_examples=examples(3, SEARCHES.max_examples))
def test_an_assignment_gives_the_cell_that_element_alone(system: System) -> None:
    """All readers share the relation behind a function into a sort, so this knows nothing of it."""
    book = Interpreter(system, SIZES)
    for before, (name, indices), after in oracle(system, ("lossy",)).edges:
        found = system.row(name)
        assert found is not None
        table, row = found
        element = dict(zip(table.parameters(row), indices, strict=True))
        expected = _elements(before)
        for update, chosen in ((u, one) for u in row.do for one in book.environments(u.variables)):
            inner = {**element, **chosen}
            if isinstance(update.symbol, ElementFunction) and (
                    book.holds(update.where, dict(before), inner)):
                *cell, value = update.arguments
                key = update.symbol, tuple(inner[v] for v in cell)
                expected.pop(key, None)
                if value is not ANY:
                    expected[key] = inner[value]
        assert _elements(after) == expected


def _elements(store: Store) -> dict[tuple[Symbol, tuple[int, ...]], int]:
    """The elements in the cells of functions into a sort."""
    held = [(symbol, at) for (symbol, at), _ in store if isinstance(symbol, ElementFunction)]
    elements: dict[tuple[Symbol, tuple[int, ...]], int] = {
        (symbol, at[:-1]): at[-1] for symbol, at in held}
    assert len(elements) == len(held)
    return elements


def _edges(ground: Ground, engine: Engine) -> set[tuple[Store, tuple[str, tuple[int, ...]], Store]]:
    edges = engine.edges()
    at = [stored(ground, engine.state(engine.identity(p))) for p in range(engine.states)]
    return {
        (
            at[source],
            (
                ground.rows[edges.rows[k]].row.name,
                tuple(ground.rows[edges.rows[k]].environment.values()),
            ),
            at[edges.targets[k]],
        )
        for source in range(engine.states)
        for k in range(edges.starts[source], edges.starts[source + 1])
    }


@judges(6)
@given(systems() | systems(sparse=True), st.sampled_from([(), ("lossy",)]))
@settings(SEARCHES, max_examples=examples(8, SEARCHES.max_examples))
def test_reductions_keep_every_verdict(system: System, faults: tuple[str, ...]) -> None:
    """With and without symmetry and dead bits: verdicts, lengths, coverage; and no growth by one.

    Of a `leads_to` the length is that of the run up to its loop, under each fairness.
    """
    expected = oracle(system, faults)
    plain = _check(system, faults, Reductions())
    assert plain.states == len(expected.depth)
    for symmetry, dead_bits in product((False, True), repeat=2):
        reduced = _check(system, faults, Reductions(symmetry, dead_bits))
        assert reduced.complete
        assert reduced.states <= plain.states or (symmetry and dead_bits)
        assert _protocol_rows(reduced) == _protocol_rows(plain)
        assert bool(reduced.deadlocks) == bool(plain.deadlocks)
        for one, two in zip(plain.findings, reduced.findings, strict=True):
            assert (one.name, one.verdict) == (two.name, two.verdict)
            assert _length(one) == _length(two)
            if one.kind in ("always", "sometimes"):
                assert one.note == two.note
        if reduced.states < plain.states:
            judged()


def _length(finding: Finding) -> int | None:
    trace = finding.trace
    return trace.loop if trace is not None and trace.loop is not None else finding.trace_length


def _protocol_rows(result: CheckResult) -> set[str]:
    """The rows that never fired, faults aside: dead bits hide those."""
    return {name for name in result.rows_never_fired if name.startswith(("node", "hub"))}


@judges(6)
@given(systems() | systems(sparse=True), st.booleans(), st.booleans())
@SEARCHES
def test_traces_replay_on_the_oracle(system: System, symmetry: bool, dead_bits: bool) -> None:
    """Every trace, whatever the reductions, is a run of the tables as they are written."""
    oracle(system, ())
    result = _check(system, (), Reductions(symmetry, dead_bits))
    for finding in result.findings:
        if finding.trace is not None:
            _replay(system, finding.trace)
            judged()


def _replay(system: System, trace: Trace) -> None:
    """Fire the trace's rows one by one; after a loop, once more from where it starts."""
    interpreter = Interpreter(system, SIZES)
    store: Store = frozenset()
    steps = list(trace.steps)
    if trace.loop is not None:
        steps += trace.steps[trace.loop :]
    for step in steps:
        found = system.row(step.row)
        assert found is not None
        sorts = [type(v) for v in found[0].parameters(found[1])]
        successors = {
            ", ".join(s.element(k) for s, k in zip(sorts, indices, strict=True)): after
            for (name, indices), after in interpreter.steps(store)
            if name == step.row
        }
        store = successors[step.parameters]


def _check(system: System, faults: tuple[str, ...], reductions: Reductions) -> CheckResult:
    configuration = Configuration(
        SIZES, faults, symmetry=reductions.symmetry, dead_bits=reductions.dead_bits
    )
    return check(system, configuration, CheckSettings(keep_going=True, fairness=tuple(Fairness)))


@judges(examples(0, 1))
@given(systems(), st.sampled_from([(), ("lossy",)]), st.sampled_from(Fairness))
@SEARCHES
def test_liveness_agrees_with_emerson_and_lei(
    system: System, faults: tuple[str, ...], fairness: Fairness
) -> None:
    """The component search against another algorithm: the fixpoint of Emerson and Lei (1986)."""
    assume(fairness in (Fairness.TIMERS, Fairness.DETECTORS))
    explored = oracle(system, faults)
    configuration = Configuration(SIZES, faults)
    result = check(system, configuration, CheckSettings(keep_going=True, fairness=(fairness,)))
    (finding,) = [f for f in result.findings if f.name == "leads_to"]
    expected = pending_for_ever(system, SIZES, explored, fairness)
    assert (finding.verdict == "violated") == expected
    if expected:
        judged()


