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
    name,
    named,
    opening,
    p,
    status,
    u,
    v,
)
from pdproto.spec.language import Always, all_of, implies
from pdproto.spec.lemmas import binding_lemmas

# Nothing rests on these where each rank leads.
_IDLE: Final = {
    "the_leader_speaks_of_its_own_request", "a_known_request_is_bound_by_the_leader",
}

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
LEMMAS: Final = (
    *(lemma for lemma in binding_lemmas.GUARDED if lemma.name not in _IDLE),
    Always("no_sink_names_a_request", ~name(d, h, p, u),
           why="each rank leads, so a sink has no other rank to tell"),
    Always("no_rank_is_told_a_request", ~named(p, h, u), why="no sink names one"),
    *BEGUN_IN_ORDER,
)
