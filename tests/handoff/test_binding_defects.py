"""Defects of the binding of a room to a life: each is refuted, at the smallest sizes that show it.
"""

from typing import Final

import pytest

from pdproto.check.result import Verdict
from pdproto.spec.bugs.binding import BUGS, TWO_PROMPTS
from pdproto.spec.bugs.bug import Bug
from tests.handoff.exploring import judged, name_of

TRACE_LENGTHS: Final = {
    "first-come": 5,
    "retry-failed": 6,
    "retry-lost": 4,
    "use-kept": 4,
    "prompt-by-room": 4,
    "prompt-by-params": 4,
    "prompt-in-order": 7,
    "prompt-told-once": 4,
}
SMALLER: Final = {"prompt-in-order": TWO_PROMPTS}  # one rank; the system is for two


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_the_defect_is_refuted(bug: Bug) -> None:
    found = judged(bug.system, bug.violates, SMALLER.get(bug.id, bug.configuration))
    assert found.verdict is Verdict.VIOLATED
    assert found.trace_length == TRACE_LENGTHS[bug.id]


def test_each_defect_is_pinned_once() -> None:
    assert [bug.id for bug in BUGS] == list(TRACE_LENGTHS)
