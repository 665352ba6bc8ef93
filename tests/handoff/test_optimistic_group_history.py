"""The history of a group's passes adds variables that no row reads."""

from dataclasses import replace

from pdproto.spec.handoff.optimistic_group import SYSTEM
from pdproto.spec.handoff.optimistic_group_history import EFFECTS, HISTORY
from pdproto.spec.language import DropEffect, System, edited


def rows_of(system: System) -> list[object]:
    return [replace(row, do=tuple(row.do)) for _, row in system.rows()]


def test_the_history_without_what_it_remembers_is_the_system() -> None:
    """So every run of the system is a run of the history, and what holds there holds here."""
    bare = edited(HISTORY, "bare", *(DropEffect(edit.row, edit.effect) for edit in EFFECTS))
    assert rows_of(bare) == rows_of(SYSTEM)
    assert bare.faults == SYSTEM.faults
    assert bare.properties == tuple(claim for claim in SYSTEM.properties
                                    if claim in HISTORY.properties)
