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
    AddClause,
    AddFaults,
    AddRow,
    Always,
    Call,
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    ReplaceRow,
    Retarget,
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
    edited,
    exists,
    forall,
    implies,
    lose,
)
from tests.language.refusals import Build, Refusal, is_refused, refusals, wrong
from tests.language.tiny import Item, Mood, Nothing, Parts, Phase, Turn, Worker, i, j, v, w

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


@malformed(
    "owns: functions and relations are declared with sorts (Rank), "
    "messages and rigid symbols with variables (Rank('r'))"
)
def relation_declared_with_a_variable(a: Any) -> object:
    return a.worker.relation("owns", i)  # <- here


@malformed(
    "beside: functions and relations are declared with sorts (Rank), "
    "messages and rigid symbols with variables (Rank('r'))"
)
def rigid_declared_with_a_sort(_: Any) -> object:
    return Rigid("beside", wrong(Worker))  # <- here


@malformed("machine 'clerk': want variables, such as Rank('r')")
def machine_declared_with_a_sort(_: Any) -> object:
    return Machine("clerk", Worker)  # <- here


@malformed("worker.at(Worker) was given (i,)")
def instance_named_by_another_sort(a: Any) -> object:
    return a.worker.at(i)  # <- here


@malformed("worker declares has twice")
def variable_declared_twice(a: Any) -> object:
    return a.worker.relation("has")  # <- here


@malformed("has(Worker, Item) was given (w: Worker)")
def too_few_arguments(a: Any) -> object:
    return a.has(w)  # <- here


@malformed("has(Worker, Item) was given (i: Item, w: Worker)")
def arguments_of_the_wrong_sort(a: Any) -> object:
    return a.has(i, w)  # <- here


@malformed("has(Worker, Item) was given (w: Worker, 0)")
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


@malformed("a formula has no truth value here: use &, |, ~ and parentheses")
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


# Rows: states, triggers and parameters.


@malformed("row 'work' of worker: it has at/to, but its table has no state=")
def state_in_a_table_without_one(a: Any) -> object:
    tables = (Table(a.worker, rows=(
        Row("work", to=Phase.BUSY),  # <- here
    )), Table(a.boss))
    return System("tiny", "A tiny system.", tables)


@malformed("row 'work' of worker: state=mood is not worker's")
def state_of_another_machine(a: Any) -> object:
    tables = (Table(a.worker, state=a.mood, rows=(
        Row("work", to=Mood.CALM),  # <- here
    )), Table(a.boss))
    return System("tiny", "A tiny system.", tables)


@malformed("the table of worker has no row 'wrok'; it has: work, rest")
def row_by_a_name_that_is_none(a: Any) -> object:
    table = Table(a.worker, state=a.phase, rows=(Row("work"), Row("rest")))
    return table.row("wrok")  # <- here


@malformed("the table of worker has no row 'play'; it has: work, rest")
def table_without_a_row_that_is_none(a: Any) -> object:
    table = Table(a.worker, state=a.phase, rows=(Row("work"), Row("rest")))
    return table.without("rest", "play")  # <- here


@malformed("row 'work' of worker: state=write must be one value for each instance")
def state_with_more_arguments(a: Any) -> object:
    tables = (Table(a.worker, state=a.write, rows=(
        Row("work"),  # <- here
    )), Table(a.boss))
    return System("tiny", "A tiny system.", tables)


@malformed("row 'work' of worker: Mood.CALM is no value of phase(Worker): "
           "it has Phase.IDLE, Phase.BUSY, Phase.DONE")
def state_out_of_another_enum(a: Any) -> object:
    return a.system(worker=[Row("work", at=Phase.IDLE, to=Mood.CALM)])  # <- here


@malformed("row 'obey' of boss: order goes to worker, not here")
def trigger_that_goes_elsewhere(a: Any) -> object:
    return a.system(boss=[Row("obey", on=a.order(w, i))])  # <- here


@malformed("row 'obey' of worker: order(Worker, Item) must name its receiver: this instance is w")
def trigger_addressed_to_a_sibling(a: Any) -> object:
    return a.system(worker=[Row("obey", on=a.order(v, i))])  # <- here


@malformed("row 'obey' of worker: the trigger: ANY stands only in updates; "
           "bind a variable with forall")
def trigger_with_any(a: Any) -> object:
    return a.system(worker=[Row("obey", on=a.order(w, ANY))])  # <- here


@malformed("row 'pick' of worker: two sorts share the variable name 'x'")
def one_name_for_two_sorts(a: Any) -> object:
    return a.system(
        worker=[Row("pick", on=Call("pick", Item("x")), choose=(Turn("x"),))],  # <- here
    )


