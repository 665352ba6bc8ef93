"""What the language refuses of updates of many cells and of sorts of sets, and in which words."""

from typing import Any, Final

import pytest

from pdproto.spec.language import Configuration, Row, Sort, each, majorities
from tests.language.refusals import Build, Refusal, is_refused, refusals, wrong
from tests.language.tiny import Turn, i, j, w

MALFORMED: Final[list[Refusal]] = []
malformed = refusals(MALFORMED)


@malformed("each(i, has(w, j) := True): i names no cell of the update: leave it out, "
           "or write exists(i, ...) in where=")
def each_for_no_cell(a: Any) -> object:
    return each(i, a.has(w, j).to(True), where=a.has(w, i))  # <- here


@malformed("row 'sweep' of worker: best(w) := i for each i where has(w, i): i names no cell of the "
           "update: leave it out, or write exists(i, ...) in where=")
def each_gives_one_cell_many_values(a: Any) -> object:
    return a.system(worker=[
        Row("sweep", do=[each(i, a.best(w).to(i), where=a.has(w, i))]),  # <- here
    ])


@malformed("row 'sweep' of boss: it reads has, which is owned by worker: let a message from worker "
           "bring it")
def each_where_another_machine_knows(a: Any) -> object:
    return a.system(boss=[
        Row("sweep", choose=(i,), do=[each(w, a.knows(w).to(False), where=a.has(w, i))]),  # <- here
    ])


@malformed("row 'sweep' of boss: each: `where` reads report: where it has not arrived, the update "
           "would depend on its absence")
def each_where_a_message_may_be_absent(a: Any) -> object:
    known = each(w, a.knows(w).to(True), where=a.report(w, i))
    return a.system(boss=[Row("sweep", choose=(i,), do=[known])])  # <- here


@malformed("row 'sweep' of worker: forall, exists or each binds w, which is the row's own "
           "parameter: bind another variable of Worker")
def each_binds_the_instance(a: Any) -> object:
    all_have = each(w, a.has(w, i).to(True), where=~a.has(w, i))
    return a.system(worker=[Row("sweep", choose=(i,), do=[all_have])])  # <- here


@malformed("row 'sweep' of worker: j comes neither from the machine nor from the trigger: "
           "name it in choose=, or bind it with forall")
def each_where_nothing_names_the_element(a: Any) -> object:
    return a.system(worker=[
        Row("sweep", do=[each(i, a.has(w, i).to(True), where=a.has(w, j))]),  # <- here
    ])


@malformed("row 'sweep' of worker: near is no formula: it lacks its arguments, variables of "
           "Worker, Worker")
def each_where_no_formula_stands(a: Any) -> object:
    return a.system(worker=[
        Row("sweep", do=[each(i, a.has(w, i).to(True), where=wrong(a.near))]),  # <- here
    ])


@malformed("Committee: want both of=, a sort, and sets=, a function of its size, "
           "as in of=Acceptor, sets=majorities")
def sets_of_nothing(_: Any) -> object:
    class Committee(Sort, sets=majorities):  # <- here
        """Sets of nothing."""

    return Committee


@malformed("Turns: neither a sort of sets nor the sort of its elements is ordered, "
           "and Turn is no sort of sets itself")
def sets_of_an_ordered_sort(_: Any) -> object:
    class Turns(Sort, of=Turn, sets=majorities):  # <- here
        """Sets of turns."""

    return Turns


@malformed("Pair: sets= gives a set with 2 of 2 elements, which are counted from 0")
def a_set_with_an_element_too_many(_: Any) -> object:
    class Player(Sort):
        """One of the elements."""

    class Pair(Sort, of=Player, sets=lambda size: [(size - 1, size)]):
        """Sets counted from one."""

    assert Player.derived == [Pair]
    return Configuration({Player: 2})  # <- here


@pytest.mark.parametrize(
    ("build", "problem"), MALFORMED, ids=[build.__name__ for build, _ in MALFORMED]
)
def test_a_malformed_spec_is_refused_at_its_line(build: Build, problem: str) -> None:
    is_refused(build, problem)
