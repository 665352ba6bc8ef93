"""The history of a group's passes adds variables that no row reads."""

from dataclasses import replace

import pytest

from pdproto.spec.handoff.optimistic_group import SYSTEM
from pdproto.spec.handoff.optimistic_group_history import EFFECTS, HISTORY, LOSS_HISTORY
from pdproto.spec.handoff.optimistic_group_loss import LOSS
from pdproto.spec.language import DropEffect, Sometimes, System, edited


def rows_of(system: System) -> list[object]:
    return [replace(row, do=tuple(row.do)) for _, row in system.rows()]


@pytest.mark.parametrize(
    ("history", "system"), [(HISTORY, SYSTEM), (LOSS_HISTORY, LOSS)], ids=["prompt", "loss"])
def test_the_history_without_what_it_remembers_is_the_system(
    history: System, system: System
) -> None:
    """So every run of the system is a run of the history, and what holds there holds here."""
    bare = edited(history, "bare", *(DropEffect(edit.row, edit.effect) for edit in EFFECTS))
    assert rows_of(bare) == rows_of(system)
    assert bare.faults == system.faults
    assert bare.properties == tuple(claim for claim in system.properties
                                    if claim in history.properties)


@pytest.mark.parametrize(
    ("history", "system"), [(HISTORY, SYSTEM), (LOSS_HISTORY, LOSS)], ids=["prompt", "loss"])
def test_the_history_has_all_promises_of_the_system(history: System, system: System) -> None:
    """Only witnesses may be left out: a search finds them in the system itself."""
    left = [claim for claim in system.properties if claim not in history.properties]
    assert [claim for claim in left if not isinstance(claim, Sometimes)] == []
