"""Why a leg is answered at once, for any number of legs and rooms.

A leg asks for one room, which opens. Then one of three rows answers it, in any state of the room.

The KV of a room is given back: the legs that read it end, one after the other, and then a clock, or
nothing, ends the room. When the first leg ends, the room gets a place if one is free. Other rooms
take and leave places meanwhile, but a room leaves its places once, for good.
"""

from typing import Final

from pdproto.spec.handoff.keep import (
    AtLeg,
    Keeping,
    KeptRoom,
    answered,
    ask,
    asking,
    h,
    held,
    keeping,
    m,
    place,
    reads,
    refused,
    room,
    served,
)
from pdproto.spec.handoff.roles import Life, Slot
from pdproto.spec.language import Always, all_of, any_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

asked, reader, spot = KeptRoom("asked"), Life("reader"), Slot("spot")

LEMMAS: Final = (
    Always("a_leg_that_asks_has_asked_for_a_room",
           implies(asking(h) == AtLeg.ASKING, exists(room, ask(h, room)))),
    Always("a_noted_answer_was_sent", implies(answered(h), any_of(served(h), refused(h)))),
    Always("a_room_that_is_held_is_not_over", implies(
        held(room), keeping(room).among(Keeping.OPEN, Keeping.KEPT, Keeping.CLOSING))),
)
MONOTONE: Final = (
    Monotone("a_leg_has_read", all_of(answered(h), ~reads(h, room)), why="a leg is answered once"),
    Monotone("a_place_is_taken", place(m).is_set,
             why="a room leaves its places only with its end, which is final"),
)

RANKINGS: Final = (
    Ranking("L2_a_leg_is_answered_at_once", (
        Help("be_served"), Help("be_refused"), Help("open_room", at={room: asked}),
        Help("serve", at={room: asked}), Help("refuse_other", at={room: asked}),
        Help("refuse_late", at={room: asked}),
    ), witnesses=(Witness(asked, ask(h, asked)),),
        using=(Use("a_leg_that_asks_has_asked_for_a_room", {h: h}),),
        why="the room opens, and a row answers the leg, whatever its state"),
    Ranking("L4_the_kv_of_a_room_is_given_back", (
        Help("keep", at={h: reader, m: spot}), Help("keep_not", at={h: reader}),
        Help("note_end", at={h: reader}), Help("end_keep"), Help("end_unasked"), Help("give_back"),
    ), witnesses=(Witness(reader, reads(reader, room)), Witness(spot, place(spot).unset)),
        why="each leg that reads the room ends, and a room that no leg reads ends by a clock"),
)
