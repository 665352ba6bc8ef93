"""The native engine against the portable one, and both against what is known of the programs."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings

from pdproto.check.engine import Engine
from pdproto.check.native import NativeEngine
from pdproto.check.portable import PortableEngine
from pdproto.ground.program import (
    Action,
    Guard,
    Literal,
    Permutation,
    Program,
    Stripe,
    Symmetry,
)
from tests.check.engines import (
    NOWHERE,
    ONE_BIT,
    depth,
    everything,
    explored,
    needs_compiler,
    steps,
    stored,
)
from tests.check.programs import TWO_PHASE_COMMIT_STATES, counters, programs, two_phase_commit
from tests.tiers import examples

MAKERS: dict[str, Callable[[Program], Engine]] = {
    "portable": PortableEngine,
    "native": lambda program: NativeEngine(program, workers=2),
}
makers = pytest.mark.parametrize(
    "make", [MAKERS["portable"], pytest.param(MAKERS["native"], marks=needs_compiler)], ids=MAKERS
)


def assert_same(program: Program) -> None:
    """The two engines agree on all that does not depend on ids."""
    plain = explored(PortableEngine(program))
    fast = explored(NativeEngine(program, workers=2))
    assert (fast.states, fast.levels, fast.stuck[0]) == (plain.states, plain.levels, plain.stuck[0])
    assert fast.fired.tolist() == plain.fired.tolist()
    assert sorted(stored(fast)) == sorted(stored(plain))
    assert steps(fast) == steps(plain)
    depths = [{p: depth(e, i) for p, i in e.hits.items()} for e in (fast, plain)]
    assert depths[0] == depths[1]
    for pattern, identity in fast.hits.items():
        assert program.patterns[pattern].holds(fast.state(identity))
    states = stored(fast)
    for guard in (*program.patterns, *program.final):
        assert fast.where(guard).tolist() == [guard.holds(state) for state in states]
    fast.close()


# ---- What both engines must do


@makers
def test_the_smallest_program(make: Callable[[Program], Engine]) -> None:
    """One bit that is set once: two states, two levels, and then nothing moves."""
    engine = make(ONE_BIT)
    assert (engine.states, engine.frontier, engine.levels, engine.at_level_end) == (1, 1, (), True)
    assert engine.step(1)
    assert (engine.states, engine.frontier, engine.levels) == (2, 1, (1,))
    assert not engine.step(1)
    assert not engine.step(1)
    assert (engine.levels, engine.frontier, engine.at_level_end) == ((1, 1), 0, True)
    zero, one = engine.find(0), engine.find(1)
    assert zero is not None
    assert one is not None
    assert engine.hits == {0: zero, 2: one}
    assert engine.stuck == (1, one)
    assert engine.fired.tolist() == [1]
    assert (engine.parent(zero), engine.parent(one)) == (None, zero)
    assert (engine.find(2), engine.find(-1)) == (None, None)
    assert steps(engine) == {(0, 0, 1)}
    assert engine.bytes > 0


@makers
@pytest.mark.parametrize("participants", [3, 5])
def test_two_phase_commit_has_the_published_states(
    make: Callable[[Program], Engine], participants: int
) -> None:
    engine = explored(make(two_phase_commit(participants)))
    assert engine.states == TWO_PHASE_COMMIT_STATES[participants]
    assert engine.hits == {}
    assert engine.fired.all()
    assert sum(engine.levels) == engine.states


@makers
def test_symmetry_leaves_multisets(make: Callable[[Program], Engine]) -> None:
    """2,232 = the published figure for 9 participants as a multiset of their local states."""
    assert explored(make(two_phase_commit(9, symmetric=True))).states == 2_232


@makers
def test_counters_fill_a_box(make: Callable[[Program], Engine]) -> None:
    """3 * 4 * 5 states; the depth is 2 + 3 + 4; only the far corner is stuck."""
    program = counters([2, 3, 4], bits_each=60)
    assert program.words == 3
    engine = explored(make(program))
    corner = engine.hits[0]
    assert (engine.states, len(engine.levels) - 1) == (60, 9)
    assert engine.stuck == (1, corner)
    assert depth(engine, corner) == 9
    # Each value of a counter below its last is left once for each value of the others.
    assert engine.fired.tolist() == [20] * 2 + [15] * 3 + [12] * 4


@makers
def test_final_states_are_not_stuck(make: Callable[[Program], Engine]) -> None:
    corner = counters([2, 3], bits_each=4).patterns
    plain = counters([2, 3], bits_each=4)
    final = Program(plain.bits, plain.initial, plain.rows, plain.progress, final=corner)
    assert explored(make(final)).stuck == (0, None)


@makers
def test_a_system_without_rows(make: Callable[[Program], Engine]) -> None:
    """Equal initial states are one; every state is stuck, and there are no edges."""
    engine = explored(make(Program(bits=70, initial=(1, 1 << 69, 1), rows=(), progress=())))
    assert (engine.states, engine.levels, engine.stuck[0]) == (2, (2,), 2)
    assert engine.fired.tolist() == []
    assert engine.edges().starts.tolist() == [0, 0, 0]


@makers
def test_a_row_that_only_stutters_is_no_progress(make: Callable[[Program], Engine]) -> None:
    """It fires, but it leaves no edge, and faults that move something do not help either."""
    stutter = Action(Guard(), clear=1, assign=0)
    fault = Action(Guard(), clear=2, assign=2)
    engine = explored(make(Program(2, (0,), (stutter, fault), progress=(True, False))))
    assert engine.fired.tolist() == [2, 2]
    assert engine.stuck == (2, engine.find(0))
    assert steps(engine) == {(0, 1, 2)}


@makers
def test_extreme_words(make: Callable[[Program], Engine]) -> None:
    """A word of ones is a state as good as any, and so is the top bit alone."""
    ones = (1 << 64) - 1
    rows = (Action(Guard(), clear=ones, assign=ones), Action(Guard(), clear=ones, assign=1 << 63))
    program = Program(64, (0,), rows, (True, True), patterns=(Guard(ones, ones), Guard(ones, 0)))
    engine = explored(make(program))
    assert sorted(stored(engine)) == [0, 1 << 63, ones]
    assert engine.hits == {0: engine.find(ones), 1: engine.find(0)}


@makers
def test_guards_that_cannot_hold(make: Callable[[Program], Engine]) -> None:
    """A value outside its mask, a bit beyond the state, an empty clause, an impossible literal."""
    beyond = 1 << 64
    guards = (
        Guard(mask=1, value=2),
        Guard(mask=beyond, value=beyond),
        NOWHERE,
        Guard(clauses=((Literal(1, 2), Literal(beyond, beyond)),)),
        Guard(mask=beyond, clauses=((Literal(beyond, 0),),)),  # but this one always does
    )
    rows = tuple(Action(guard, clear=1, assign=1) for guard in guards)
    engine = explored(make(Program(3, (0,), rows, (True,) * 5, patterns=guards)))
    assert engine.fired.tolist() == [0, 0, 0, 0, 2]
    assert set(engine.hits) == {4}


@makers
def test_clauses_may_span_words(make: Callable[[Program], Engine]) -> None:
    """(low or high) and (not low or not high): exactly one of two bits far apart."""
    low, high = 1, 1 << 130
    either = (Literal(low, low), Literal(high, high))
    neither = (Literal(low, 0), Literal(high, 0))
    program = Program(
        bits=131,
        initial=(0, low, high, low | high),
        rows=(Action(Guard(clauses=(either, neither)), clear=1 << 64, assign=1 << 64),),
        progress=(True,),
        patterns=(Guard(mask=1 << 64, value=1 << 64, clauses=(either, neither)),),
    )
    engine = explored(make(program))
    assert engine.fired.tolist() == [4]
    assert engine.states == 6
    assert engine.where(program.patterns[0]).sum() == 2


@makers
def test_sweeps_are_applied_once_and_in_order(make: Callable[[Program], Engine]) -> None:
    """The second sweep enables the first, too late: bit 0 stays until the next step."""
    first = Action(Guard(mask=2, value=0), clear=1, assign=0)
    second = Action(Guard(mask=4, value=4), clear=2, assign=0)
    row = Action(Guard(mask=8, value=0), clear=8, assign=8)
    engine = explored(make(Program(4, (7,), (row,), (True,), sweeps=(first, second))))
    assert sorted(stored(engine)) == [0b0101, 0b1100]


@makers
def test_permutations_take_the_least_image(make: Callable[[Program], Engine]) -> None:
    """Two fields of whole words change places; the least image has the smaller one on top."""
    word = (1 << 64) - 1
    stay = Permutation(((word, 0), (word << 64, 0)))
    swap = Permutation(((word, 64), (word << 64, -64)))
    symmetry = Symmetry(groups=((stay, swap),))
    program = Program(128, (5 << 64 | 3, 3 << 64 | 5, word), (), (), symmetry=symmetry)
    assert sorted(stored(make(program))) == [word, 3 << 64 | 5]


@makers
def test_columns_of_whole_words_are_sorted(make: Callable[[Program], Engine]) -> None:
    columns = Symmetry(stripes=(Stripe((0, 64, 128), width=64),))
    state = sum(value << 64 * place for place, value in enumerate((9, 1 << 63, 2)))
    assert stored(make(Program(192, (state,), (), (), symmetry=columns))) == [
        2 | 9 << 64 | 1 << 191
    ]


@makers
def test_an_index_that_is_not_there(make: Callable[[Program], Engine]) -> None:
    engine = explored(make(ONE_BIT))
    wrong = (-1, engine.states, 1 << 40)
    for ask in (engine.state, engine.parent, engine.identity, engine.position):
        for number in wrong:
            with pytest.raises(IndexError, match="no state"):
                ask(number)


@makers
def test_positions_and_ids_correspond(make: Callable[[Program], Engine]) -> None:
    engine = explored(make(two_phase_commit(3)))
    identities = [engine.identity(position) for position in range(engine.states)]
    assert [engine.position(identity) for identity in identities] == list(range(engine.states))
    assert [engine.find(engine.state(identity)) for identity in identities] == identities
    assert identities == sorted(set(identities))


@makers
@pytest.mark.parametrize("bits", [0, 300])
def test_parent_chains_are_shortest(make: Callable[[Program], Engine], bits: int) -> None:
    """Each parent is one step nearer, by a distance that is computed here from the edges."""
    program = two_phase_commit(4, bits=bits)
    engine = explored(make(program))
    edges = engine.edges()
    distance = {engine.find(0): 0}
    level = [engine.find(0)]
    while level:
        nearer, level = level, []
        for identity in nearer:
            assert identity is not None
            place = engine.position(identity)
            for target in edges.targets[edges.starts[place] : edges.starts[place + 1]]:
                successor = engine.identity(int(target))
                if successor not in distance:
                    distance[successor] = distance[identity] + 1
                    level.append(successor)
    assert len(distance) == engine.states
    for identity, steps_away in distance.items():
        assert identity is not None
        parent = engine.parent(identity)
        if parent is None:
            assert steps_away == 0
        else:
            assert distance[parent] == steps_away - 1
            successors = [target for _, target in program.steps(engine.state(parent))]
            assert engine.state(identity) in successors


@makers
def test_a_part_of_the_graph(make: Callable[[Program], Engine]) -> None:
    """Before the search has ended, only the states that were expanded have edges."""
    program = two_phase_commit(4)
    engine = make(program)
    for _ in range(5):
        engine.step(1 << 20)
    expanded = engine.states - engine.frontier
    assert expanded == sum(engine.levels)
    edges = engine.edges()
    leaving = np.count_nonzero(np.diff(edges.starts))
    assert engine.frontier > 0
    assert leaving <= expanded
    assert len(edges.rows) == sum(
        target != state
        for state in stored(engine)
        if depth(engine, engine.find(state) or 0) < 5
        for _, target in program.steps(state)
    )


# ---- One against the other


@needs_compiler
@given(program=programs())
def test_native_equals_portable(program: Program) -> None:
    assert_same(program)


@needs_compiler
@given(program=programs(swept=True))
def test_native_equals_portable_when_dead_bits_are_swept(program: Program) -> None:
    assert_same(program)


@needs_compiler
@given(program=programs(symmetric=True))
def test_native_equals_portable_under_symmetry(program: Program) -> None:
    assert_same(program)


@needs_compiler
@given(program=programs(swept=True, symmetric=True))
def test_native_equals_portable_under_every_reduction(program: Program) -> None:
    assert_same(program)


@needs_compiler
@settings(max_examples=examples(15, 50))
@given(program=programs(swept=True, symmetric=True) | programs())
def test_every_processor_finds_the_same(program: Program) -> None:
    """The loops for any processor, and those for the wide instructions of this one."""
    engines = [NativeEngine(program, workers=1, plain=plain) for plain in (False, True)]
    results = [everything(explored(engine), sample=1) for engine in engines]
    assert results[0] == results[1]


@needs_compiler
@pytest.mark.parametrize("bits", [0, 128, 256, 512, 700])
@pytest.mark.parametrize("symmetric", [False, True])
def test_native_equals_portable_at_every_width(bits: int, *, symmetric: bool) -> None:
    assert_same(two_phase_commit(4, bits=bits, symmetric=symmetric))