@malformed("row 'obey' of worker: choose=i: the trigger already gives it")
def choice_of_what_is_given(a: Any) -> object:
    return a.system(worker=[Row("obey", on=a.order(w, i), choose=(i,))])  # <- here


UNBOUND: Final = (
    "comes neither from the machine nor from the trigger: name it in choose=, "
    "or bind it with forall"
)


@malformed(f"row 'work' of worker: i {UNBOUND}")
def guard_with_an_unbound_variable(a: Any) -> object:
    return a.system(worker=[Row("work", when=a.has(w, i))])  # <- here


@malformed(f"row 'work' of worker: i {UNBOUND}")
def update_with_an_unbound_variable(a: Any) -> object:
    return a.system(worker=[Row("work", do=[a.has(w, i).to(True)])])  # <- here


@malformed(f"row 'work' of worker: i {UNBOUND}")
def send_with_an_unbound_variable(a: Any) -> object:
    return a.system(worker=[Row("work", send=[a.report(w, i)])])  # <- here


@malformed(f"row 'work' of boss: v {UNBOUND}")
def each_with_an_unbound_variable(a: Any) -> object:
    return a.system(boss=[
        Row("work", choose=(i,),  # <- here
            send=[each(w, a.order(w, i), where=a.near(w, v))]),
    ])


SHADOWED: Final = (
    "forall, exists or each binds w, which is the row's own parameter: "
    "bind another variable of Worker"
)


@malformed(f"row 'wait' of worker: {SHADOWED}")
def forall_over_oneself(a: Any) -> object:
    return a.system(worker=[
        Row("wait", when=forall(w, a.phase(w) == Phase.IDLE)),  # <- here
    ])


@malformed(f"row 'wait' of worker: {SHADOWED}")
def exists_over_oneself(a: Any) -> object:
    return a.system(worker=[
        Row("wait", when=~exists((w, i), a.has(w, i))),  # <- here
    ])


@malformed(f"row 'tell' of worker: {SHADOWED}")
def each_over_oneself(a: Any) -> object:
    return a.system(worker=[
        Row("tell", choose=(i,), send=[each(w, a.report(w, i))]),  # <- here
    ])


# Rows: what an instance may know.


@malformed("row 'peek' of worker: the guard: ANY stands only in updates; "
           "bind a variable with forall")
def guard_with_any(a: Any) -> object:
    return a.system(worker=[Row("peek", when=a.has(w, ANY))])  # <- here


@malformed("row 'peek' of worker: it reads secret, which is visible to [boss] only")
def guard_about_a_hidden_rigid(a: Any) -> object:
    return a.system(worker=[Row("peek", when=a.secret(w))])  # <- here


@malformed("row 'peek' of worker: it reads knows, which is owned by boss")
def guard_about_another_machine(a: Any) -> object:
    return a.system(worker=[Row("peek", when=a.knows(w))])  # <- here


@malformed("row 'peek' of worker: it reads phase(v), which is a sibling's: this instance is w")
def guard_about_a_sibling(a: Any) -> object:
    return a.system(worker=[
        Row("peek", when=forall(v, a.phase(v) == Phase.IDLE)),  # <- here
    ])


@malformed("row 'peek' of boss: listing carries has of its own sender only")
def guard_about_what_another_sender_carries(a: Any) -> object:
    return a.system(boss=[
        Row("peek", on=a.listing(w), choose=(v,), when=forall(j, a.has(v, j))),  # <- here
    ])


@malformed("row 'peek' of boss: it reads has, which is owned by worker")
def guard_about_what_the_trigger_does_not_carry(a: Any) -> object:
    return a.system(boss=[Row("peek", on=a.report(w, i), when=a.has(w, i))])  # <- here


@malformed("row 'once' of worker: it reads report, which worker sends, and a property is judged "
           "where delivery takes messages off the network: keep a relation that says it has been "
           "sent")
def guard_on_a_message_that_its_machine_sends(a: Any) -> object:
    once = Row("once", choose=(i,), when=~a.report(w, i), send=[a.report(w, i)])  # <- here
    claim = LeadsTo("heard", a.report(w, i), a.knows(w), under=(Fairness.CONSUMED,))
    return a.system(worker=[once], properties=(claim,))


@malformed("row 'peek' of worker: it reads tell, which is neither from nor to worker")
def guard_about_a_message_of_others(a: Any) -> object:
    tell = Message("tell", sender=a.boss, receiver=a.boss)
    return a.system(worker=[Row("peek", when=tell())])  # <- here


@malformed("row 'peek' of worker: it reads order(v, i), which is addressed to a sibling: "
           "this instance is w")
