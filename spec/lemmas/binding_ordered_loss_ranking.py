"""Why each life is bound to the request of its place, for every size, where no end fails.

The life at the place of the oldest request that waits on a rank is bound next there. Its sink names
it to the rank until it is met, also when another rank has already told the request.
"""

from typing import Final

from pdproto.spec.handoff.binding_ordered import ALL_EARLIER_MET, earlier, pairs
from pdproto.spec.handoff.binding_tables import (
    OLDEST,
    Meeting,
    Opening,
    ask,
    d,
    h,
    k,
    meeting,
    opening,
    p,
    q,
    u,
)
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.roles import Use as Request
from pdproto.spec.language import Always, all_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

# The oldest request that waits, and the life of its place.
oldest, its = Request("oldest"), Life("its")

LEMMAS: Final = (
    Always("the_first_life_that_waits_has_the_place_of_the_first_request_that_waits",
           implies(all_of(meeting(p, h) == Meeting.UNBOUND, ALL_EARLIER_MET,
                          opening(p, u) == Opening.WAITING, OLDEST), pairs(h, u)),
           why="as many lives as requests are bound before them"),
    Always("no_life_waits_before_that_of_the_first_request_that_waits",
           implies(all_of(pairs(h, u), opening(p, u) == Opening.WAITING, OLDEST, earlier(k, h)),
                   meeting(p, k) != Meeting.UNBOUND),
           why="its request has an earlier place, so it is bound, and to that life"),
)
MONOTONE: Final[tuple[Monotone, ...]] = ()

_ASKS: Final = exists(q, ~ask(d, h, q))

RANKINGS: Final = (
    Ranking("L1_a_life_is_bound_to_the_request_of_its_place", (
        Help("ask_again", _ASKS, {h: its}), Help("be_asked_first", at={h: its}),
        Help("bind", at={h: its, u: oldest}),
    ), witnesses=(Witness(oldest, opening(p, oldest) == Opening.WAITING),
                  Witness(its, pairs(its, oldest))),
            using=(Use("no_life_waits_before_that_of_the_first_request_that_waits",
                       {p: p, h: its, u: oldest}),),
            why="the sink names the life of the oldest request until the rank has met it"),
)
