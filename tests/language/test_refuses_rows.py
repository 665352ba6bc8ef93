"""What the language refuses of rows: their states, and what an instance may know and do."""

from typing import Any, Final

import pytest

from pdproto.spec.language import (
    ANY,
    Call,
    Fairness,
    Ignore,
    LeadsTo,
    Message,
    Reject,
    Row,
    System,
    Table,
    Timer,
    each,
    exists,
    forall,
    implies,
)
from tests.language.refusals import Build, Refusal, is_refused, refusals
from tests.language.tiny import Item, Mood, Phase, Turn, i, j, v, w

MALFORMED: Final[list[Refusal]] = []
malformed = refusals(MALFORMED)

# Rows: states, triggers and parameters.


@malformed("row 'work' of worker: it has at/to, but its table has no state=: "
           "write Table(worker, state=phase, ...)")
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


@malformed("row 'again' of worker: call take(i) is another one in row 'work': "
           "declare it with the same arguments, any_time= and detector= in each row")
def call_with_other_arguments(a: Any) -> object:
    return a.system(worker=[
        Row("work", on=Call("take")),
        Row("again", on=Call("take", i)),  # <- here
    ])


@malformed("row 'again' of worker: call take is another one in row 'work': "
           "declare it with the same arguments, any_time= and detector= in each row")
def call_at_any_time_and_not(a: Any) -> object:
    return a.system(worker=[
        Row("work", on=Call("take")),
        Row("again", on=Call("take", any_time=True)),  # <- here
    ])


@malformed("row 'again' of worker: timer late is another one in row 'work': "
           "declare it with the same arguments, any_time= and detector= in each row")
def timer_that_detects_and_does_not(a: Any) -> object:
    return a.system(worker=[
        Row("work", on=Timer("late", detector=True)),
        Row("again", on=Timer("late")),  # <- here
    ])


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


@malformed("row 'peek' of worker: it reads knows, which is owned by boss: let a message from boss "
           "bring it")
def guard_about_another_machine(a: Any) -> object:
    return a.system(worker=[Row("peek", when=a.knows(w))])  # <- here


@malformed("row 'peek' of worker: it reads phase(v), which is a sibling's: this instance is w; "
           "let a message tell it")
def guard_about_a_sibling(a: Any) -> object:
    return a.system(worker=[
        Row("peek", when=forall(v, a.phase(v) == Phase.IDLE)),  # <- here
    ])


@malformed("row 'peek' of boss: listing carries has of its own sender only")
def guard_about_what_another_sender_carries(a: Any) -> object:
    return a.system(boss=[
        Row("peek", on=a.listing(w), choose=(v,), when=forall(j, a.has(v, j))),  # <- here
    ])


@malformed("row 'peek' of boss: it reads has, which is owned by worker: let a message from worker "
           "bring it")
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


ABSENCE: Final = ("a receiver cannot know what was not sent: let a row on stop note that it came, "
                  "in a relation of worker")


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


@malformed("row 'help' of worker: it writes phase(v), which is a sibling's: this instance is w; "
           "send a message")
def update_of_a_sibling(a: Any) -> object:
    return a.system(worker=[
        Row("help", choose=(v,), do=[a.phase(v).to(Phase.DONE)]),  # <- here
    ])


@malformed("row 'help' of worker: it writes phase(ANY), which is a sibling's: this instance is w; "
           "send a message")
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


@malformed("row 'shout' of boss: each: `where` reads knows, which is not rigid: let a row with "
           "choose= and when= send to one at a time")
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


@pytest.mark.parametrize(
    ("build", "problem"), MALFORMED, ids=[build.__name__ for build, _ in MALFORMED]
)
def test_a_malformed_spec_is_refused_at_its_line(build: Build, problem: str) -> None:
    is_refused(build, problem)


def test_no_malformed_spec_hides_another() -> None:
    assert len({build.__name__ for build, _ in MALFORMED}) == len(MALFORMED)