def guard_about_a_message_to_a_sibling(a: Any) -> object:
    return a.system(worker=[Row("peek", choose=(v, i), when=a.order(v, i))])  # <- here


ABSENCE: Final = "a receiver cannot know what was not sent"


@malformed(f"row 'peek' of worker: it reads the absence of stop: {ABSENCE}")
def guard_about_the_absence_of_a_message(a: Any) -> object:
    return a.system(worker=[Row("peek", when=~a.stop())])  # <- here


@malformed(f"row 'peek' of worker: it reads the absence of stop: {ABSENCE}")
def guard_about_absence_in_a_premise(a: Any) -> object:
    return a.system(worker=[
        Row("peek", when=implies(a.stop(), a.phase(w) == Phase.IDLE)),  # <- here
    ])


# Rows: what an instance may do.


@malformed("row 'drop' of worker: it writes stop: messages go through send=")
def update_of_a_message(a: Any) -> object:
    return a.system(worker=[Row("drop", do=[a.stop().to(False)])])  # <- here


@malformed("row 'tell' of worker: it writes knows, which is owned by boss")
def update_of_another_machine(a: Any) -> object:
    return a.system(worker=[Row("tell", do=[a.knows(w).to(True)])])  # <- here


@malformed("row 'help' of worker: it writes phase(v), which is a sibling's: this instance is w")
def update_of_a_sibling(a: Any) -> object:
    return a.system(worker=[
        Row("help", choose=(v,), do=[a.phase(v).to(Phase.DONE)]),  # <- here
    ])


@malformed("row 'help' of worker: it writes phase(ANY), which is a sibling's: this instance is w")
def update_of_all_siblings(a: Any) -> object:
    return a.system(worker=[Row("help", do=[a.phase(ANY).to(Phase.DONE)])])  # <- here


@malformed("row 'land' of worker: it writes write(w, i) := Phase.DONE, which only device may write")
def owner_that_writes_for_its_device(a: Any) -> object:
    a.write.shared_with(a.device, [Phase.DONE])
    return a.system(worker=[
        Row("land", choose=(i,), do=[a.write(w, i).to(Phase.DONE)]),  # <- here
    ])


@malformed("row 'post' of device: it writes write(w, i) := Phase.BUSY, which only worker may write")
def device_that_writes_for_its_owner(a: Any) -> object:
    a.write.shared_with(a.device, [Phase.DONE])
    device = Table(a.device, rows=(
        Row("post", choose=(i,), do=[a.write(w, i).to(Phase.BUSY)]),  # <- here
    ))
    return a.system(faults={"device": (device,)})


@malformed("row 'shout' of worker: send: use each() to send to many: "
           "ANY stands only in updates; bind a variable with forall")
def send_with_any(a: Any) -> object:
    return a.system(worker=[Row("shout", send=[a.report(w, ANY)])])  # <- here


@malformed("row 'shout' of worker: only boss sends stop")
def send_of_another_machine(a: Any) -> object:
    return a.system(worker=[Row("shout", send=[a.stop()])])  # <- here


@malformed("row 'shout' of worker: it sends report in a sibling instance's name")
def send_in_the_name_of_a_sibling(a: Any) -> object:
    return a.system(worker=[Row("shout", choose=(v, i), send=[a.report(v, i)])])  # <- here


@malformed("row 'shout' of boss: each: `where` reads knows, which is not rigid")
def each_where_something_changes(a: Any) -> object:
    return a.system(boss=[
        Row("shout", choose=(i,), send=[each(w, a.order(w, i), where=a.knows(w))]),  # <- here
    ])


@malformed("row 'shout' of worker: it reads secret, which is visible to [boss] only")
def each_where_something_hidden(a: Any) -> object:
    return a.system(worker=[
        Row("shout", send=[each(v, a.hint(w, v), where=a.secret(v))]),  # <- here
    ])


@malformed("row 'swap' of worker: two updates can hit one cell of has: "
           "has(w, i) := True and has(w, j) := False; "
           "write i.differs(j) in `when`, or split the row")
def updates_that_can_meet(a: Any) -> object:
    return a.system(worker=[
        Row("swap", choose=(i, j), do=[a.has(w, i).to(True), a.has(w, j).to(False)]),  # <- here
    ])


@malformed("row 'reset' of worker: two updates can hit one cell of has: "
           "has(w, i) := True and has(w, ANY) := False; "
           "put the update of many cells first: then the later one counts in its cells")
def bulk_update_after_a_single_one(a: Any) -> object:
    return a.system(worker=[
        Row("reset", choose=(i,), do=[a.has(w, i).to(True), a.has(w, ANY).to(False)]),  # <- here
    ])


