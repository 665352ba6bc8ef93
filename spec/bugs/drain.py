"""Defects of the drain of a server, each an edit of the table of drain.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.drain import ALL_CONFIRMED, SYSTEM
from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import Configuration, DropClause, edited

BUGS: Final[tuple[Bug, ...]] = (
    Bug("empty-before-confirmed", "pdproto, before its drain waited for the other end",
        "A prefill rank was stopped when it said that it was empty; decode, which still compared "
        "what had landed, failed 1 of 317 requests.",
        edited(SYSTEM, "empty-before-confirmed", DropClause("be_empty", ALL_CONFIRMED)),
        Configuration({Life: 1}), "a_stop_after_empty_fails_no_request",
        note="an operator also had to wait for the metric num_remembered_lives"),
)
