"""The limit of clauses: they are counted before they are made."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pdproto.ground.grounding import Ground
from pdproto.spec.language import (
    TRUE,
    Call,
    Formula,
    Machine,
    Row,
    Sort,
    SpecError,
    System,
    Table,
    any_of,
    each,
    forall,
)

SIZE = 40  # 1,600 pairs, so 2.6 million clauses, which would take some 300 MB
BYTES_MAX = 16 << 20


class Worker(Sort):
    """Elements in pairs."""


v, w, x = Worker("v"), Worker("w"), Worker("x")
HUB = Machine("hub")
ONE, TWO = HUB.relation("one", Worker, Worker), HUB.relation("two", Worker, Worker)
FLAG = HUB.relation("flag", Worker)
ALL_IN_ONE_OR_ALL_IN_TWO = any_of(forall((v, w), ONE(v, w)), forall((v, w), TWO(v, w)))


def guarded(condition: Formula) -> Row:
    return Row("go", on=Call("go"), when=[condition], do=[FLAG(x).to(True)], choose=(x,))


def updating(condition: Formula) -> Row:
    return Row("go", on=Call("go"), do=[each(x, FLAG(x).to(True), where=condition)])


def rows_of(row: Row, size: int) -> int:
    return len(Ground(System("pairs", "", (Table(HUB, rows=(row,)),)), {Worker: size}).rows)


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


def test_a_conjunction_is_counted_too() -> None:
    """Two parts of 4,096 clauses are one guard; of three the diagram is, with one cube."""
    parts = [any_of(forall((v, w), one(v, w)), forall((v, w), TWO(v, w))) for one in (ONE, TWO)]
    assert rows_of(guarded(parts[0] & parts[0]), 8) == 8
    assert rows_of(guarded(parts[0] & parts[0] & parts[1]), 8) == 8
