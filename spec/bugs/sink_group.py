"""Defects of a group of sinks, as edits of its tables together with those of the transfer."""

from dataclasses import replace
from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.sink import NO_CLAIM
from pdproto.spec.handoff.sink_group import SYSTEM
from pdproto.spec.language import DropClause, edited

ONE: Final = replace(SYSTEM.configurations["default"], faults=())

BUGS: Final[tuple[Bug, ...]] = (
    Bug("group-free", "no report; an assumption of the rank's report (spec/handoff/group.py)",
        "A decode rank reported its failure at once, and the group freed pages under a write.",
        edited(SYSTEM, "group-free", DropClause("report_broken", NO_CLAIM)),
        ONE, "M4_5_no_page_is_free_while_a_write_to_it_is_possible",
        note="the group takes the report for the end of writing, and no sink keeps its pages"),
)
