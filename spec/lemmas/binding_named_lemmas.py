"""Why a life gets the request that it asks for: every rank has its number from a sink."""

from typing import Final

from pdproto.spec.handoff.binding import bound
from pdproto.spec.handoff.binding_named import asks, name, named
from pdproto.spec.handoff.binding_tables import Status, d, h, knows, p, status, u
from pdproto.spec.language import Always, implies
from pdproto.spec.lemmas import binding_lemmas

LEMMAS: Final = (
    *binding_lemmas.NAMED_BY_EITHER,
    Always("a_naming_sink_has_begun", implies(name(d, h, p, u), status(d, h) != Status.NONE),
           why="a sink sends nothing about a life before it begins"),
    Always("no_rank_names_a_request", ~bound(p, h, d, u), why="no row sends it"),
    Always("a_sink_knows_the_request_that_it_asks_for", implies(knows(d, h, u), asks(h, u)),
           why="the caller has named it"),
    Always("a_sink_names_the_request_that_it_asks_for", implies(name(d, h, p, u), asks(h, u)),
           why="the caller has named it"),
    Always("a_rank_is_told_the_request_that_a_life_asks_for", implies(named(p, h, u), asks(h, u)),
           why="the rank has it from a sink"),
)
