"""Three other ways to end a lease: the property that each breaks, and the missing part."""

from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.handoff.light import DEFERRED, LIGHT, TIMED
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language import DropRow, System, edited
from tests.handoff.exploring import EXPECTED, counts, judged

WRITE: Final = "S1_writes_stay_in_own_memory"
NEXT: Final = "S1_no_write_into_the_next_requests_memory"
BACK: Final = "L4_every_chunk_comes_back"


@pytest.mark.parametrize(
    ("system", "lengths"),
    [
        (LIGHT, {WRITE: 8, NEXT: 10}),
        (TIMED, {WRITE: 9, NEXT: 11}),
        (DEFERRED, {WRITE: 9, NEXT: 11}),
    ],
    ids=str,
)
def test_each_lets_a_write_into_anothers_memory(
    system: System, lengths: dict[str, int]
) -> None:
    """And nothing else: every lease ends, every other promise of safety is kept."""
    found = check(system, system.configurations["default"], CheckSettings(keep_going=True))
    broken = {f.name: f.trace_length for f in found.findings if f.verdict is not Verdict.HOLDS}
    assert broken == lengths
    assert counts(found) == EXPECTED[system.name, "default"]


def test_deferring_is_unsafe_with_its_clock_and_endless_without_it() -> None:
    """An answer may never come, so only a fence makes the clock needless."""
    default = DEFERRED.configurations["default"]
    patient = edited(DEFERRED, "without-clock", DropRow("release_by_clock"))
    assert judged(patient, WRITE, default).verdict is Verdict.HOLDS
    assert judged(patient, BACK, default).verdict is Verdict.VIOLATED
    fenced = SYSTEM.configurations["default"]
    assert judged(SYSTEM, WRITE, fenced).verdict is Verdict.HOLDS
    assert judged(SYSTEM, BACK, fenced).verdict is Verdict.HOLDS