@malformed("row 'reset' of worker: two updates can hit one cell of has: "
           "has(w, ANY) := False and has(w, j) := True for each j where i.differs(j); "
           "neither is for fewer cells of the other: split it into two rows, one after the other")
def two_updates_of_many_cells(a: Any) -> object:
    return a.system(worker=[
        Row("reset", choose=(i,), do=[  # <- here
            a.has(w, ANY).to(False), each(j, a.has(w, j).to(True), where=i.differs(j))]),
    ])


@malformed("row 'work' of worker: two updates can hit one cell of phase: "
           "phase(w) := Phase.BUSY and phase(w) := Phase.DONE; "
           "they are the same cell: leave one of them out")
def update_that_meets_the_next_state(a: Any) -> object:
    return a.system(worker=[
        Row("work", to=Phase.BUSY, do=[a.phase(w).to(Phase.DONE)]),  # <- here
    ])


@malformed("row 'ignore_stop' of worker: ignores need their reason: why=")
def ignore_without_a_reason(a: Any) -> object:
    return a.system(worker=[Ignore(a.stop(), why="")])  # <- here


@malformed("row 'reject_stop_done' of worker: rejects need their reason: why=")
def reject_without_a_reason(a: Any) -> object:
    return a.system(worker=[Reject(a.stop(), at=Phase.DONE, why="")])  # <- here


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


# Edits that find nothing.


@malformed("tiny has no row 'wrok' to edit")
def drop_of_a_row_that_is_not_there(a: Any) -> object:
    return edited(a.system(), "broken", DropRow("wrok"))  # <- here


@malformed("tiny has no row 'wrok' to edit")
def edit_of_a_row_that_is_not_there(a: Any) -> object:
    return edited(
        a.system(),
        "broken",
        Retarget("wrok", to=Phase.DONE),  # <- here
    )


@malformed("tiny has no table of absent")
def row_added_to_an_absent_machine(a: Any) -> object:
    return edited(a.system(), "broken", AddRow(Machine("absent"), Row("work")))  # <- here


@malformed("work has no clause has(w, i)")
def drop_of_a_clause_that_is_not_there(a: Any) -> object:
    system = a.system(worker=[Row("work", choose=(i,))])
    return edited(system, "broken", DropClause("work", a.has(w, i)))  # <- here


@malformed("work does not send report(w, i)")
def drop_of_a_message_that_is_not_sent(a: Any) -> object:
    system = a.system(worker=[Row("work", choose=(i,))])
    return edited(system, "broken", DropEffect("work", a.report(w, i)))  # <- here


@malformed("work has no has(w, i) := True")
def drop_of_an_update_that_is_not_there(a: Any) -> object:
    system = a.system(worker=[Row("work", choose=(i,), do=[a.has(w, i).to(False)])])
    return edited(system, "broken", DropEffect("work", a.has(w, i).to(True)))  # <- here


@malformed("row 'work' of worker: it reads knows, which is owned by boss")
def edit_that_makes_a_row_malformed(a: Any) -> object:
    system = a.system(worker=[Row("work")])
    return edited(system, "broken", AddClause("work", a.knows(w)))  # <- here


@malformed("row 'work' of worker: it reads knows, which is owned by boss")
def last_edit_of_a_row_that_two_edits_change(a: Any) -> object:
    system = a.system(worker=[Row("work")])
    first = AddClause("work", a.knows(w))
    return edited(system, "broken", first, Retarget("work", to=Phase.BUSY))  # <- here


@malformed("property 'calm' is about row 'work': drop it too, with DropProperty('calm')")
def drop_of_a_row_of_which_a_property_speaks(a: Any) -> object:
    system = a.system(worker=[Row("work")], properties=[OnRow("calm", "work", TRUE)])
    return edited(system, "broken", DropRow("work"))  # <- here


@malformed("property 'calm' is about row 'work': drop it too, with DropProperty('calm')")
def replacement_that_takes_a_row_from_a_property(a: Any) -> object:
    system = a.system(worker=[Row("work")], properties=[OnRow("calm", "work", TRUE)])
    return edited(system, "broken", ReplaceRow("work", Row("labour")))  # <- here


@malformed("tiny has no property 'calm' to drop")
def drop_of_a_property_that_is_not_there(a: Any) -> object:
    return edited(a.system(), "broken", DropProperty("calm"))  # <- here


@malformed("tiny has a fault layer 'lossy' already")
def fault_layer_that_is_there(a: Any) -> object:
    system = a.system(faults={"lossy": ()})
    return edited(system, "broken", AddFaults("lossy", Table(a.world)))  # <- here


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
