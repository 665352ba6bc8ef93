"""Why a leg is answered by the rules of ended.py, for any number of rooms, legs and requests."""

from typing import Final

from pdproto.spec.handoff.ended import (
    AtLeg,
    answered,
    ask,
    asking,
    came,
    h,
    had,
    leave,
    other,
    refused,
    room,
    served,
    u,
    waits,
)
from pdproto.spec.language import Always, all_of, any_of, implies

LEMMAS: Final = (
    Always("a_leg_asks_once", implies(ask(h, room), asking(h) != AtLeg.IDLE)),
    Always("a_leg_asks_for_one_room",
           implies(all_of(ask(h, room), ask(h, other)), room.same(other))),
    Always("a_request_that_has_ended_has_come", implies(had(room, u), came(u))),
    Always("a_leg_that_waits_has_asked", implies(waits(h, room), ask(h, room))),
    Always("a_leg_that_has_left_knows_it", implies(leave(h, room), asking(h) == AtLeg.LEFT)),
    Always("a_leg_that_waits_has_no_answer", implies(waits(h, room), ~answered(h))),
    Always("a_leg_is_answered_after_it_has_asked",
           implies(answered(h), asking(h) != AtLeg.IDLE)),
    Always("an_answer_is_noted", implies(any_of(served(h), refused(h)), answered(h))),
    Always("a_leg_has_one_answer", implies(served(h), ~refused(h))),
    Always("a_served_leg_was_served", implies(asking(h) == AtLeg.SERVED, served(h))),
    Always("a_refused_leg_was_refused", implies(asking(h) == AtLeg.REFUSED, refused(h))),
)
