"""Three ways to end a lease that are not ours: what each breaks, and what it would take."""

from typing import Final, NamedTuple

import pytest

from pdproto.check.checking import Settings, check
from pdproto.check.lint import Severity, lint, small_sizes
from pdproto.check.result import Finding, Verdict
from pdproto.spec.handoff.light import DEFERRED, LIGHT, TIMED
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language import Configuration, DropRow, System, edited

WRITE: Final = "S1_no_write_into_anothers_memory"
NEXT: Final = "S1_no_write_into_the_next_requests_memory"
BACK: Final = "L4_every_chunk_comes_back"


class Counts(NamedTuple):
    """With dead bits cleared, lives and chunks taken for alike, and every property watched."""

    states: int
    transitions: int
    depth: int


def judged(system: System, name: str, configuration: Configuration) -> Finding:
    settings = Settings(properties=(name,))
    (found,) = (f for f in check(system, configuration, settings).findings if f.name == name)
    return found


@pytest.mark.parametrize(
    ("system", "counts", "lengths"),
    [
        (LIGHT, Counts(14_157, 145_409, 28), {WRITE: 8, NEXT: 10}),
        (TIMED, Counts(26_620, 275_339, 30), {WRITE: 9, NEXT: 11}),
        (DEFERRED, Counts(26_620, 279_211, 30), {WRITE: 9, NEXT: 11}),
    ],
    ids=str,
)
def test_each_lets_a_write_into_anothers_memory(
    system: System, counts: Counts, lengths: dict[str, int]
) -> None:
    """And nothing else: every lease ends, every other promise of safety is kept."""
    found = check(system, system.configurations["default"], Settings(keep_going=True))
    broken = {f.name: f.trace_length for f in found.findings if f.verdict is not Verdict.HOLDS}
    assert broken == lengths
    assert Counts(found.states, found.transitions, found.depth) == counts


def test_deferring_is_safe_until_its_clock_strikes_and_endless_without_it() -> None:
    """An answer may never come, so only what keeps a writer out can do without the clock."""
    default = DEFERRED.configurations["default"]
    patient = edited(DEFERRED, "without-clock", DropRow("release_by_clock"))
    assert judged(patient, WRITE, default).verdict is Verdict.HOLDS
    assert judged(patient, BACK, default).verdict is Verdict.VIOLATED
    fenced = SYSTEM.configurations["default"]
    assert judged(SYSTEM, WRITE, fenced).verdict is Verdict.HOLDS
    assert judged(SYSTEM, BACK, fenced).verdict is Verdict.HOLDS


@pytest.mark.parametrize("system", [LIGHT, TIMED, DEFERRED], ids=str)
def test_lint_finds_no_error(system: System) -> None:
    remarks = lint(system, small_sizes(system))
    assert [remark for remark in remarks if remark.severity is Severity.ERROR] == []
