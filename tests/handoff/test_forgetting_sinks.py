"""A sink that is over has nothing left to do, and one that is not yet over may have."""

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.handoff.ends import Claim, Receiving, b, claim, d, h, lease, receiving
from pdproto.spec.handoff.forgetting_sinks import ACTING, SINKS_FORGET
from pdproto.spec.handoff.sink import SINK, UNANSWERED, q
from pdproto.spec.language import Formula, OnRow, ReplaceProperties, edited, forall

ROWS = {row.name: row for row in SINK.rows}


def test_every_step_after_a_failure_is_listed() -> None:
    """And after a success it does nothing but to give the page back."""
    ended = {Receiving.SUCCESS, Receiving.FAILED}
    active = {
        name for name, row in ROWS.items()
        if row.kind == "row"
        and ended.intersection(row.at if isinstance(row.at, tuple) else (row.at,))
    }
    assert active == {*ACTING, "finish"}


@pytest.mark.parametrize("name", SINKS_FORGET.configurations)
def test_a_life_that_is_over_may_be_forgotten(name: str) -> None:
    found = check(SINKS_FORGET, SINKS_FORGET.configurations[name], CheckSettings(keep_going=True))
    assert [f.name for f in found.findings if f.verdict is not Verdict.HOLDS] == []


def test_each_listed_row_acts_somewhere() -> None:
    found = check(SINKS_FORGET, SINKS_FORGET.configurations["default"], CheckSettings())
    assert not set(ACTING).intersection(found.rows_never_fired)


FAILED = receiving(d, h) == Receiving.FAILED
MEMORY_IS_BACK = forall(b, ~lease(d, h, b))
ANSWERED = forall(q, ~claim(d, h, q).among(*UNANSWERED, Claim.FENCING))


@pytest.mark.parametrize(
    ("row", "hasty"),
    [
        # A sink that never had memory still owes its sources the abort, and hears their answers.
        ("abort_again", FAILED & MEMORY_IS_BACK),
        ("note_stopped", FAILED & MEMORY_IS_BACK),
        ("note_drained", FAILED & MEMORY_IS_BACK),
        ("fence_lost", FAILED & MEMORY_IS_BACK),
        # Answered is not enough either: the lease has still to be ended.
        ("end_lease", FAILED & ANSWERED),
    ],
)
def test_a_life_that_is_half_over_may_not_be_forgotten(row: str, hasty: Formula) -> None:
    system = edited(SINKS_FORGET, "hasty", ReplaceProperties((OnRow("hasty", row, ~hasty),)))
    configuration = SINKS_FORGET.configurations["default"]
    found = check(system, configuration, CheckSettings(properties=("hasty",)))
    (finding,) = (f for f in found.findings if f.name == "hasty")
    assert finding.verdict is Verdict.VIOLATED
