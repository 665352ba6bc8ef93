"""What the language refuses, and in which words: one error, at the line that is to blame.

Each malformed spec is a function; the line to blame ends in the marker. Its argument is typed Any,
because a type checker refuses much of this as well (test_language_typing.py).
"""

import inspect
from typing import Any, Final

import pytest

from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Configuration,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    Rigid,
    Row,
    Sometimes,
    Sort,
    SpecError,
    System,
    Table,
    all_of,
    any_of,
    each,
    forall,
    lose,
)
from tests.language.refusals import Build, Refusal, is_refused, refusals, wrong
from tests.language.tiny import Item, Mood, Nothing, Parts, Phase, Worker, i, j, v, w

MALFORMED: Final[list[Refusal]] = []
malformed = refusals(MALFORMED)

COMPUTED: Final = (
    "is no formula, because Python has computed it at once: compare a function with ==, variables "
    "with same() and differs(), and write heard(p) or ~heard(p) for a relation"
)

# Declarations.


@malformed("a variable needs a sort: declare `class Thing(Sort)` first")
def variable_without_a_sort(_: Any) -> object:
    return Sort("p")  # <- here


@malformed("variable 'two words': want an identifier such as 'p'")
def variable_that_is_no_identifier(_: Any) -> object:
    return Worker("two words")  # <- here


@malformed("Worker has no order: declare it ordered=True")
def order_of_an_unordered_sort(_: Any) -> object:
    return w.before(v)  # <- here


@malformed("name 'is busy': want an identifier such as 'heard'")
def symbol_that_is_no_identifier(a: Any) -> object:
    return a.worker.relation("is busy")  # <- here


@malformed("state: its enum has no members")
def function_into_an_empty_enum(a: Any) -> object:
    return a.worker.function("state", Nothing)  # <- here


@malformed("owns: i is no sort: write Item")
def relation_declared_with_a_variable(a: Any) -> object:
    return a.worker.relation("owns", i)  # <- here


@malformed("beside: Worker is no variable: write Worker('w')")
def rigid_declared_with_a_sort(_: Any) -> object:
    return Rigid("beside", wrong(Worker))  # <- here


@malformed("machine 'clerk': want variables, such as Rank('r')")
def machine_declared_with_a_sort(_: Any) -> object:
    return Machine("clerk", Worker)  # <- here


@malformed("worker.at(Worker) was given (i,): want a variable of Worker")
def instance_named_by_another_sort(a: Any) -> object:
    return a.worker.at(i)  # <- here


@malformed("worker declares has twice")
def variable_declared_twice(a: Any) -> object:
    return a.worker.relation("has")  # <- here


@malformed("has(Worker, Item) was given (w: Worker): want variables of Worker, Item")
def too_few_arguments(a: Any) -> object:
    return a.has(w)  # <- here


@malformed("has(Worker, Item) was given (i: Item, w: Worker): "
           "want variables of Worker, Item")
def arguments_of_the_wrong_sort(a: Any) -> object:
    return a.has(i, w)  # <- here


@malformed("has(Worker, Item) was given (w: Worker, 0): want variables of Worker, Item")
def number_as_an_argument(a: Any) -> object:
    return a.has(w, 0)  # <- here


@malformed("Mood.CALM is no value of phase(Worker): it has Phase.IDLE, Phase.BUSY, Phase.DONE")
def comparison_with_another_enum(a: Any) -> object:
    return a.phase(w) == Mood.CALM  # <- here


@malformed("Mood.CALM is no value of phase(Worker): it has Phase.IDLE, Phase.BUSY, Phase.DONE")
def update_to_another_enum(a: Any) -> object:
    return a.phase(w).to(Mood.CALM)  # <- here


@malformed("1: a relation takes True or False")
def update_of_a_relation_to_a_number(a: Any) -> object:
    return a.has(w, i).to(1)  # <- here


@malformed("None: a relation takes True or False")
def update_of_a_message_to_nothing(a: Any) -> object:
    return a.stop().to(None)  # <- here


@malformed("pace: edges name Mood.CALM, which is no value of it")
def edges_from_another_enum(a: Any) -> object:
    return a.worker.function("pace", Phase, edges={Mood.CALM: ()})  # <- here


@malformed("pace: edges name Mood.CALM, which is no value of it")
def edges_to_another_enum(a: Any) -> object:
    return a.worker.function("pace", Phase, edges={Phase.IDLE: (Mood.CALM,)})  # <- here


