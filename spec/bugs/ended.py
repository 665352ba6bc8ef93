"""Defects of rooms whose requests have ended, each an edit of the table of ended.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.ended import NONE_RUNS, NONE_WAITS, SYSTEM, AskedRoom, h, once
from pdproto.spec.handoff.roles import Life, Use
from pdproto.spec.language import Configuration, DropClause, DropProperty, DropRow, edited

ONE_LEG: Final = Configuration({AskedRoom: 1, Life: 1, Use: 1})

BUGS: Final[tuple[Bug, ...]] = (
    Bug("ended-waits-for-a-clock", "pdproto, before ended rooms were remembered",
        "A router repeated the decode request of a room under SGLang. Prefill had ended its "
        "request, and the second one held decode's pages until `bootstrap_timeout`.",
        edited(SYSTEM, "ended-waits-for-a-clock", DropRow("refuse_ended"),
               DropProperty("no_leg_is_refused_while_a_request_runs")),
        ONE_LEG, "L2_a_leg_of_an_ended_room_is_told_at_once"),
    Bug("ended-refuses-what-is-computed-again", "pdproto, the first design of this table",
        "Decode gave the KV of a request back, and SGLang asked prefill again under the same room. "
        "Prefill refused the leg before that request had come.",
        edited(SYSTEM, "ended-refuses-what-is-computed-again", DropClause("refuse_ended", once(h))),
        ONE_LEG, "a_leg_that_waits_for_its_request_is_not_refused"),
    Bug("ended-refuses-beside-a-request", "an edit that no other defect of this table covers",
        "Prefill refused a leg although a request of its room and prompt had come again.",
        edited(SYSTEM, "ended-refuses-beside-a-request", DropClause("refuse_ended", NONE_RUNS)),
        Configuration({AskedRoom: 1, Life: 1, Use: 2}), "no_leg_is_refused_while_a_request_runs"),
    Bug("ended-forgets-under-a-leg", "an edit that no other defect of this table covers",
        "Prefill forgot an ended room to make place for another, and a leg of it waited for a "
        "clock.",
        edited(SYSTEM, "ended-forgets-under-a-leg", DropClause("forget_room", NONE_WAITS)),
        ONE_LEG, "no_room_is_forgotten_under_a_leg"),
)
