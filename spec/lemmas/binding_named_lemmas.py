"""Why a life gets the request that it asks for: every rank has its number from a sink."""

from typing import Final

from pdproto.spec.handoff.binding_named import asks
from pdproto.spec.handoff.binding_tables import bound, d, h, knows, name, named, p, u
from pdproto.spec.language import Always, implies
from pdproto.spec.lemmas import binding_lemmas

_OF_LEADERS: Final = {
    "the_leader_speaks_of_its_own_request", "a_known_request_is_bound_by_the_leader",
}

LEMMAS: Final = (
    *(lemma for lemma in binding_lemmas.GUARDED if lemma.name not in _OF_LEADERS),
    Always("no_rank_leads", ~bound(p, h, d, u), why="no row sends it"),
    Always("a_sink_knows_the_request_that_it_asks_for", implies(knows(d, h, u), asks(h, u)),
           why="the caller has named it"),
    Always("a_sink_names_the_request_that_it_asks_for", implies(name(d, h, p, u), asks(h, u)),
           why="the caller has named it"),
    Always("a_rank_is_told_the_request_that_a_life_asks_for", implies(named(p, h, u), asks(h, u)),
           why="the rank has it from a sink"),
)
