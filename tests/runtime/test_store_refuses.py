"""What a shared machine refuses: tables it cannot run, events without a row, lives that go on."""

from typing import Any

import pytest

from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.store import Shared
from pdproto.spec.handoff import (
    attempts,
    bootstrap,
    dp_rank,
    group,
    registry,
    registry_world,
    routing,
)
from pdproto.spec.handoff.roles import Attempt, Incarnation, Life, Slot, Source
from pdproto.spec.language import (
    ANY,
    Call,
    Formula,
    Machine,
    Message,
    Rigid,
    Row,
    Sort,
    SpecError,
    State,
    Table,
    auto,
    each,
    exists,
    forall,
)
from pdproto.spec.language.symbols import Update
from tests.runtime import desk as jobs


class Job(Sort):
    """Without a bound."""


class Number(Sort, ordered=True):
    """Without a bound, in order."""


class Course(State):
    NEW = auto()
    OPEN = auto()
    DONE = auto()


j, i = Job("j"), Job("i")
n, m = Number("n"), Number("m")
desk = Machine("desk")
course = desk.function("course", Course, Job)
held = desk.relation("held", Job)
counted = desk.relation("counted", Number)
counted_of = desk.relation("counted_of", Job, Number)
near_to = desk.relation("near_to", Job, Job)
told = Message("told", j, sender=desk, receiver=desk)
seen = Message("seen", n, sender=desk, receiver=desk)
near = Rigid("near", i, j)


def table(*when: Formula, do: tuple[Update, ...] = (), send: Any = ()) -> Table:
    return Table(desk, rows=(Row("look", on=Call("look", j), when=when, do=do, send=send),))


@pytest.mark.parametrize("guard", [
    exists(i, ~held(i)),
    forall(i, held(i)),
    exists(i, course(i) == Course.NEW),
    exists(i, held(i) & (course(i) == Course.OPEN)),
    exists(i, i.differs(j)),
    forall(i, near(i, j)),
    exists(m, counted(m) & n.before(m)),
])
def test_a_formula_that_would_search_is_refused(guard: Formula) -> None:
    """By name, before anything runs; the same formula over a bounded sort is a loop."""
    only = Table(desk, rows=(Row("look", on=Call("look", j, n), when=guard),))
    with pytest.raises(SpecError, match=r"row 'look': .* cannot be decided for all of"):
        Shared(only, rigid={near: lambda *_: True})
    Shared(only, bounded={Job: (0, 1), Number: (0, 1)}, rigid={near: lambda *_: True})


def test_a_disjunction_may_repeat_itself() -> None:
    same = course(j) == Course.OPEN
    opened = Row("open", on=Call("open", j), do=[course(j).to(Course.OPEN)])
    shared = Shared(Table(desk, rows=(Row("look", on=Call("look", j), when=same | same), opened)))
    with pytest.raises(LocalProtocolError):
        shared.call("look", 7)
    shared.call("open", 7)
    assert shared.call("look", 7).row == "look"


def test_an_effect_without_an_end_is_refused() -> None:
    with pytest.raises(SpecError, match=r"each.* sends to an unbounded sort"):
        Shared(table(send=[each(i, told(i))]))
    with pytest.raises(SpecError, match=r"near_to.* gives a value to some of the elements"):
        Shared(table(do=(near_to(ANY, j).to(True),)))
    with pytest.raises(SpecError, match="it makes counted false"):
        Shared(Table(desk, rows=(
            Row("look", on=Call("look", n), when=forall(m, ~m.before(n) | counted(m)),
                do=[counted(n).to(False)]),
        )))


def test_a_row_that_python_cannot_call_is_refused() -> None:
    word = Job("lambda")
    with pytest.raises(SpecError, match="'lambda' is a keyword of Python: rename the variable"):
        Shared(Table(desk, rows=(Row("look", on=Call("look", word), when=[held(word)]),)))
    with pytest.raises(SpecError, match="row 'look': its trigger names a variable twice"):
        Shared(Table(desk, rows=(Row("look", on=Call("look", j, j), when=[held(j)]),)))


def up_to(relation: Any, *rest: Sort) -> Table:
    """A desk that counts, and looks whether the relation holds for all numbers before one."""
    return Table(desk, rows=(
        Row("look", on=Call("look", *rest, n),
            when=forall(m, ~m.before(n) | relation(*rest, m))),
        Row("count", on=Call("count", *rest, n), do=[relation(*rest, n).to(True)]),
    ))


