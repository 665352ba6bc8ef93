"""A search by stubborn sets finds every state in which nothing moves, and leaves rows out."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.ground.program import Program
from tests.bench.stubborn import StubbornSets, bits, moving
from tests.check.programs import Fields, counters
from tests.tiers import examples

FIELDS = ("a", "b", "c", "d")
Rise = tuple[str, int, int, dict[str, int]]


def rising(rises: list[Rise]) -> Program:
    """Fields of two bits. A row raises a field from one value by another, if others have theirs."""
    fields = Fields()
    for name in FIELDS:
        fields.add(name, 2)
    rows = [
        fields.action({**others, name: low}, {name: min(low + more, 3)})
        for name, low, more, others in rises
    ]
    return Program(bits=fields.bits, initial=(0,), rows=tuple(rows), progress=(True,) * len(rows))


names = st.sampled_from(FIELDS)
rises = st.tuples(names, st.integers(0, 2), st.integers(1, 2),
                  st.dictionaries(names, st.integers(0, 3), max_size=2))


def reached(program: Program, chosen: Callable[[int], int]) -> set[int]:
    """The states that are reached by the chosen rows of each."""
    found = set(program.initial)
    left = list(found)
    while left:
        state = left.pop()
        new = {program.rows[row].apply(state) for row in bits(chosen(state))} - found
        found |= new
        left += new
    return found


def assert_the_same_deadlocks(program: Program) -> None:
    every = reached(program, lambda state: moving(program.rows, state))
    fewer = reached(program, StubbornSets(program.rows).smallest)
    assert fewer <= every
    stuck = {state for state in every if not moving(program.rows, state)}
    assert stuck == {state for state in fewer if not moving(program.rows, state)}


@settings(max_examples=examples(30, 100))
@given(rises=st.lists(rises, min_size=2, max_size=10))
def test_every_deadlock_is_found(rises: list[Rise]) -> None:
    assert_the_same_deadlocks(rising(rises))


def test_rows_that_disturb_each_other_are_taken_together() -> None:
    """a rises to 1 or to 2, and then nothing moves."""
    assert_the_same_deadlocks(rising([("a", 0, 1, {}), ("a", 0, 2, {})]))


def test_a_row_that_another_one_makes_possible_is_waited_for() -> None:
    """Once b is 1, a may rise to 2 instead of 1."""
    assert_the_same_deadlocks(rising([("a", 0, 1, {}), ("b", 0, 1, {}), ("a", 0, 2, {"b": 1})]))


def test_independent_counters_rise_one_after_the_other() -> None:
    """3 * 4 * 5 states; without their interleavings there is one run of 2 + 3 + 4 steps."""
    program = counters([2, 3, 4], bits_each=4)
    assert len(reached(program, lambda state: moving(program.rows, state))) == 60
    assert len(reached(program, StubbornSets(program.rows).smallest)) == 10


def test_a_row_that_a_property_sees_is_not_taken_alone() -> None:
    program = counters([2, 3, 4], bits_each=4)
    sets = StubbornSets(program.rows)
    visible = sets.writers_of((1 << program.bits) - 1)
    assert len(reached(program, lambda state: sets.smallest(state, visible))) == 60
