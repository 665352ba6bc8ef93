"""Why a named life and its request are bound, or end together, where no end gives up, at any size.

A sink knows its request from the start, and names it to every rank until the life has ended. Each
rank then binds the life, or tells the sink the failure.
"""

from typing import Final

from pdproto.spec.handoff.binding_named import asks, name
from pdproto.spec.handoff.binding_tables import (
    Meeting,
    Opening,
    Status,
    abort,
    ask,
    binds,
    d,
    failed,
    h,
    knows,
    meeting,
    opening,
    p,
    q,
    status,
    u,
)
from pdproto.spec.language import Always, all_of, any_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use

LEMMAS: Final = (
    Always("a_sink_that_has_begun_knows_its_request",
           implies(status(d, h) != Status.NONE, exists(u, knows(d, h, u))),
           why="the caller has named it"),
)
MONOTONE: Final[tuple[Monotone, ...]] = ()

_ASKS: Final = exists(q, ~ask(d, h, q))
_STOPS: Final = exists(q, ~abort(d, h, q))
_NAMES: Final = exists(q, ~name(d, h, q, u))
_KNOWS: Final = Use("a_sink_that_has_begun_knows_its_request", {d: d, h: h})
_RUNS: Final = Use("a_running_life_has_a_request", {p: p, h: h})
_IS_NAMED: Final = (Help("learn_use_first"), Help("learn_use"))
_HEARS_OF_FAILURE: Final = (Help("fail_again", ~failed(p, h, d)), Help("hear_failure"))

RANKINGS: Final = (
    Ranking("L1_a_request_on_both_servers_is_bound", (
        Help("ask_again_by_name", _NAMES), *_IS_NAMED, Help("bind_named"), Help("end_named"),
    ), using=(_KNOWS, _RUNS), why="the rank is told which request it is, until it binds it"),
    Ranking("L2_a_request_that_has_ended_ends_its_life", (
        Help("ask_again_by_name", _NAMES), Help("ask_again_by_name", _ASKS), *_IS_NAMED,
        Help("find_over"), *_HEARS_OF_FAILURE,
    ), pending=all_of(asks(h, u), status(d, h) == Status.BEGUN, any_of(
        opening(p, u) == Opening.OVER,
        all_of(binds(p, h, u), meeting(p, h) == Meeting.FAILED))),
            using=(_KNOWS, _RUNS),
            why="the rank finds that the request has ended, and the sink asks until it hears"),
    Ranking("L2_a_life_that_has_ended_ends_its_request", (
        Help("abort_again_by_name", _NAMES), *_IS_NAMED, Help("bind_named"), Help("end_named"),
    ), using=(_KNOWS, _RUNS), why="the sink names the request with each abort"),
    Ranking("L2_a_failure_reaches_every_rank", (
        Help("abort_again_by_name", _STOPS), Help("stop"),
    ), using=(_KNOWS,), why="a sink that has failed repeats its aborts"),
    Ranking("L2_a_failure_reaches_the_sink", (
        Help("ask_again_by_name", _ASKS), *_HEARS_OF_FAILURE,
    ), using=(_KNOWS,), why="a sink asks until it has ended"),
)
