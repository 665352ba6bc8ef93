"""Why a life fails with a request that had ended, for any number of ranks, sinks and requests."""

from typing import Final

from pdproto.spec.handoff.binding_history import had_ended
from pdproto.spec.handoff.binding_tables import Opening, binds, h, opening, p, u
from pdproto.spec.language import Always, implies
from pdproto.spec.lemmas import binding_lemmas

LEMMAS: Final = (
    *binding_lemmas.LEMMAS,
    Always("a_bound_life_has_its_request", implies(binds(p, h, u), opening(p, u) == Opening.BOUND),
           why="the same row binds both"),
    Always("a_request_that_had_ended_is_open_no_more",
           implies(had_ended(p, u), opening(p, u).among(Opening.OVER, Opening.BOUND))),
)
