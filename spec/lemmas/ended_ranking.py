"""Why a leg of an ended room is told, for any number of rooms, legs and requests.

A leg waits while a request of its room runs. Each request runs once, and ends; when none runs, the
leg is refused, unless one of them has served it.
"""

from typing import Final

from pdproto.spec.handoff.ended import (
    AtLeg,
    asking,
    came,
    ended,
    h,
    once,
    refused,
    room,
    runs,
    served,
    u,
    waits,
)
from pdproto.spec.handoff.roles import Use
from pdproto.spec.language import all_of, any_of
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Witness

LEMMAS: Final = ()
MONOTONE: Final = (
    Monotone("a_request_has_ended", all_of(came(u), ~runs(u, room)),
             why="a request runs once, in one room"),
)

running = Use("running")

RANKINGS: Final = (
    Ranking("L2_a_leg_of_an_ended_room_is_told_at_once", (
        Help("be_served"), Help("be_refused"), Help("refuse_ended"),
        Help("end_request", at={u: running}),
    ), pending=all_of(asking(h) == AtLeg.ASKING, any_of(
        all_of(waits(h, room), once(h), ended(room)), served(h), refused(h))),
        witnesses=(Witness(running, runs(running, room)),),
        why="the requests of its room end, one after the other"),
)