@malformed("knows(Worker): device's own sorts must come first")
def device_variable_of_other_sorts(a: Any) -> object:
    device: Any = Machine("device", i)
    return a.knows.shared_with(device, [True])  # <- here


@malformed("tell: an argument occurs twice")
def message_with_one_argument_twice(a: Any) -> object:
    return Message("tell", w, w, sender=a.worker, receiver=a.boss)  # <- here


@malformed("tell(Item) does not name its sender: add w")
def message_from_nobody(a: Any) -> object:
    return Message("tell", i, sender=a.worker, receiver=a.boss)  # <- here


@malformed("tell carries knows, which is not its sender's")
def message_that_carries_what_its_sender_has_not(a: Any) -> object:
    return Message("tell", w, sender=a.worker, receiver=a.boss, carries=[a.knows])  # <- here


@malformed("has(w, i) has no truth value here: use &, |, ~ and parentheses, "
           "and among() instead of `in`")
def formulas_joined_with_and(a: Any) -> object:
    return a.has(w, i) and a.has(w, j)  # <- here


# Names in a system.


@malformed("machine 'boss' is declared twice, first at {path}:{first}")
def two_machines_of_one_name(a: Any) -> object:
    other = Machine("boss")  # <- here
    return a.system(faults={"layer": (Table(other),)})


@malformed("row 'work' is declared twice, first at {path}:{first}")
def two_rows_of_one_name(a: Any) -> object:
    return a.system(
        worker=[Row("work", at=Phase.IDLE, to=Phase.BUSY)],
        boss=[Row("work")],  # <- here
    )


@malformed("property 'calm' is declared twice, first at {path}:{first}")
def two_properties_of_one_name(a: Any) -> object:
    calm = Always("calm", a.mood() == Mood.CALM)
    return a.system(properties=[calm, Sometimes("calm", a.mood() == Mood.CALM)])  # <- here


@malformed("symbol 'has' is declared twice, first at {path}:{first}")
def two_symbols_of_one_name(a: Any) -> object:
    a.boss.relation("has")  # <- here
    return a.system()


@malformed("sort 'Item' is declared twice, first at {path}:{first}")
def two_sorts_of_one_name(a: Any) -> object:
    class Item(Sort):
        """Not the other one."""

    a.boss.relation("seen", Item)
    tables = (Table(a.worker), Table(a.boss))
    return System("tiny", "A tiny system.", tables=tables)  # <- here


@malformed("row 'blame': note belongs to no machine of the system")
def row_that_speaks_of_an_absent_machine(a: Any) -> object:
    note = Machine("absent").relation("note")
    return a.system(world=[Row("blame", when=note())])  # <- here


@malformed("tell: its receiver has no table here")
def message_to_an_absent_machine(a: Any) -> object:
    Message("tell", sender=a.boss, receiver=Machine("absent"))  # <- here
    return a.system()


@malformed("property 'noted': note belongs to no machine of the system")
def property_that_speaks_of_an_absent_machine(a: Any) -> object:
    note = Machine("absent").relation("note")
    return a.system(properties=[Always("noted", note())])  # <- here


@malformed("property 'all': ANY stands only in updates; bind a variable with forall")
def property_with_any(a: Any) -> object:
    return a.system(properties=[Always("all", a.has(w, ANY))])  # <- here


@malformed("property 'safe': there is no row 'wrok'")
def property_on_a_row_that_is_not_there(a: Any) -> object:
    return a.system(properties=[OnRow("safe", "wrok", TRUE)])  # <- here


@malformed("final: bind its variables with forall or exists")
def final_with_a_free_variable(a: Any) -> object:
    tables = (Table(a.worker), Table(a.boss))
    return System("tiny", "A tiny system.", tables, final=a.phase(w) == Phase.DONE)  # <- here


@malformed("axiom calm: it may use rigid symbols only")
def axiom_about_what_changes(a: Any) -> object:
    tables = (Table(a.worker), Table(a.boss))
    calm = {"calm": a.mood() == Mood.CALM}
    return System("tiny", "A tiny system.", tables, axioms=calm)  # <- here


@malformed("configuration 'default': there is no fault layer 'crash'; there is: none")
def configuration_with_an_unknown_layer(a: Any) -> object:
    tables = (Table(a.worker), Table(a.boss))
    sizes = {"default": Configuration({Worker: 2, Item: 1}, faults=("crash",))}
    return System("tiny", "A tiny system.", tables, configurations=sizes)  # <- here


