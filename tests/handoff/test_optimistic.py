"""Optimistic prefill: its sizes, its verdicts, its defects, and what its timers are for."""

from functools import cache
from typing import Final, NamedTuple

import pytest

from pdproto.check.checking import Settings, check
from pdproto.check.lint import Severity, lint, small_sizes
from pdproto.check.result import CheckResult, Finding, Verdict
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.optimistic import BUGS
from pdproto.spec.handoff.optimistic import (
    KEEPING,
    LOSING,
    ONE_ATTEMPT,
    ONE_SIDED,
    PATIENT,
    SYSTEM,
)
from pdproto.spec.language import Configuration, DropRow, ReplaceProperties, System, edited

SYSTEMS: Final = (SYSTEM, LOSING, PATIENT, ONE_SIDED, ONE_ATTEMPT, KEEPING)


class Counts(NamedTuple):
    """transitions: enabled ground rows over all states, without those that only ignore."""

    states: int
    transitions: int
    depth: int


PINNED: Final[list[tuple[System, str, Counts]]] = [
    (SYSTEM, "default", Counts(43_705, 271_608, 41)),
    (SYSTEM, "slots", Counts(58_670, 381_998, 41)),
    (SYSTEM, "seats", Counts(43_705, 274_869, 41)),
    (LOSING, "default", Counts(532, 2_288, 21)),
    (PATIENT, "default", Counts(532, 2_061, 21)),
    (ONE_SIDED, "default", Counts(245, 956, 20)),
    (ONE_ATTEMPT, "default", Counts(14_749, 98_088, 40)),
    (KEEPING, "default", Counts(16_483, 119_556, 40)),
]
# Too long for a test: three lives, and two lives while messages are lost.
UNTESTED: Final = {(SYSTEM.name, "deep"), (LOSING.name, "deep")}


def explored(system: System, name: str) -> CheckResult:
    return _explored(SYSTEMS.index(system), name)


@cache
def _explored(index: int, name: str) -> CheckResult:
    """A system has no hash, its place among SYSTEMS has."""
    system = SYSTEMS[index]
    return check(system, system.configurations[name], Settings(keep_going=True))


def judged(system: System, name: str, configuration: Configuration) -> Finding:
    """What a check says of one property, when it looks at nothing else."""
    found = check(system, configuration, Settings(properties=(name,)))
    (finding,) = (f for f in found.findings if f.name == name)
    return finding


def name_of(value: object) -> str | None:
    match value:
        case System():
            return value.name
        case Bug():
            return value.id
        case str():
            return value
    return None


@pytest.mark.parametrize(("system", "name", "counts"), PINNED, ids=name_of)
def test_everything_holds_at_the_pinned_counts(system: System, name: str, counts: Counts) -> None:
    found = explored(system, name)
    assert [f.name for f in found.findings if f.verdict is not Verdict.HOLDS] == []
    assert Counts(found.states, found.transitions, found.depth) == counts


def test_every_configuration_is_pinned() -> None:
    named = {(system.name, name) for system in SYSTEMS for name in system.configurations}
    assert named - {(system.name, name) for system, name, _ in PINNED} == UNTESTED


def test_no_premise_is_empty() -> None:
    assert [f.name for f in explored(SYSTEM, "default").findings if "vacuous" in f.note] == []


def test_every_row_fires_somewhere() -> None:
    """A fall-back by force needs a budget of one attempt, and a retry by need one of two."""
    assert explored(SYSTEM, "default").rows_never_fired == ("force_fall_back",)
    assert explored(ONE_ATTEMPT, "default").rows_never_fired == ("run_again",)


@pytest.mark.parametrize("system", SYSTEMS, ids=name_of)
def test_lint_finds_no_error(system: System) -> None:
    remarks = lint(system, small_sizes(system))
    assert [remark for remark in remarks if remark.severity is Severity.ERROR] == []


TRACE_LENGTHS: Final = {
    "B03": 12,
    "B32": 12,
    "B32-slots": 12,
    "B32-seats": 13,
    "B32-budget": 13,
    "B32-slot-kept": 10,
    "B32-slot-leak": 4,
    "B36-optimistic": 5,
    "O1": 7,
    "O2": 8,
    "O2-slot": 4,
    "O5": 13,
    "O5-endless": 12,
}


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_the_defect_is_refuted(bug: Bug) -> None:
    found = judged(bug.system, bug.violates, bug.configuration)
    assert found.verdict is Verdict.VIOLATED
    assert found.trace_length == TRACE_LENGTHS[bug.id]


def test_each_defect_is_pinned_once() -> None:
    assert [bug.id for bug in BUGS] == list(TRACE_LENGTHS)


PREFILL_ENDS: Final = "L5_no_capacity_deadlock"
SINK_ENDS: Final = "L1_a_sink_ends"
HELD: Final = "L4_slots_and_seats_come_back"

# What is sent again, the clocks, and the steps that let go: each is there for this.
NEEDED: Final[list[tuple[str, System, str]]] = [
    ("give_up_waiting", LOSING, PREFILL_ENDS),
    ("give_up_waiting", ONE_SIDED, PREFILL_ENDS),
    ("give_up_transfer", ONE_SIDED, SINK_ENDS),
    ("publish_again", PATIENT, SINK_ENDS),
    ("done_again", PATIENT, SINK_ENDS),
    ("refuse", PATIENT, SINK_ENDS),
    ("stop", SYSTEM, PREFILL_ENDS),
    ("hear_failure", SYSTEM, SINK_ENDS),
    ("release", SYSTEM, HELD),
    ("run_again", SYSTEM, PREFILL_ENDS),
    ("fall_back", SYSTEM, PREFILL_ENDS),
    ("force_retry", SYSTEM, PREFILL_ENDS),
    ("force_fall_back", ONE_ATTEMPT, PREFILL_ENDS),
    ("finish", SYSTEM, "L4_pages_come_back"),
]


@pytest.mark.parametrize(("row", "system", "broken"), NEEDED, ids=name_of)
def test_liveness_needs_the_row(row: str, system: System, broken: str) -> None:
    claims = tuple(claim for claim in system.properties if claim.name == broken)
    without = edited(system, f"without-{row}", ReplaceProperties(claims), DropRow(row))
    assert judged(without, broken, system.configurations["default"]).verdict is Verdict.VIOLATED
