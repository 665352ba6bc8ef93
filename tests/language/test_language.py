"""What the language accepts, and that it does what it says; and systems edited as values."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

from pdproto.check.interpret import Interpreter
from pdproto.ground.grounding import Interpretation
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddEffect,
    AddRow,
    Always,
    Call,
    Completion,
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    Machine,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Retarget,
    Row,
    SpecError,
    System,
    Table,
    Timer,
    each,
    edited,
    exists,
    forall,
    implies,
    lose,
)
from pdproto.spec.language import system as system_module
from pdproto.spec.language.edit import Edit
from tests.language.tiny import Item, Mood, Parts, Phase, Turn, Worker, i, j, t, u, v, w

# What is accepted, and does what it says.


def reached(
    system: System, *, faults: tuple[str, ...] = (), given: Interpretation | None = None
) -> list[set[str]]:
    """Every reachable state at two of each sort, as what is not initial in it, in words."""
    sizes = {Worker: 2, Item: 2, Turn: 2}
    stores = Interpreter(system, sizes, faults, given).explore().depth
    return [
        {
            f"{symbol}{list(indices)}" + ("" if value is True else f"={value}")
            for (symbol, indices), value in store
        }
        for store in stores
    ]


def test_any_clears_a_relation_in_bulk() -> None:
    a = Parts()
    system = a.system(worker=[
        Row("take", on=Call("take", i), at=Phase.IDLE, do=[a.has(w, i).to(True)]),
        Row("finish", at=Phase.IDLE, to=Phase.DONE, when=forall(i, a.has(w, i)),
            do=[a.has(w, ANY).to(False)]),
    ])
    done = [state for state in reached(system) if "phase[0]=done" in state]
    assert done
    assert not any(cell.startswith("has[0") for state in done for cell in state)


def test_each_sends_along_a_rigid_relation() -> None:
    a = Parts()
    system = a.system(worker=[
        Row("hint", send=[each(v, a.hint(w, v), where=a.near(w, v) & w.differs(v))]),
    ])
    near = frozenset({(0, 0), (0, 1)})
    assert reached(system, given={a.near: near}) == [set(), {"hint[0, 1]"}]


def test_a_receiver_reads_the_carried_values() -> None:
    a = Parts()
    system = a.system(
        worker=[
            Row("take", on=Call("take", i), at=Phase.IDLE, do=[a.has(w, i).to(True)]),
            Row("list", at=Phase.IDLE, to=Phase.DONE, send=[a.listing(w)]),
        ],
        boss=[Row("learn", on=a.listing(w), when=exists(i, a.has(w, i)),
                  do=[a.knows(w).to(True)])],
    )
    known = [state for state in reached(system) if "knows[0]" in state]
    assert known
    assert all({"has[0, 0]", "has[0, 1]"} & state for state in known)


def test_a_device_writes_its_own_values_of_a_shared_variable() -> None:
    a = Parts()
    a.write.shared_with(a.device, [Phase.DONE])
    device = Table(a.device, rows=(
        Row("land", on=Completion("write", i), when=a.write(w, i) == Phase.BUSY,
            do=[a.write(w, i).to(Phase.DONE)]),
    ))
    system = a.system(
        worker=[Row("post", choose=(i,), when=a.write(w, i) == Phase.IDLE,
                    do=[a.write(w, i).to(Phase.BUSY)])],
        faults={"device": (device,)},
    )
    assert {"write[0, 0]=busy"} in reached(system)
    assert {"write[0, 0]=done"} not in reached(system)
    assert {"write[0, 0]=done"} in reached(system, faults=("device",))


def test_the_world_reads_and_writes_everything() -> None:
    a = Parts()
    system = a.system(
        worker=[Row("start", at=Phase.IDLE, to=Phase.BUSY)],
        boss=[Row("halt", at=Mood.CALM, to=Mood.CROSS, send=[a.stop()])],
        world=[
            Row("crash", choose=(w, v), when=[w.differs(v), a.phase(w) == Phase.BUSY, ~a.stop()],
                do=[a.phase(w).to(Phase.DONE), a.phase(v).to(Phase.IDLE)], send=[a.stop()]),
            lose(a.stop),
        ],
    )
    assert {"phase[0]=done", "stop[]"} in reached(system)
    assert {"mood[]=cross"} in reached(system)  # and the message is lost


def test_an_ordered_sort_makes_one_wait_for_the_earlier_ones() -> None:
    turn = Machine("turn")
    over = turn.relation("over", Turn)
    system = System("turns", "One after the other.", tables=(Table(turn, rows=(
        Row("take_turn", choose=(t,), when=forall(u, implies(u.before(t), over(u))),
            do=[over(t).to(True)]),
    )),))
    assert reached(system) == [set(), {"over[0]"}, {"over[0]", "over[1]"}]
    assert [Turn.element(k) for k in range(2)] == ["turn0", "turn1"]


def test_a_row_is_taken_by_its_name() -> None:
    work, rework = Row("work"), Row("rework")
    table = Table(A.worker, state=A.phase, rows=(rework, work))
    assert table.row("work") is work
    assert table.without("work").rows == (rework,)
    assert table.without().rows == table.rows
    assert (table.without("work").machine, table.without("work").state) == (A.worker, A.phase)


def test_a_message_that_names_no_receiver_reaches_all() -> None:
    a = Parts()
    system = a.system(
        boss=[Row("halt", at=Mood.CALM, to=Mood.CROSS, send=[a.stop()])],
        worker=[Row("obey", on=a.stop(), to=Phase.DONE)],
    )
    assert {"mood[]=cross", "stop[]", "phase[0]=done", "phase[1]=done"} in reached(system)


def test_a_machine_may_read_the_messages_that_it_received_or_sent() -> None:
    a = Parts()
    a.system(
        boss=[Row("both", choose=(w, i), when=[a.report(w, i), ~a.order(w, i)])],
        worker=[Row("once", choose=(i,), when=~a.report(w, i), send=[a.report(w, i)])],
    )


def test_updates_that_the_guard_keeps_apart_are_accepted() -> None:
    a = Parts()
    a.system(worker=[
        Row("swap", choose=(i, j), when=a.has(w, i) & (i.differs(j) & ~a.has(w, j)),
            do=[a.has(w, i).to(False), a.has(w, j).to(True)]),
    ])


def test_a_hidden_rigid_is_seen_by_those_it_is_shown_to() -> None:
    a = Parts()
    a.system(boss=[Row("peek", choose=(w,), when=a.secret(w))])


# Edits: a changed system as a value.


A: Final = Parts()
WORK: Final = Row(
    "work", on=Timer("late"), at=Phase.IDLE, to=Phase.BUSY, choose=(i,),
    when=[A.has(w, i), ~A.report(w, i)], do=[A.has(w, i).to(False)],
    send=[A.report(w, i), each(v, A.hint(w, v), where=A.near(w, v))],
)
SYSTEM: Final = A.system(
    worker=[WORK, Row("rest", at=Phase.BUSY, to=Phase.IDLE)],
    faults={"lossy": (Table(A.world, rows=(lose(A.report),)),)},
    configurations={"default": Configuration({Worker: 1, Item: 1}, faults=("lossy",))},
)


def row_after(*edits: Any) -> Row:
    """The row `work` of the edited system."""
    found = edited(SYSTEM, "changed", *edits).row("work")
    assert found is not None
    return found[1]


def test_a_row_can_be_dropped_from_a_table_and_from_a_fault_layer() -> None:
    assert edited(SYSTEM, "changed", DropRow("rest")).row("rest") is None
    assert edited(SYSTEM, "changed", DropRow("lose_report")).faults["lossy"][0].rows == ()


def test_a_row_can_be_added_to_the_table_of_its_machine() -> None:
    added = Row("stop", at=Phase.BUSY, to=Phase.DONE)
    table, row = edited(SYSTEM, "changed", AddRow(A.worker, added)).row("stop") or (None, None)
    assert row is added
    assert table is not None
    assert [row.name for row in table.rows] == ["work", "rest", "stop"]


def test_a_row_can_be_replaced() -> None:
    other = Row("labour", at=Phase.IDLE, to=Phase.DONE)
    changed = edited(SYSTEM, "changed", ReplaceRow("work", other))
    assert changed.row("work") is None
    assert [row.name for row in changed.tables[0].rows] == ["labour", "rest"]


def test_clauses_come_and_go() -> None:
    assert row_after(DropClause("work", A.has(w, i))).conditions == (~A.report(w, i),)
    more = A.stop()
    assert row_after(AddClause("work", more)).conditions == (*WORK.conditions, more)
    both = (AddClause("work", more), DropClause("work", more))
    assert row_after(*both).conditions == WORK.conditions


def test_a_clause_of_a_conjunction_can_be_dropped() -> None:
    joined = Row("join", choose=(i,), when=A.has(w, i) & A.order(w, i))
    edits = AddRow(A.worker, joined), DropClause("join", A.order(w, i))
    _, row = edited(SYSTEM, "changed", *edits).row("join") or (None, joined)
    assert row.conditions == (A.has(w, i),)


def test_updates_come_and_go() -> None:
    assert row_after(DropEffect("work", A.has(w, i).to(False))).do == ()
    more = A.write(w, i).to(Phase.BUSY)
    assert row_after(AddEffect("work", more)).do == (*WORK.do, more)


def test_messages_come_and_go() -> None:
    to_many = each(v, A.hint(w, v), where=A.near(w, v))
    assert row_after(DropEffect("work", A.report(w, i))).send == (to_many,)
    assert row_after(DropEffect("work", to_many)).send == (A.report(w, i),)
    more = A.listing(w)
    assert row_after(AddEffect("work", more)).send == (*WORK.send, more)


def test_a_row_can_start_and_end_elsewhere() -> None:
    assert row_after(Retarget("work", to=Phase.DONE)) == replace(WORK, to=Phase.DONE)
    assert row_after(Retarget("work", at=Phase.DONE)) == replace(WORK, at=Phase.DONE)


def test_an_edited_row_keeps_its_place() -> None:
    assert row_after(Retarget("work", to=Phase.DONE)).place == WORK.place


def test_other_properties_can_be_checked() -> None:
    calm = Always("calm", A.mood() == Mood.CALM)
    assert edited(SYSTEM, "changed", ReplaceProperties((calm,))).properties == (calm,)


def test_an_edit_leaves_the_original_system_unchanged() -> None:
    changed = edited(SYSTEM, "changed", DropRow("rest"))
    assert (changed.name, changed.about) == ("changed", SYSTEM.about)
    assert changed.configurations == SYSTEM.configurations
    assert SYSTEM.row("rest") is not None


def test_an_edited_system_may_have_its_own_words_and_sizes() -> None:
    larger = {"default": Configuration({Worker: 2, Item: 2})}
    changed = edited(SYSTEM, "changed", about="Changed.", configurations=larger)
    assert (changed.about, changed.configurations) == ("Changed.", larger)


def test_an_edit_ignores_later_declarations() -> None:
    """Another module's variables of the same machine belong to the edits that speak of them."""
    a = Parts()
    first = a.system(worker=[Row("work", at=Phase.IDLE, to=Phase.BUSY)])
    tired = a.worker.relation("tired")
    rest = Row("rest", at=Phase.BUSY, to=Phase.IDLE, when=[tired(w)])
    assert edited(first, "same", DropRow("work")).variables == first.variables
    claim = ReplaceProperties((Always("awake", ~tired(w)),))
    for edit in (AddRow(a.worker, rest), claim):
        assert {*edited(first, "other", edit).variables} == {*first.variables, tired}


