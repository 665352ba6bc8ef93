"""Registries that share a store: the need of each precaution."""

from typing import Final

import pytest

from pdproto.check.result import Verdict
from pdproto.spec.handoff.replica import SYSTEM, View, beat, copy, counted
from pdproto.spec.language import DropClause, Retarget, System, edited
from tests.handoff.exploring import judged, lint_errors, name_of

CLAIM: Final = "nothing_is_answered_after_its_lease"
BROKEN: Final = (
    edited(SYSTEM, "a-beat-counts-twice", DropClause("be_current", ~counted(copy, beat))),
    edited(SYSTEM, "current-before-it-has-read",
           Retarget("copy_registration", to=View.CURRENT)),
)


@pytest.mark.parametrize("system", BROKEN, ids=name_of)
def test_each_precaution_is_needed(system: System) -> None:
    """Without it a registry answers with a run whose lease is over."""
    configuration = SYSTEM.configurations["restart"]
    assert judged(system, CLAIM, configuration).verdict is Verdict.VIOLATED
    assert judged(SYSTEM, CLAIM, configuration).verdict is Verdict.HOLDS


def test_lint_finds_no_error() -> None:
    assert lint_errors(SYSTEM) == []
