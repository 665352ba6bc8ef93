"""Why a room is kept by the rules, for any number of rooms, legs and places."""

from typing import Final

from pdproto.spec.handoff.keep import (
    AtLeg,
    Keeping,
    answered,
    ask,
    asking,
    h,
    has_read,
    held,
    keeping,
    other,
    reads,
    refused,
    room,
    served,
)
from pdproto.spec.language import Always, all_of, any_of, implies

LEMMAS: Final = (
    Always("a_leg_asks_once", implies(ask(h, room), asking(h) != AtLeg.IDLE)),
    Always("a_leg_asks_for_one_room",
           implies(all_of(ask(h, room), ask(h, other)), room.same(other))),
    Always("an_answer_is_noted", implies(any_of(served(h), refused(h)), answered(h))),
    Always("a_leg_is_answered_after_it_has_asked",
           implies(answered(h), asking(h) != AtLeg.IDLE)),
    Always("a_leg_that_reads_has_asked", implies(reads(h, room), ask(h, room))),
    Always("a_leg_that_reads_was_answered", implies(reads(h, room), answered(h))),
    Always("a_leg_that_has_read_was_answered", implies(has_read(h), answered(h))),
    Always("a_leg_has_one_answer", implies(served(h), ~refused(h))),
    Always("a_served_leg_was_served", implies(asking(h) == AtLeg.SERVED, served(h))),
    Always("a_refused_leg_was_refused", implies(asking(h) == AtLeg.REFUSED, refused(h))),
    Always("a_room_is_held_until_it_is_over",
           implies(keeping(room).among(Keeping.OPEN, Keeping.KEPT, Keeping.CLOSING), held(room))),
)
