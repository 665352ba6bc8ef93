"""Why a success has the parts of one request, for any number of ranks, lives, requests and sinks.

A sink begins before anybody hears of its life, and a rank speaks only of the request that it has
bound.
"""

from typing import Final

from pdproto.spec.handoff.binding import bound
from pdproto.spec.handoff.binding_tables import (
    Meeting,
    Status,
    abort,
    ask,
    binds,
    d,
    done,
    failed,
    h,
    introduce,
    knows,
    meeting,
    met,
    p,
    q,
    status,
    took,
    u,
)
from pdproto.spec.language import Always, any_of, exists, implies

# Also where the caller names the request.
NAMED_BY_EITHER: Final = (
    Always("a_life_with_a_request_is_bound",
           implies(binds(p, h, u), ~meeting(p, h).among(Meeting.UNMET, Meeting.UNBOUND)),
           why="the same row binds both"),
    Always("a_running_life_has_a_request",
           implies(meeting(p, h).among(Meeting.BOUND, Meeting.SENT), exists(u, binds(p, h, u))),
           why="the same row binds both"),
    Always("a_speaking_sink_has_begun",
           implies(any_of(introduce(d, h, p), ask(d, h, p), abort(d, h, p), met(p, h, d)),
                   status(d, h) != Status.NONE),
           why="a sink sends nothing about a life before it begins"),
    Always("an_answered_sink_has_begun",
           implies(any_of(done(p, h, d, u), failed(p, h, d)), status(d, h) != Status.NONE),
           why="a rank answers only sinks that it has met"),
    Always("a_done_rank_speaks_of_its_own_request", implies(done(p, h, d, u), binds(p, h, u)),
           why="a part that is sent belongs to a request"),
    Always("a_taken_request_is_bound", implies(took(d, h, p, u), binds(p, h, u)),
           why="a sink records the use that a source names"),
)
LEMMAS: Final = (
    *NAMED_BY_EITHER,
    Always("a_sink_that_is_told_a_request_has_begun",
           implies(bound(p, h, d, u), status(d, h) != Status.NONE),
           why="a rank answers only sinks that it has met"),
    Always("a_rank_speaks_of_its_own_request", implies(bound(p, h, d, u), binds(p, h, u)),
           why="it names the request when it has bound it"),
    Always("a_known_request_is_bound", implies(knows(d, h, u), exists(q, binds(q, h, u))),
           why="the sink has it from a rank"),
)
