"""Why a life is one request on every rank, for any number of ranks, lives, requests and sinks.

A sink knows only the request that the leader has bound, and tells the other ranks only that one. So
they bind the same. A rank binds a request once, and the leader binds each life once.
"""

from typing import Final

from pdproto.spec.handoff.binding_tables import (
    Meeting,
    Status,
    abort,
    ask,
    binds,
    bound,
    d,
    done,
    failed,
    h,
    introduce,
    knows,
    leads,
    meeting,
    met,
    name,
    named,
    p,
    q,
    status,
    took,
    u,
)
from pdproto.spec.language import Always, all_of, any_of, exists, implies

LED: Final = exists(q, all_of(leads(h, q), binds(q, h, u)))

# These hold even where a rank decides for itself.
GUARDED: Final = (
    Always("a_life_with_a_request_is_bound",
           implies(binds(p, h, u), ~meeting(p, h).among(Meeting.UNMET, Meeting.UNBOUND)),
           why="the same row binds both"),
    Always("a_running_life_has_a_request",
           implies(meeting(p, h).among(Meeting.BOUND, Meeting.SENT), exists(u, binds(p, h, u))),
           why="the same row binds both"),
    Always("a_speaking_sink_has_begun",
           implies(any_of(introduce(d, h, p), ask(d, h, p), abort(d, h, p), name(d, h, p, u),
                          met(p, h, d)), status(d, h) != Status.NONE),
           why="a sink sends nothing about a life before it begins"),
    Always("an_answered_sink_has_begun",
           implies(any_of(bound(p, h, d, u), done(p, h, d, u), failed(p, h, d)),
                   status(d, h) != Status.NONE),
           why="a rank answers only sinks that it has met"),
    Always("the_leader_speaks_of_its_own_request",
           implies(bound(p, h, d, u), leads(h, p) & binds(p, h, u)),
           why="the leader names the use of a life only when it has bound it"),
    Always("a_done_rank_speaks_of_its_own_request", implies(done(p, h, d, u), binds(p, h, u)),
           why="a part that is sent belongs to a request"),
    Always("a_taken_request_is_bound", implies(took(d, h, p, u), binds(p, h, u)),
           why="a sink records the use that a source names"),
    Always("a_known_request_is_bound_by_the_leader", implies(knows(d, h, u), LED),
           why="the sink has it from the leader"),
)

LEMMAS: Final = (
    *GUARDED,
    Always("a_passed_on_request_is_bound_by_the_leader", implies(name(d, h, p, u), LED),
           why="a sink passes on only the use that it knows"),
    Always("a_told_request_is_bound_by_the_leader", implies(named(p, h, u), LED),
           why="the rank has it from a sink"),
    Always("the_others_bind_as_told", implies(binds(p, h, u), leads(h, p) | named(p, h, u)),
           why="only the leader decides"),
)
