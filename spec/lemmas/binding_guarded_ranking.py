"""Why a life, its request and its sink hear of each other where no end gives up, at any size.

A sink asks until it is told the request of its life or the failure, and repeats its aborts.
"""

from typing import Final

from pdproto.spec.handoff.binding import bound
from pdproto.spec.handoff.binding_tables import (
    NOT_KNOWN,
    Opening,
    abort,
    ask,
    d,
    done,
    failed,
    h,
    opening,
    p,
    q,
    took,
    u,
)
from pdproto.spec.handoff.roles import Use as Request
from pdproto.spec.language import Always, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

oldest = Request("oldest")  # request that waits

LEMMAS: Final = (
    Always("a_sink_with_a_part_knows_its_request", implies(took(d, h, p, u), ~NOT_KNOWN),
           why="the first part names the request"),
)
MONOTONE: Final[tuple[Monotone, ...]] = ()

_ASKS: Final = exists(q, ~ask(d, h, q))
_STOPS: Final = exists(q, ~abort(d, h, q))
_HEARS_OF_FAILURE: Final = (Help("fail_again", ~failed(p, h, d)), Help("hear_failure"))

RANKINGS: Final = (
    Ranking("L1_a_life_and_a_request_are_bound", (Help("bind", at={u: oldest}),),
            witnesses=(Witness(oldest, opening(p, oldest) == Opening.WAITING),),
            why="a rank binds the oldest request that waits"),
    Ranking("L1_a_sink_learns_its_request", (
        Help("ask_again", _ASKS), Help("tell_again", ~bound(p, h, d, u)),
        Help("done_again", ~done(p, h, d, u)), *_HEARS_OF_FAILURE,
        Help("hear_use"), Help("take_first"),
    ), using=(Use("a_sink_with_a_part_knows_its_request", {d: d, h: h, p: p, u: u}),),
            why="a sink asks until it is told"),
    Ranking("L2_a_failure_reaches_the_sink", (Help("ask_again", _ASKS), *_HEARS_OF_FAILURE),
            why="a sink asks until it has ended"),
    Ranking("L2_a_failure_reaches_every_rank", (Help("abort_again", _STOPS), Help("stop")),
            why="a sink that has failed repeats its aborts"),
)
