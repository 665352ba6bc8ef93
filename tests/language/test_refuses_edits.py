"""What the language refuses of edits that find nothing, or that leave a malformed row."""

from typing import Any, Final

import pytest

from pdproto.spec.language import (
    TRUE,
    AddClause,
    AddFaults,
    AddRow,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    Machine,
    OnRow,
    ReplaceRow,
    Retarget,
    Row,
    Table,
    edited,
)
from tests.language.refusals import Build, Refusal, is_refused, refusals
from tests.language.tiny import Phase, i, w

MALFORMED: Final[list[Refusal]] = []
malformed = refusals(MALFORMED)


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


@malformed("work has no clause has(w, i); it has: none")
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


@malformed("row 'work' of worker: it reads knows, which is owned by boss: let a message from boss "
           "bring it")
def edit_that_makes_a_row_malformed(a: Any) -> object:
    system = a.system(worker=[Row("work")])
    return edited(system, "broken", AddClause("work", a.knows(w)))  # <- here


@malformed("row 'work' of worker: it reads knows, which is owned by boss: let a message from boss "
           "bring it")
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
