"""Why a decode scheduler gets an end only when its pages are free, for any number of requests."""

from typing import Final

from pdproto.spec.handoff.scheduler import (
    BEFORE,
    OPENED,
    Knowledge,
    Reported,
    Slot,
    h,
    knows,
    passed,
    reached,
    row,
    status,
)
from pdproto.spec.language import Always, all_of, implies

LEMMAS: Final = (
    Always("no_hand_over_before_its_turn",
           implies(knows(h).among(*BEFORE), status(h) == Reported.NONE),
           why="a hand-over is opened in its turn"),
    Always("an_open_request_has_a_status",
           implies(knows(h).among(*OPENED, Knowledge.SUCCESS), status(h) != Reported.NONE)),
    Always("pages_are_reached_while_it_lasts",
           implies(reached(h), ~status(h).among(Reported.NONE, Reported.LANDED))),
    Always("a_row_comes_with_the_last_bytes",
           implies(row(h) != Slot.EMPTY, status(h) == Reported.LANDED)),
    Always("a_passed_turn_is_of_a_failure",
           implies(passed(h), all_of(knows(h) == Knowledge.FAILED, status(h) == Reported.NONE))),
    Always("a_failure_has_passed_or_ended",
           implies(all_of(knows(h) == Knowledge.FAILED, status(h) == Reported.NONE), passed(h))),
)
