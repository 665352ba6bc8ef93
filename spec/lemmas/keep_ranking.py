"""Why a leg is answered at once, for any number of legs and rooms.

A leg asks for one room, which opens. Then one of three rows answers it, in any state of the room.

That the KV of a room is given back has no ranking. When the first leg of a room has ended, `keep`
fires if a place is free, and `keep_not` if none is. Other rooms take and leave places meanwhile, so
neither of the two need stay enabled, and no variable counts how often a place has changed hands.
"""

from typing import Final

from pdproto.spec.handoff.keep import (
    AtLeg,
    KeptRoom,
    answered,
    ask,
    asking,
    h,
    refused,
    room,
    served,
)
from pdproto.spec.language import Always, any_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

asked = KeptRoom("asked")

LEMMAS: Final = (
    Always("a_leg_that_asks_has_asked_for_a_room",
           implies(asking(h) == AtLeg.ASKING, exists(room, ask(h, room)))),
    Always("a_noted_answer_was_sent", implies(answered(h), any_of(served(h), refused(h)))),
)
MONOTONE: Final[tuple[Monotone, ...]] = ()

RANKINGS: Final = (
    Ranking("L2_a_leg_is_answered_at_once", (
        Help("be_served"), Help("be_refused"), Help("open_room", at={room: asked}),
        Help("serve", at={room: asked}), Help("refuse_other", at={room: asked}),
        Help("refuse_late", at={room: asked}),
    ), witnesses=(Witness(asked, ask(h, asked)),),
        using=(Use("a_leg_that_asks_has_asked_for_a_room", {h: h}),),
        why="the room opens, and a row answers the leg, whatever its state"),
)
