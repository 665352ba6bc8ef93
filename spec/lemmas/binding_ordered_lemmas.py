"""Why ranks that each decide bind alike while no end fails, for any number of ranks and lives.

Every rank knows the lives and the requests of a room from the first to some last one. It binds the
first of each that waits. So the lives before a life have the requests before its own.
"""

from typing import Final

from pdproto.spec.handoff.binding_ordered import earlier
from pdproto.spec.handoff.binding_tables import (
    Opening,
    Status,
    d,
    h,
    k,
    opening,
    p,
    status,
    u,
    v,
)
from pdproto.spec.language import Always, all_of, implies
from pdproto.spec.lemmas import binding_lemmas

BEGUN_IN_ORDER: Final = (
    Always("lives_begin_in_their_order",
           implies(all_of(earlier(k, h), status(d, h) != Status.NONE),
                   status(d, k) != Status.NONE),
           why="a decode server begins one after the other"),
    Always("requests_are_opened_in_their_order",
           implies(all_of(v.before(u), opening(p, u) != Opening.NEVER),
                   opening(p, v) != Opening.NEVER),
           why="the ranks open requests in one order"),
)
LEMMAS: Final = (*binding_lemmas.LEMMAS, *BEGUN_IN_ORDER)
