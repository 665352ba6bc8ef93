"""Receivers begin in the order in which they were made."""

from itertools import permutations

import pytest

from pdproto.sglang.turns import Turns


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_is_that_of_the_numbers(order: tuple[int, ...]) -> None:
    turns, done = Turns(), list[int]()
    assert [turns.draw() for _ in range(3)] == [0, 1, 2]
    for number in order:
        turns.take(number, lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == [0, 1, 2]


def test_a_turn_that_is_passed_holds_up_nobody_and_comes_once() -> None:
    turns, done = Turns(), list[int]()
    for _ in range(3):
        turns.draw()
    turns.take(1, lambda: done.append(1))
    turns.skip(1)  # it has been taken
    assert done == []
    turns.skip(0)
    assert done == [1]
    turns.take(0, lambda: done.append(0))
    turns.take(1, lambda: done.append(1))
    turns.take(2, lambda: done.append(2))
    assert done == [1, 2]
