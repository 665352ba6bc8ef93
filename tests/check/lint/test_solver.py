"""The solver against brute force: the same answers on random guards, and honest witnesses."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from pdproto.check.lint.solver import Constraint, GuardCells, after, solve
from pdproto.ground.layout import Field
from pdproto.ground.program import Action, Guard, Literal

VALUES = (2, 3, 4, 2)  # the number of values of each cell
FIELDS = (Field(0, 1), Field(1, 2), Field(3, 2), Field(5, 1))
CELLS = GuardCells(zip(FIELDS, VALUES, strict=True))
STATES = tuple(
    sum(code << field.offset for code, field in zip(codes, FIELDS, strict=True))
    for codes in product(*map(range, VALUES))
)

cells = st.integers(0, len(VALUES) - 1)
literals = st.builds(
    lambda cell, code: Literal(FIELDS[cell].mask, code % VALUES[cell] << FIELDS[cell].offset),
    cells,
    st.integers(0, 11),
)


@st.composite
def cubes(draw: st.DrawFn) -> tuple[int, int]:
    chosen = draw(st.lists(literals, max_size=2, unique_by=lambda literal: literal.mask))
    return sum(t.mask for t in chosen), sum(t.value for t in chosen)


guards = st.builds(
    lambda cube, clauses: Guard(cube[0], cube[1], tuple(map(tuple, clauses))),
    cubes(),
    st.lists(st.lists(literals, min_size=1, max_size=3), max_size=6),
)
updates = st.builds(lambda cube: Action(Guard(), *cube), cubes())


def brute_force(holding: list[Guard], failing: list[Guard]) -> list[int]:
    return [
        state
        for state in STATES
        if all(guard.holds(state) for guard in holding)
        and not any(guard.holds(state) for guard in failing)
    ]


def states_in(solution: dict[int, int]) -> list[int]:
    """Every state that agrees with a solution."""
    return [
        state
        for state in STATES
        if all(
            solution.get(offset, full) & codes
            for offset, full in CELLS.full.items()
            for codes in [CELLS.codes((1 << 6) - 1, state)[offset]]
        )
    ]


@given(st.lists(guards, max_size=4), st.lists(guards, max_size=4))
def test_it_finds_a_solution_exactly_where_there_is_one(
    holding: list[Guard], failing: list[Guard]
) -> None:
    constraints = [c for guard in holding for c in CELLS.holds(guard)]
    constraints += [CELLS.fails(guard) for guard in failing]
    solution = solve(CELLS.full, constraints)
    expected = brute_force(holding, failing)
    assert (solution is not None) == bool(expected)
    if solution is not None:
        found = states_in(solution)
        assert found
        assert set(found) <= set(expected)


@given(st.lists(guards, max_size=3), st.integers(1, 15), st.integers(1, 7))
def test_it_stays_within_the_domains(holding: list[Guard], third: int, second: int) -> None:
    constraints = [c for guard in holding for c in CELLS.holds(guard)]
    domains = {**CELLS.full, 3: third, 1: second}
    allowed = [
        state
        for state in brute_force(holding, [])
        if 1 << (state >> 3 & 3) & third and 1 << (state >> 1 & 3) & second
    ]
    assert (solve(domains, constraints) is not None) == bool(allowed)


@given(guards, updates)
def test_a_constraint_on_the_state_after_an_update(guard: Guard, update: Action) -> None:
    written = CELLS.codes(update.clear, update.assign)
    for constraints, wanted in (
        (CELLS.holds(guard), True),
        ((CELLS.fails(guard),), False),
    ):
        before = [after(constraint, written) for constraint in constraints]
        expected = [s for s in STATES if guard.holds(update.apply(s)) == wanted]
        solution = solve(CELLS.full, before)
        assert (solution is not None) == bool(expected)
        if solution is not None:
            assert set(states_in(solution)) <= set(expected)


def test_it_backtracks() -> None:
    # Neither value of cell 0 agrees with both values of cell 5, so every branch fails.
    pairs = [({0: 1 << one}, {5: 1 << two}) for one, two in product((0, 1), repeat=2)]
    assert solve(CELLS.full, pairs) is None
    assert solve(CELLS.full, pairs[:3]) == {0: 0b01, 5: 0b01}
    # The same with boxes over two cells: 0 and 5 are both 0, or both 1; and they differ.
    equal = ({0: 0b01, 5: 0b01}, {0: 0b10, 5: 0b10})
    unequal = ({0: 0b01, 5: 0b10}, {0: 0b10, 5: 0b01})
    assert solve(CELLS.full, [equal, unequal]) is None
    # What has been searched in vain is excluded, until nothing of the cell is left.
    split = ({0: 0b01}, {0: 0b10})
    assert solve(CELLS.full, [split, equal, unequal]) is None
    assert solve(CELLS.full, [equal, equal[1:]]) == {0: 0b10, 5: 0b10}


def test_no_constraint_is_solved_and_an_empty_one_is_not() -> None:
    assert solve(CELLS.full, ()) == {}
    never: Constraint = ()
    assert solve(CELLS.full, [never]) is None


def test_a_state_is_given_cell_by_cell() -> None:
    # 1, 2, 3 and 0 in cells that start at bits 0, 1, 3 and 5.
    assert CELLS.codes((1 << 6) - 1, 0b0_11_10_1) == {0: 1 << 1, 1: 1 << 2, 3: 1 << 3, 5: 1 << 0}