def test_a_relation_that_holds_from_the_first_number_on_is_kept_as_a_number() -> None:
    """It is never taken back; and with what it is counted for, its number is forgotten."""
    machine = Shared(up_to(counted_of, j))
    for number in (0, 2, 1, 4, 1):
        machine.call("count", 7, number)
    assert [machine.enabled("look", j=7, n=number) for number in range(6)] == [
        True, True, True, True, False, False]
    assert (len(machine), machine.enabled("look", j=8, n=1)) == (1, False)
    assert machine.call("count", 7, 2).changed == machine.call("count", 7, 4).changed == ()
    machine.forget(Job, 7)
    assert len(machine) == 0
    assert not machine.value(counted_of, 7, 0)
    assert not machine.enabled("look", j=7, n=1)


def test_a_message_that_is_counted_is_never_taken_back() -> None:
    machine = Shared(Table(desk, rows=(
        Row("look", on=Call("look", n), when=[forall(m, ~m.before(n) | seen(m))]),)))
    machine.set(seen, (0,), True)
    assert [machine.enabled("look", n=number) for number in range(3)] == [True, True, False]
    with pytest.raises(LocalProtocolError, match=r"seen\(0,\) can never become false again"):
        machine.set(seen, (0,), False)
    assert machine.enabled("look", n=1)


def test_a_relation_that_is_counted_for_pairs_is_refused() -> None:
    pairs = desk.relation("pairs", Job, Job, Number)
    with pytest.raises(SpecError, match="one other argument at most"):
        Shared(up_to(pairs, i, j))


def test_every_life_at_once() -> None:
    """A value for all lives holds for those, too, that nobody has met; then each has its own."""
    machine = Shared(Table(desk, rows=(
        Row("end", on=Call("end"), do=[course(ANY).to(Course.DONE)]),
        Row("open", on=Call("open", j), when=course(j) == Course.DONE,
            do=[course(j).to(Course.OPEN)]),
    )))
    with pytest.raises(LocalProtocolError):
        machine.call("open", 1)
    assert machine.call("end").changed == ((course, None, Course.DONE),)
    assert machine.value(course, 7) is Course.DONE
    assert machine.call("open", 7).changed == ((course, (7,), Course.OPEN),)
    assert machine.value(course, 7) is Course.OPEN
    assert machine.value(course, 8) is Course.DONE


def test_a_value_for_every_life_leaves_no_cell_of_any() -> None:
    machine = Shared(jobs.TABLE, bounded={jobs.Tray: range(2)})
    machine.call("open", 7)
    assert len(machine) == 2
    machine.call("end")
    assert len(machine) == 0
    assert not machine._cells[jobs.phase].of_element(jobs.Job, 7)


def test_all_instances_of_a_machine_are_shown_with_their_names() -> None:
    every = Shared(table(held(j)), None)
    assert repr(every) == "desk(all): initial"


def test_rigid_symbols_must_be_given() -> None:
    with pytest.raises(SpecError, match="near"):
        Shared(Table(desk, rows=(Row("look", on=Call("look", i, j), when=near(i, j)),)))


def test_the_world_and_a_machine_without_its_name_are_refused() -> None:
    with pytest.raises(SpecError, match="is the world"):
        Shared(registry_world.OPERATOR)
    with pytest.raises(SpecError, match="rank needs an element"):
        Shared(group.RANK, bounded={group.Rank: range(2)})


