"""Why ranks that each decide bind each life to the request of its place where no end fails.

Every rank knows the lives and the requests of a room from the first to some last one, and no life
or request leaves these rows but by its binding. So what is bound on a rank is the first lives, with
the first requests.
"""

from typing import Final

from pdproto.spec.handoff.binding import bound
from pdproto.spec.handoff.binding_ordered import pairs
from pdproto.spec.handoff.binding_tables import (
    Meeting,
    Opening,
    Status,
    abort,
    ask,
    binds,
    d,
    done,
    failed,
    h,
    introduce,
    meeting,
    met,
    opening,
    p,
    status,
    took,
    u,
)
from pdproto.spec.language import Always, all_of, any_of, implies
from pdproto.spec.lemmas.binding_ordered_lemmas import BEGUN_IN_ORDER

LEMMAS: Final = (
    Always("no_sink_ends_a_life", status(d, h).among(Status.NONE, Status.BEGUN),
           why="no clock runs out, no rank reports a failure, and no part lands"),
    Always("no_sink_aborts_a_life", ~abort(d, h, p), why="an abort follows a failure"),
    Always("no_rank_reports_a_failure", ~failed(p, h, d), why="no life fails"),
    Always("no_part_is_sent", ~any_of(done(p, h, d, u), took(d, h, p, u)),
           why="these rows end with the binding"),
    Always("no_life_ends_on_a_rank",
           meeting(p, h).among(Meeting.UNMET, Meeting.UNBOUND, Meeting.BOUND),
           why="no sink aborts it, and its request has not ended"),
    Always("no_request_ends", opening(p, u) != Opening.OVER, why="no client leaves"),
    Always("a_speaking_sink_has_begun",
           implies(any_of(introduce(d, h, p), ask(d, h, p), met(p, h, d)),
                   status(d, h) != Status.NONE),
           why="a sink sends nothing about a life before it begins"),
    Always("an_answered_sink_has_begun", implies(bound(p, h, d, u), status(d, h) != Status.NONE),
           why="a rank answers only sinks that it has met"),
    *BEGUN_IN_ORDER,
    Always("a_life_with_a_request_is_bound",
           implies(binds(p, h, u), all_of(meeting(p, h) == Meeting.BOUND,
                                          opening(p, u) == Opening.BOUND)),
           why="the same row binds both"),
    Always("a_life_is_bound_to_the_request_of_its_place", implies(binds(p, h, u), pairs(h, u)),
           why="no end fails"),
    Always("a_bound_life_has_the_request_of_its_place",
           implies(all_of(meeting(p, h) == Meeting.BOUND, pairs(h, u)), binds(p, h, u)),
           why="it is bound to that one, or to none"),
    Always("a_bound_request_has_the_life_of_its_place",
           implies(all_of(opening(p, u) == Opening.BOUND, pairs(h, u)), binds(p, h, u)),
           why="that one is bound to it, or none"),
)
