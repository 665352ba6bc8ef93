"""Why a decode scheduler hears of an end only when its pages are free, however many requests."""

from typing import Final

from pdproto.spec.handoff.scheduler import (
    BEFORE,
    OPENED,
    Course,
    Slot,
    View,
    course,
    h,
    knows,
    passed,
    reached,
    row,
)
from pdproto.spec.language import Always, all_of, implies

LEMMAS: Final = (
    Always("no_hand_over_before_its_turn",
           implies(knows(h).among(*BEFORE), course(h) == Course.NONE),
           why="it is opened in its turn"),
    Always("an_open_request_has_a_course",
           implies(knows(h).among(*OPENED, View.SUCCESS), course(h) != Course.NONE)),
    Always("pages_are_reached_while_it_lasts",
           implies(reached(h), ~course(h).among(Course.NONE, Course.LANDED))),
    Always("a_row_comes_with_the_last_bytes",
           implies(row(h) != Slot.EMPTY, course(h) == Course.LANDED)),
    Always("a_passed_turn_is_of_a_failure",
           implies(passed(h), all_of(knows(h) == View.FAILED, course(h) == Course.NONE))),
    Always("a_failure_has_passed_or_ended",
           implies(all_of(knows(h) == View.FAILED, course(h) == Course.NONE), passed(h))),
)
