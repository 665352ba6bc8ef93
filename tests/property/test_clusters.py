"""Whole clusters of live ends keep every promise of the spec, whatever happens to them."""

from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.cli.systems import load
from pdproto.spec.handoff import agreement, transfer
from pdproto.spec.handoff.ends import Claim, claim, d, h, kv, p
from pdproto.spec.handoff.sink import NO_CLAIM
from pdproto.spec.handoff.source import UNREAD
from pdproto.spec.language import (
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    System,
    edited,
)
from pdproto.testing.machine import Fuzzer
from pdproto.testing.property_checker import ViolationError
from tests.property.profiles import NIGHTLY, runs

SERVED: Final = {"source": ("post",), "sink": ()}  # what acts at once in a server, and what waits
ONE: Final = transfer._sizes()
FAULTY: Final = Configuration(ONE, faults=("lossy", "crash", "restart", "sink-crash"))
LIVES: Final = Configuration(transfer._sizes(lives=2, chunks=2), faults=("lossy", "crash"))
GROUP: Final = Configuration(
    agreement.ONCE.configurations["default"].sizes, faults=("lossy", "crash"))
CASES: Final = {
    "transfer": (transfer.SYSTEM, FAULTY, None),
    "transfer, as served": (transfer.SYSTEM, FAULTY, SERVED),
    "transfer, two lives and chunks, as served": (transfer.SYSTEM, LIVES, SERVED),
    "transfer, nobody gives up": (transfer.NO_TIMEOUTS, FAULTY, SERVED),
    "agreement": (agreement.LOSS, GROUP, None),
    "agreement, delivered once": (agreement.ONCE, GROUP, None),
    **{name: (load(name), load(name).configurations["default"], None)
       for name in ("registry", "dp-rank", "optimistic", "group-transfer", "ended-rooms")},
}
WRITE: Final = "S1_writes_stay_in_own_memory"
STORES: Final = frozenset({"entry"})  # as a server runs it


@pytest.mark.parametrize("name", CASES)
def test_everything_that_is_promised_holds(name: str) -> None:
    system, configuration, at_once = CASES[name]
    fuzzer = Fuzzer(system, configuration, at_once=at_once, stores=STORES)
    report = fuzzer.run(runs(15))
    assert report.runs >= 15
    assert report.steps > 100
    if NIGHTLY:
        assert len(report.fired) >= len(fuzzer.rows) * 2 // 3, report


@pytest.mark.parametrize(("edit", "complaint"), [
    (DropRow("tell_failure"), "nothing happens where the tables take tell_failure"),
    (DropClause("release_kv", UNREAD), None),
    (DropEffect("begin_send", kv(p, h).to(True)), "kv(p0, h0) is false and should be true"),
    (DropEffect("take_part", claim(d, h, p).to(Claim.LANDED)),
     "claim(d0, h0, p0) is out and should be landed"),
])
def test_ends_that_run_other_tables_are_found_out(
    edit: DropRow | DropClause | DropEffect, complaint: str | None
) -> None:
    """The ends run one system and are held to another: the difference shows, where one can.

    A row that may fire too often is not seen where it fires only when it is told to.
    """
    other: System = edited(transfer.SYSTEM, "other", edit)
    fuzzer = Fuzzer(transfer.SYSTEM, FAULTY, runs=other)
    if complaint is None:
        eager = Fuzzer(transfer.SYSTEM, FAULTY, runs=other, at_once=SERVED)
        fuzzer, complaint = eager, "release_kv(0, 0), which the tables do not allow"
    with pytest.raises(ViolationError) as raised:
        fuzzer.run(runs(600))
    assert raised.value.finding.name == "conforms"
    assert complaint in raised.value.finding.note


def test_a_failure_prints_its_run() -> None:
    """The run as a picture, cut down to what it needs, and what replays it.

    The shortest run of all may break the promise by another way: the search finds that one.
    """
    bug = edited(transfer.SYSTEM, "frees-at-once", DropClause("end_lease", NO_CLAIM))
    fuzzer = Fuzzer(bug, Configuration(ONE), properties=frozenset({WRITE}))
    with pytest.raises(ViolationError) as raised:
        fuzzer.run(runs(300))
    error = raised.value
    (shortest,) = check(bug, Configuration(ONE), CheckSettings(properties=(WRITE,))).findings
    assert shortest.trace_length is not None
    assert error.finding.trace_length in (shortest.trace_length, shortest.trace_length + 1)
    page = str(error)
    assert f"{WRITE} violated" in page
    assert "end_lease(d0, h0, b0)" in page
    assert "│" in page
    again = Fuzzer(bug, Configuration(ONE), properties=frozenset({WRITE}))
    with pytest.raises(ViolationError) as replayed:
        again.replay(error.blob)
    assert str(replayed.value) == page
    assert again.count < 5


def test_rows_that_never_fired_are_reported() -> None:
    """A run of few steps cannot have fired all; what did and what did not is every row."""
    fuzzer = Fuzzer(transfer.SYSTEM, Configuration(ONE))
    report = fuzzer.run(runs(3, nightly=3))
    assert set(report.fired) | set(report.never) == set(fuzzer.rows)
    assert "find_spoilt" in report.never, "nothing spoils a chunk here"
    assert "never: " in str(report)
    assert f"{len(report.fired)} of {len(fuzzer.rows)} rows fired" in str(report)
