"""Any event at any time: an end takes a row of its table, or changes nothing."""

from typing import Final

import pytest

from pdproto.cli.systems import load
from pdproto.spec.handoff import agreement, transfer
from pdproto.spec.handoff.ends import Drain, abort, d, drain, h, p
from pdproto.spec.language import DropEffect, DropRow, System, edited
from pdproto.spec.language.place import SpecError
from pdproto.testing.single import OneEnd, WrongAnswerError
from tests.property.profiles import runs

STORES: Final = frozenset({"entry"})
ENDS: Final = (
    ("transfer", "source"), ("transfer", "sink"), ("transfer", "pool"), ("agreement", "rank"),
    ("agreement", "entry"), ("registry", "source"), ("registry", "sink"), ("registry", "registry"),
    ("dp-rank", "sender"), ("dp-rank", "receiver"), ("optimistic", "prefill"),
    ("optimistic", "decode"),
)


@pytest.mark.parametrize(("name", "machine"), ENDS)
def test_an_end_takes_a_row_or_changes_nothing(name: str, machine: str) -> None:
    system = load(name)
    one = OneEnd(system, system.configurations["default"], machine, stores=STORES)
    report = one.run(runs(15, nightly=1_000))
    assert report.fired, "the events came to something"


@pytest.mark.parametrize(("edit", "complaint"), [
    (DropRow("stop"), "it fires nothing, and the table has stop"),
    (DropEffect("stop", drain(p, h, d).to(Drain.ASKED)), "its state differs from its table's"),
])
def test_an_end_that_runs_another_table_is_found_out(
    edit: DropRow | DropEffect, complaint: str
) -> None:
    other: System = edited(transfer.SYSTEM, "other", edit)
    one = OneEnd(transfer.SYSTEM, transfer.SYSTEM.configurations["default"], "source", runs=other)
    with pytest.raises(WrongAnswerError, match=complaint) as raised:
        one.run(runs(60))
    assert abort.name in str(raised.value), "the events are told, to the last"


def test_a_machine_that_is_not_there() -> None:
    with pytest.raises(SpecError, match="agreement has no machine 'source'"):
        OneEnd(agreement.SYSTEM, agreement.SYSTEM.configurations["default"], "source")
