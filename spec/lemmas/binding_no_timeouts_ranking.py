"""Why a life and a request are bound on every rank where no end gives up, for every size.

A sink asks until it is told the request of its life or the failure. It tells the other ranks the
request until they know it, also when the life has ended.
"""

from collections.abc import Mapping
from typing import Final

from pdproto.spec.handoff.binding_tables import (
    Opening,
    abort,
    ask,
    binds,
    bound,
    d,
    done,
    failed,
    h,
    knows,
    leads,
    met,
    name,
    named,
    opening,
    p,
    q,
    took,
    u,
    v,
)
from pdproto.spec.handoff.roles import Sink
from pdproto.spec.handoff.roles import Use as Request
from pdproto.spec.language import Always, all_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness
from pdproto.spec.language.sorts import Sort

# The oldest request that waits; the request that the sink knows; a sink that has met the leader.
oldest, its, asker = Request("oldest"), Request("its"), Sink("asker")
told_of = Request("told_of")  # the request that a rank has been told

LEMMAS: Final = (
    Always("a_sink_knows_the_request_of_its_leader",
           implies(all_of(leads(h, p), binds(p, h, v), knows(d, h, u)), u.same(v)),
           why="the leader binds the life once"),
    Always("a_sink_learns_the_request_from_the_part_of_its_leader",
           implies(all_of(leads(h, p), took(d, h, p, u)), knows(d, h, u)),
           why="the first part of the leader names the request"),
)
MONOTONE: Final[tuple[Monotone, ...]] = ()

_ASKS: Final = exists(q, ~ask(d, h, q))
_STOPS: Final = exists(q, ~abort(d, h, q))
_NAMES: Final = exists(q, all_of(~leads(h, q), ~name(d, h, q, u)))
_OF_ASKER: Final[Mapping[Sort, Sort]] = {d: asker}

_KNOWN: Final = Witness(its, knows(d, h, its))
_HEARS_OF_FAILURE: Final = (Help("fail_again", ~failed(p, h, d)), Help("hear_failure"))


def _learns(of: Mapping[Sort, Sort]) -> tuple[Help, ...]:
    """The rows by which a sink that has begun learns its request, or the failure of its life."""
    return (
        Help("ask_again", _ASKS, of),
        Help("tell_again", ~bound(p, h, d, u), of), Help("done_again", ~done(p, h, d, u), of),
        Help("fail_again", ~failed(p, h, d), of), Help("hear_failure", at=of),
        Help("hear_use", at=of), Help("take_first", at=of),
    )


RANKINGS: Final = (
    Ranking("L1_a_life_and_a_request_are_bound", (Help("bind", at={u: oldest}),),
            witnesses=(Witness(oldest, opening(p, oldest) == Opening.WAITING),),
            why="the leader binds the oldest request that waits"),
    Ranking("L1_a_request_on_both_servers_is_bound", (
        Help("ask_again", _ASKS), Help("be_asked_first"), Help("bind", at={u: oldest}),
        *_HEARS_OF_FAILURE,
    ), witnesses=(Witness(oldest, opening(p, oldest) == Opening.WAITING), _KNOWN),
            using=(Use("a_known_request_is_bound_by_the_leader", {d: d, h: h, u: its}),
                   Use("a_running_life_has_a_request", {p: p, h: h})),
            why="a sink asks the leader until it knows its request"),
    Ranking("L1_a_sink_learns_its_request", _learns({}),
            why="a sink asks the leader until it is told"),
    Ranking("L1_every_rank_binds_as_its_leader", (
        *_learns(_OF_ASKER),
        Help("abort_again", _STOPS, _OF_ASKER), Help("stop", at=_OF_ASKER),
        Help("stop_again", ~bound(p, h, d, u), _OF_ASKER),
        Help("ask_again_by_name", _NAMES, _OF_ASKER),
        Help("abort_again_by_name", _NAMES, _OF_ASKER),
        Help("learn_use_first", at={d: asker, p: q}), Help("learn_use", at={d: asker, p: q}),
        Help("bind_named", at={p: q}), Help("end_named", at={p: q}),
    ), witnesses=(Witness(asker, met(p, h, asker)), Witness(told_of, named(q, h, told_of))),
            using=(Use("a_told_request_is_bound_by_the_leader", {p: q, h: h, u: told_of}),
                   Use("a_life_is_met_with_a_sink", {p: p, h: h}),
                   Use("a_running_life_has_a_request", {p: q, h: h}),
                   Use("S2_a_success_has_every_part", {d: asker, h: h, p: q})),
            why="a sink that knows the request tells the other ranks until they know it"),
    Ranking("L2_a_failure_reaches_the_sink", (
        Help("ask_again", _ASKS), Help("ask_again_by_name", _ASKS, {u: its}), *_HEARS_OF_FAILURE,
    ), witnesses=(_KNOWN,), why="a sink asks until it has ended"),
    Ranking("L2_a_failure_reaches_every_rank", (
        Help("abort_again", _STOPS), Help("abort_again_by_name", _STOPS, {u: its}), Help("stop"),
    ), witnesses=(_KNOWN,), why="a sink that has failed repeats its aborts"),
)
