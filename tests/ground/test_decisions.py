"""Decision diagrams that engines walk, beside the formulas that they stand for."""

from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from pdproto.ground.decisions import DecisionDiagram
from pdproto.ground.diagrams import Diagrams

# By the offset of a cell of two bits, how many values it has: a cell of three has an unused code.
CELLS = {0: 4, 2: 3, 4: 3, 6: 4}
Choice = tuple[int, int, bool]  # the offset of a cell, a code, and whether the cell has it or not
choices = st.sampled_from([
    (offset, code, positive)
    for offset, values in CELLS.items() for code in range(values) for positive in (True, False)])
formulas = st.lists(st.lists(choices, min_size=1, max_size=3), min_size=1, max_size=4)
cubes = st.dictionaries(st.sampled_from([*CELLS]), st.integers(0, 2), max_size=3)


def holds(formula: Sequence[Sequence[Choice]], state: int) -> bool:
    """Whether each part of the formula has a choice that the state makes true."""
    return all(any(((state >> offset & 3) == code) == positive for offset, code, positive in part)
               for part in formula)


def decided(formula: Sequence[Sequence[Choice]]) -> DecisionDiagram | bool:
    diagrams = Diagrams()
    return diagrams.decision(diagrams.all_of(
        diagrams.any_of(diagrams.cell(3 << offset, CELLS[offset], code, positive=positive)
                        for offset, code, positive in part) for part in formula))


def states() -> list[int]:
    return [sum(code << offset for offset, code in zip(CELLS, codes, strict=True))
            for codes in product(*map(range, CELLS.values()))]


@given(formula=formulas)
def test_a_walk_ends_at_what_the_formula_says(formula: list[list[Choice]]) -> None:
    """Also the walk of the negation, and the walk about other cells, here four bits further up."""
    decision = decided(formula)
    for state in states():
        if not isinstance(decision, DecisionDiagram):
            assert decision == holds(formula, state)
            continue
        assert decision.holds(state) == holds(formula, state)
        assert decision.negated.holds(state) != holds(formula, state)
        assert decision.mapped(lambda mask: mask << 4).holds(state << 4) == holds(formula, state)


@given(formula=formulas, known=cubes)
def test_beside_known_cells_the_rest_is_asked(
    formula: list[list[Choice]], known: dict[int, int]
) -> None:
    decision = decided(formula)
    if not isinstance(decision, DecisionDiagram):
        return
    mask = sum(3 << offset for offset in known)
    value = sum(code << offset for offset, code in known.items())
    rest = decision.beside(mask, value)
    for state in states():
        if state & mask == value:
            assert (rest.holds(state) if isinstance(rest, DecisionDiagram) else rest) == holds(
                formula, state)
    if isinstance(rest, DecisionDiagram):
        assert not rest.reads & mask


@given(formula=formulas)
def test_the_boxes_of_a_walk_are_the_states_in_which_it_holds(formula: list[list[Choice]]) -> None:
    """Each state is in one box, or in none."""
    decision = decided(formula)
    if isinstance(decision, DecisionDiagram):
        boxes = [*decision.boxes()]
        for state in states():
            within = [box for box in boxes if all(
                codes >> ((state & mask) // (mask & -mask)) & 1 for mask, codes in box.items())]
            assert len(within) == holds(formula, state)


@given(formula=formulas, unknown=st.sets(st.sampled_from([*CELLS])))
def test_it_may_hold_where_some_values_of_unknown_cells_make_it_hold(
    formula: list[list[Choice]], unknown: set[int]
) -> None:
    decision = decided(formula)
    if isinstance(decision, DecisionDiagram):
        bits = sum(3 << offset for offset in unknown)
        for state in states():
            alike = [one for one in states() if not (one ^ state) & ~bits]
            assert decision.may_hold(state, bits) == any(holds(formula, one) for one in alike)
