"""Clauses: those that follow from others are left out, and a limit of the rest is met in time."""

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.ground.clausal import ClausalForm
from pdproto.ground.clauses import FEW, NEVER, TOO_MANY, joint, product_of, strongest
from pdproto.ground.grounding import CLAUSES_MAX, Ground
from pdproto.ground.program import Clause, Guard, Literal, simplified
from pdproto.spec.language import (
    ANY,
    TRUE,
    Call,
    Formula,
    Machine,
    Rigid,
    Row,
    Sort,
    SpecError,
    System,
    Table,
    any_of,
    count,
    each,
    forall,
    size,
)
from pdproto.spec.language.formula import negated

SIZE = 40  # 1,600 pairs, so 2.6 million clauses, which would take some 300 MB
BYTES_MAX = 16 << 20
MOST = CLAUSES_MAX


class Worker(Sort):
    """Elements in pairs."""


v, w, x = Worker("v"), Worker("w"), Worker("x")
HUB = Machine("hub")
ONE, TWO = HUB.relation("one", Worker, Worker), HUB.relation("two", Worker, Worker)
FLAG = HUB.relation("flag", Worker)
MEMBER = Rigid("member", v)
ALL_IN_ONE_OR_ALL_IN_TWO = any_of(forall((v, w), ONE(v, w)), forall((v, w), TWO(v, w)))


def guarded(condition: Formula) -> Row:
    return Row("go", on=Call("go"), when=[condition], do=[FLAG(x).to(True)], choose=(x,))


def updating(condition: Formula) -> Row:
    return Row("go", on=Call("go"), do=[each(x, FLAG(x).to(True), where=condition)])


def rows_of(row: Row, size: int) -> int:
    return len(Ground(System("pairs", "", (Table(HUB, rows=(row,)),)), {Worker: size}).rows)


CELLS = [Literal(3 << 2 * cell, value << 2 * cell) for cell in range(3) for value in range(4)]
BITS = [Literal(1 << bit, value << bit) for bit in range(6) for value in range(2)]
clauses = st.lists(st.lists(st.sampled_from(CELLS), max_size=4).map(tuple), max_size=6)
of_bits = st.lists(st.lists(st.sampled_from(CELLS + BITS), min_size=1, max_size=3).map(tuple),
                   min_size=1, max_size=6)


@given(clauses=clauses)
def test_the_strongest_clauses_say_the_same(clauses: list[Clause]) -> None:
    """They hold in the same states, and none of them follows from another one."""
    kept = strongest(clauses)
    for state in range(1 << 6):
        assert Guard(clauses=tuple(kept)).holds(state) == Guard(clauses=tuple(clauses)).holds(state)
    assert not [one for one in kept for two in kept if one is not two and {*one} <= {*two}]


@given(first=of_bits, second=of_bits)
def test_clauses_beside_a_guard_say_what_both_say(
    first: list[Clause], second: list[Clause]
) -> None:
    guard = simplified(first)
    whole = guard and simplified(second, guard)
    for state in range(1 << 6):
        assert bool(whole and whole.holds(state)) == Guard(
            clauses=(*first, *second)).holds(state)


@given(parts=st.lists(of_bits, min_size=2, max_size=6))
def test_a_product_holds_where_one_of_its_parts_does(parts: list[list[Clause]]) -> None:
    made = product_of(parts, MOST)
    for state in range(1 << 6):
        assert Guard(clauses=tuple(made)).holds(state) == any(
            Guard(clauses=tuple(part)).holds(state) for part in parts)
    assert len(made) <= FEW or len(made) == len({frozenset(one) for one in made})


def test_a_product_counts_what_is_left() -> None:
    """Of 1,500 clauses with themselves that is themselves, and not two million pairs."""
    part: list[Clause] = [
        (Literal(1 << n, 0), Literal(64 << m, 64 << m)) for n in range(6) for m in range(250)]
    assert {*map(frozenset, product_of([part, part, part], MOST))} == {*map(frozenset, part)}


