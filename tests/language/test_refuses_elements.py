"""What the language refuses of functions into a sort, and in which words."""

from typing import Any, Final

import pytest

from pdproto.spec.language import ANY, Row, Table
from tests.language.refusals import Build, Refusal, is_refused, refusals, wrong
from tests.language.tiny import Item, Mood, Phase, i, j, t, u, v, w

MALFORMED: Final[list[Refusal]] = []
malformed = refusals(MALFORMED)


@malformed("best(Worker), declared as function('best', Item, its arguments), was given (i: Item): "
           "want a variable of Worker")
def element_of_an_argument_of_the_wrong_sort(a: Any) -> object:
    return a.best(i)  # <- here


@malformed("latest(Item), declared as function('latest', Turn, its arguments), was given (): "
           "want a variable of Item")
def element_without_arguments(a: Any) -> object:
    return a.latest()  # <- here


@malformed("v is no value of best(w): want a variable of Item")
def element_of_the_wrong_sort(a: Any) -> object:
    return a.best(w) == v  # <- here


@malformed("Phase.BUSY is no value of best(w): want a variable of Item")
def element_that_is_a_state(a: Any) -> object:
    return a.best(w).to(wrong(Phase.BUSY))  # <- here


@malformed("None is no value of best(w): write best(w).unset, or best(w).clear() in do=")
def element_compared_with_none(a: Any) -> object:
    return a.best(w) != wrong(None)  # <- here


@malformed("best(v) is no value of best(w): write best(w).same(best(v)) to compare, or choose a "
           "variable of Item that equals best(v)")
def element_of_another_cell(a: Any) -> object:
    return a.best(w) == wrong(a.best(v))  # <- here


@malformed("latest(i) is no value of best(Worker): want a variable of Item, or another function "
           "into it")
def element_of_a_cell_of_another_sort(a: Any) -> object:
    return a.best(w).to(wrong(a.latest(i)))  # <- here


@malformed("best(w).same(i): want another function into Item; with a variable, write best(w) == i")
def element_that_is_the_same_as_a_variable(a: Any) -> object:
    return a.best(w).same(wrong(i))  # <- here


@malformed("Item has no order: declare it ordered=True")
def element_before_another_without_an_order(a: Any) -> object:
    return a.best(w).before(i)  # <- here


@malformed("latest(i) is no number: write latest(i).before(t) or latest(i).after(t), if Turn is "
           "ordered")
def element_less_than_another(a: Any) -> object:
    return a.latest(i) < wrong(t)  # <- here


@malformed("t is no number: write t.before(u), or u.before(t), if Turn is ordered")
def variable_less_than_another(_: Any) -> object:
    return wrong(t) < u  # <- here


@malformed("i is no number: write i.before(j), or j.before(i), if Item is ordered")
def variable_at_least_another(_: Any) -> object:
    return wrong(i) >= j  # <- here


@malformed("row 'work' of worker: best(w) is no formula: a function has a value: compare it, as in "
           "best(w) == i")
def element_as_a_condition(a: Any) -> object:
    return a.system(worker=[Row("work", when=[a.best(w)])])  # <- here


@malformed("row 'work' of worker: two updates can hit one cell of best: "
           "best(w) := i and best(w) := j; they are the same cell: leave one of them out")
def two_elements_for_one_cell(a: Any) -> object:
    return a.system(worker=[
        Row("work", choose=(i, j), do=[a.best(w).to(i), a.best(w).to(j)]),  # <- here
    ])


@malformed("row 'work' of worker: two updates can hit one cell of best: "
           "best(w) := i and best(w) := unset; they are the same cell: leave one of them out")
def element_that_is_cleared_too(a: Any) -> object:
    return a.system(worker=[
        Row("work", choose=(i,), do=[a.best(w).to(i), a.best(w).clear()]),  # <- here
    ])


@malformed("row 'decide' of boss: two updates can hit one cell of latest: "
           "latest(i) := t and latest(j) := u; write i.differs(j) in `when`, or split the row")
def elements_for_cells_that_can_meet(a: Any) -> object:
    return a.system(boss=[
        Row("decide", choose=(i, j, t, u),  # <- here
            do=[a.latest(i).to(t), a.latest(j).to(u)]),
    ])


@malformed("row 'work' of worker: it writes best(v), which is a sibling's: this instance is w; "
           "send a message")
def element_of_a_sibling(a: Any) -> object:
    return a.system(worker=[Row("work", choose=(i, v), do=[a.best(v).to(i)])])  # <- here


@malformed("row 'decide' of boss: it writes best, which is owned by worker")
def element_of_another_machine(a: Any) -> object:
    return a.system(boss=[Row("decide", choose=(i, w), do=[a.best(w).to(i)])])  # <- here


@malformed("row 'work' of worker: j comes neither from the machine nor from the trigger: "
           "name it in choose=, or bind it with forall")
def element_that_nothing_names(a: Any) -> object:
    return a.system(worker=[Row("work", do=[a.best(w).to(j)])])  # <- here


@malformed("row 'work' of worker: the guard: ANY stands only in updates; "
           "bind a variable with forall")
def element_of_every_cell(a: Any) -> object:
    return a.system(worker=[Row("work", when=a.best(ANY).unset)])  # <- here


@malformed("function 'most': edges= and init= are for the values of an enum: a function into a "
           "sort is unset at the start, or with init=ANY any element or unset, as the system's "
           "init= says")
def element_with_edges(a: Any) -> object:
    return a.worker.function("most", Item, edges={})  # <- here


@malformed("function 'most': edges= and init= are for the values of an enum: a function into a "
           "sort is unset at the start, or with init=ANY any element or unset, as the system's "
           "init= says")
def element_at_the_start(a: Any) -> object:
    return a.worker.function("most", Item, init=i)  # <- here


@malformed("relation 'most': init='yes': want True, where it holds for all elements at the start, "
           "False, or ANY, where init= of the system says for which")
def start_in_a_value_of_no_relation(a: Any) -> object:
    return a.worker.relation("most", Item, init="yes")  # <- here


@malformed("init=Mood.CALM is no value of pace: it has Phase.IDLE, Phase.BUSY, Phase.DONE")
def start_in_a_value_of_another_enum(a: Any) -> object:
    return a.worker.function("pace", Phase, init=Mood.CALM)  # <- here


@malformed("state= is best: want a function into an enum of worker without its arguments, "
           "as in state=phase")
def element_as_the_state_of_a_table(a: Any) -> object:
    return Table(a.worker, state=a.best)  # <- here


@malformed("best(Worker) has elements as its values: a device shares a relation, or a function "
           "into an enum")
def element_that_a_device_writes(a: Any) -> object:
    return a.best.shared_with(a.device, writes=[True])  # <- here


@pytest.mark.parametrize(
    ("build", "problem"), MALFORMED, ids=[build.__name__ for build, _ in MALFORMED]
)
def test_a_malformed_spec_is_refused_at_its_line(build: Build, problem: str) -> None:
    is_refused(build, problem)