def test_errors_say_which_side_is_at_fault() -> None:
    """A message without a row is the peer's fault, a call without one the caller's."""
    machine = Shared(group.RANK, (1,), {group.Rank: range(2)})
    with pytest.raises(RemoteProtocolError, match="takes no message 'hello'"):
        machine.receive("hello")
    with pytest.raises(RemoteProtocolError, match="another instance"):
        machine.receive(group.request, 0, 7)
    with pytest.raises(RemoteProtocolError, match="9 is no Rank"):
        machine.receive(group.gone, 9, 1)
    with pytest.raises(LocalProtocolError, match="it takes 2 arguments"):
        machine.receive(group.request, 1)
    with pytest.raises(LocalProtocolError, match="no call 'hello'"):
        machine.call("hello")
    with pytest.raises(LocalProtocolError, match="has no row in rank"):
        machine.call("prepared", 7)
    with pytest.raises(LocalProtocolError, match="no row 'prepare' on a timer"):
        machine.fire("prepare", h=7)
    with pytest.raises(LocalProtocolError, match="no parameter 'x'"):
        machine.fire("give_up", x=7)
    with pytest.raises(LocalProtocolError, match="needs the parameter h"):
        machine.fire("give_up")
    assert machine.receive(group.admit, 1, 0, 7, 0).kind == "reject"
    assert machine.fire("give_up", h=7) is None
    assert repr(machine) == "rank(k1): initial"


def test_only_variables_of_other_owners_can_be_set() -> None:
    machine = Shared(registry.REGISTRY, bounded={Source: range(2)})
    machine.set(bootstrap.suspected, (0, 5), True)
    assert machine.value(bootstrap.suspected, 0, 5)
    with pytest.raises(LocalProtocolError, match="only rows of registry may write"):
        machine.set(bootstrap.present, (0,), True)
    with pytest.raises(LocalProtocolError, match="keeps no phase"):
        machine.set(bootstrap.phase, (0, 0), bootstrap.Phase.FAILED)
    with pytest.raises(LocalProtocolError, match="is no value of"):
        machine.set(bootstrap.suspected, (0, 5), bootstrap.Phase.FAILED)


def test_a_message_that_only_guards_read_is_noted() -> None:
    machine = Shared(registry.REGISTRY, bounded={Source: range(1)})
    machine.receive(bootstrap.register, 0, 5)
    assert machine.fire("expire", p=0, e=5) is None
    step = machine.receive(bootstrap.suspected, 0, 5)
    assert (step.row, step.changed) == ("", ((bootstrap.suspected, (0, 5), True),))
    expired = machine.fire("expire", p=0)
    assert expired is not None
    assert expired.row == "expire"


def test_only_concluded_elements_are_forgotten() -> None:
    """By the declared edges, and by what is still held; then the life reads as initial."""
    machine = Shared(dp_rank.REGISTRY, bounded={routing.Group: range(2)})
    machine.receive(routing.enroll_published, 0)
    machine.receive(routing.publish, 7, 1)
    with pytest.raises(LocalProtocolError, match="known: it has not concluded"):
        machine.forget(Life, 7)
    machine.receive(routing.retire, 7, 1)
    machine.forget(Life, 7)
    assert machine.value(routing.entry, 7, 1) is routing.Entry.NEVER
    with pytest.raises(LocalProtocolError, match="bounded"):
        machine.forget(routing.Group, 1)


def test_a_held_element_is_not_forgotten() -> None:
    prefill = Shared(
        attempts.PREFILL,
        bounded={attempts.RunningSlot: range(1), Slot: range(1), Attempt: range(1)},
        rigid={attempts.sampled: lambda _: False},
    )
    prefill.call("submit", 7)
    prefill.fire("reserve_early", h=7)
    prefill.call("abort_prefill", 7)
    with pytest.raises(LocalProtocolError, match=f"{attempts.slot}.* still holds"):
        prefill.forget(Life, 7)
    assert prefill.fire("release", h=7) is not None
    prefill.forget(Life, 7)
    assert prefill.value(attempts.stage, 7) is attempts.Stage.NEW


def test_a_number_is_forgotten_only_below_the_floor() -> None:
    rank = Shared(group.RANK, (0,), {group.Rank: range(1)})
    rank.receive(group.fail, 0, 0, 7)
    with pytest.raises(LocalProtocolError, match="is not above it"):
        rank.forget(group.Decision, 1)
    rank.forget(group.Decision, 0)
    assert rank.value(group.applied, 0, 0)


def test_a_current_run_is_not_forgotten() -> None:
    machine = Shared(registry.REGISTRY, bounded={Source: range(1)})
    machine.receive(bootstrap.register, 0, 5)
    with pytest.raises(LocalProtocolError, match="current: it has not concluded"):
        machine.forget(Incarnation, 5)
    machine.receive(bootstrap.goodbye, 0, 5)
    machine.forget(Incarnation, 5)
    assert len(machine) == 0