# What is none of the language's words.


@malformed("row 'obey' of worker: on=stop is no trigger: "
           "want a message with its arguments, Call, Timer or Completion")
def trigger_without_its_arguments(a: Any) -> object:
    return a.system(worker=[Row("obey", on=a.stop)])  # <- here


@malformed(f"row 'work' of worker: False {COMPUTED}")
def guard_written_with_is(a: Any) -> object:
    return a.system(worker=[Row("work", when=wrong(a.phase(w) is Phase.IDLE))])  # <- here


@malformed("row 'work' of worker: has is no formula: "
           "it lacks its arguments, variables of Worker, Item")
def guard_without_its_arguments(a: Any) -> object:
    return a.system(worker=[Row("work", when=[~any_of(all_of(a.stop(), a.has))])])  # <- here


@malformed("row 'work' of worker: choose has Item: want variables, such as (p,)")
def choice_of_a_sort(a: Any) -> object:
    return a.system(worker=[Row("work", choose=wrong((Item,)))])  # <- here


@malformed("row 'work' of worker: do has True: want updates, such as heard(p).to(True)")
def comparison_in_the_place_of_an_update(a: Any) -> object:
    return a.system(worker=[Row("work", do=wrong([True]))])  # <- here


@malformed("row 'work' of boss: send has stop: "
           "want messages with their arguments, or each(...)")
def send_without_its_arguments(a: Any) -> object:
    return a.system(boss=[Row("work", send=[a.stop])])  # <- here


@malformed("row 'work' of boss: near is no formula: "
           "it lacks its arguments, variables of Worker, Worker")
def each_where_no_formula_is(a: Any) -> object:
    return a.system(boss=[
        Row("work", choose=(i,), send=[each(w, a.order(w, i), where=a.near)]),  # <- here
    ])


@malformed("row 'skip' of worker: ignores change nothing: write it as a Row")
def ignore_that_changes_something(a: Any) -> object:
    return a.system(worker=[
        Row("skip", on=a.stop(), to=Phase.DONE, kind="ignore", why="so be it"),  # <- here
    ])


@malformed(f"property 'calm': True {COMPUTED}")
def property_that_is_a_truth(a: Any) -> object:
    return a.system(properties=[Always("calm", forall(w, wrong(True)))])  # <- here


@malformed("property 'soon': None is no formula: use ==, != and among, and join with &, |, ~")
def goal_that_is_nothing(a: Any) -> object:
    return a.system(properties=[LeadsTo("soon", TRUE, wrong(None))])  # <- here


@malformed(f"final: True {COMPUTED}")
def final_that_is_a_truth(a: Any) -> object:
    tables = (Table(a.worker), Table(a.boss))
    return System("tiny", "A tiny system.", tables, final=wrong(True))  # <- here


@malformed("axiom near: near is no formula: it lacks its arguments, variables of Worker, Worker")
def axiom_without_its_arguments(a: Any) -> object:
    tables = (Table(a.worker), Table(a.boss))
    return System("tiny", "A tiny system.", tables, axioms={"near": a.near})  # <- here


@pytest.mark.parametrize(
    ("build", "problem"), MALFORMED, ids=[build.__name__ for build, _ in MALFORMED]
)
def test_a_malformed_spec_is_refused_at_its_line(build: Build, problem: str) -> None:
    is_refused(build, problem)


def test_no_malformed_spec_hides_another() -> None:
    assert len({build.__name__ for build, _ in MALFORMED}) == len(MALFORMED)


def test_a_second_declaration_names_the_first() -> None:
    parts = Parts()
    first = Row("work")
    with pytest.raises(SpecError) as caught:
        parts.system(worker=[first], boss=[Row("work")])
    assert caught.value.problem == f"row 'work' is declared twice, first at {first.place}"


def test_a_row_of_several_lines_stands_where_it_begins() -> None:
    row = Row(
        "work",
        at=Phase.IDLE,
        to=Phase.BUSY,
    )
    start = inspect.getsourcelines(test_a_row_of_several_lines_stands_where_it_begins)[1]
    assert row.place.line == start + 1


def test_rows_that_the_language_makes_stand_in_the_spec() -> None:
    parts = Parts()
    rows = [lose(parts.stop), Ignore(parts.stop(), why="so"), Reject(parts.stop(), why="so")]
    assert {row.place.path.endswith("tests/language/test_refuses.py") for row in rows} == {True}