def test_a_clause_that_always_holds_is_left_out() -> None:
    """Each bit is 0 or 1, or all bits are 1: only the clauses of one bit are left."""
    ones, zeros = (list[Clause]((Literal(1 << n, value << n),) for n in range(90))
                   for value in (1, 0))
    assert len(product_of([ones, zeros], MOST)) == 90 * 89
    assert product_of([ones, zeros, ones], MOST) == product_of([ones, zeros], MOST)


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < BYTES_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("written", [guarded, updating])
def test_a_product_that_is_too_large_is_not_made(written: Callable[[Formula], Row]) -> None:
    with little_memory(), pytest.raises(SpecError, match=r"row .go.: .* has over 10,000"):
        rows_of(written(ALL_IN_ONE_OR_ALL_IN_TWO), SIZE)


def test_a_part_that_always_holds_makes_it_small() -> None:
    with little_memory():
        assert rows_of(guarded(any_of(ALL_IN_ONE_OR_ALL_IN_TWO, TRUE)), 24) == 24


def test_so_does_one_beside_the_large_ones() -> None:
    """It is looked for before the product of the others is made."""
    of_pairs = (forall((v, w), one(v, w)) for one in (ONE, TWO))
    with little_memory():
        assert rows_of(guarded(any_of(*of_pairs, x.same(x))), 24) == 24


def test_a_part_that_never_holds_drops_the_row() -> None:
    with little_memory():
        assert rows_of(guarded(ALL_IN_ONE_OR_ALL_IN_TWO & ~TRUE), SIZE) == 0


Asked = Callable[[Formula, int], tuple[Ground, list[tuple[Formula, int]]]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """A row with this guard at this size, and of what clauses are made for it."""
    noted: list[tuple[Formula, int]] = []
    made = ClausalForm.clauses

    def noting(form: ClausalForm, formula: Formula, at: Mapping[Sort, int]) -> list[Clause]:
        noted.append((formula, at.get(v, -1)))
        return made(form, formula, at)

    def ground(formula: Formula, size: int) -> tuple[Ground, list[tuple[Formula, int]]]:
        row = Row("go", on=Call("go"), when=[formula], do=[FLAG(ANY).to(True)])
        found = Ground(System("pairs", "", (Table(HUB, rows=(row,)),)), {Worker: size},
                       given={MEMBER: frozenset({(0,)})})
        assert len(found.rows) == 1
        return found, noted

    monkeypatch.setattr(ClausalForm, "clauses", noting)
    return ground


def test_of_a_count_no_clauses_are_made_of_its_least_case(asked: Asked) -> None:
    """Here 2 ** 20 of them, where the formula itself has 40 for each element."""
    alike = forall(w, any_of(ONE(v, w) & TWO(v, w), ~ONE(v, w) & ~TWO(v, w)))
    _, noted = asked(count(v, alike) == size(Worker), 20)
    assert negated(alike) not in [formula for formula, _ in noted]


def test_of_a_count_no_clauses_are_made_of_what_a_rigid_relation_excludes(asked: Asked) -> None:
    """Only element 0 is a member. And the members among the members are no more than they are."""
    of_members = MEMBER(v) & FLAG(v)
    found, noted = asked(count(v, of_members) == count(v, MEMBER(v)), 6)
    assert [row.action.guard for row in found.rows] == [
        Guard(*found.layout.literal(FLAG, (0,), True))]
    assert {at for formula, at in noted if formula == of_members} == {0}
    assert negated(of_members) not in [formula for formula, _ in noted]


def test_parts_behind_one_of_too_many_clauses_are_not_made() -> None:
    """Where a diagram is made instead, nobody needs to know what they would say."""
    for join in (joint, product_of):
        parts = iter([TOO_MANY, NEVER])
        assert join(parts, MOST, patient=False) is TOO_MANY
        assert next(parts) is NEVER