def refusal(build: Callable[[], System]) -> str | None:
    try:
        build()
    except SpecError as error:
        return error.problem
    return None


@pytest.mark.parametrize("edit", [
    AddRow(A.worker, Row("rest", at=Phase.BUSY, to=Phase.DONE)),
    AddRow(A.worker, Row("stop", at=Phase.BUSY, to=Phase.DONE, kind="ignore")),
    AddClause("work", A.write(v, i) == Phase.BUSY),
    AddEffect("rest", A.report(w, i)),
    Retarget("rest", to=Mood.CALM),
    DropEffect("work", A.has(w, i).to(False)),
    ReplaceProperties((OnRow("none", "missing", A.stop()),)),
], ids=lambda edit: type(edit).__name__)
def test_rows_that_an_edit_keeps_are_not_checked_again_and_no_error_is_missed(edit: Edit) -> None:
    """It is refused exactly if a system that is written so is."""
    with mock.patch.object(system_module, "check_system"):
        changed = edited(SYSTEM, "changed", edit)
    whole = {name.name: getattr(changed, name.name) for name in fields(System) if name.init}
    assert refusal(lambda: edited(SYSTEM, "changed", edit)) == refusal(lambda: System(**whole))


def test_tables_are_read_in_a_process_whose_folder_was_removed(tmp_path: Path) -> None:
    """A service goes on so when its release is replaced. Seen red: FileNotFoundError."""
    program = "import os; os.rmdir(os.getcwd()); from pdproto import PrefillNode"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=60)
