"""The binding with a variable that remembers, and without loss, for changes that only it shows.

In binding.py a life that is bound to a request looks alike, whether the request waited or had ended
before. And a rank that has heard the name of a request from one sink and was met by another looks
like a rank that the first sink has met. Here a rank remembers which requests had ended, and no
message is ever gone, so that both can be told apart.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.binding import BOUND_TO_A_LIFE, SYSTEM
from pdproto.spec.handoff.binding_tables import (
    Meeting,
    Opening,
    binds,
    d,
    h,
    leads,
    meeting,
    met,
    name,
    named,
    opening,
    p,
    rank,
    u,
)
from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import (
    AddEffect,
    Always,
    Configuration,
    ReplaceProperties,
    Sometimes,
    all_of,
    edited,
    exists,
    implies,
)

had_ended = rank.relation("had_ended", Use)  # the request ended here before it was bound


def _configuration(sources: int, sinks: int) -> Configuration:
    return Configuration({Source: sources, Sink: sinks, Life: 1, Use: 1},
                         dead_bits=True, symmetry=True)


HISTORY: Final = edited(
    replace(SYSTEM, faults={}, configurations={}, like=SYSTEM), "binding-history",
    *(AddEffect(row, had_ended(p, u).to(True)) for row in ("leave", "give_up_waiting")),
    ReplaceProperties((
        Always("a_life_fails_with_a_request_that_had_ended",
               implies(all_of(had_ended(p, u), binds(p, h, u)), meeting(p, h) == Meeting.FAILED),
               why="prefill will not run for it, so no bytes will come"),
        Always("a_request_that_ended_unbound_is_remembered",
               implies(opening(p, u) == Opening.OVER, had_ended(p, u)),
               why="by the rows that end it, so that the property before speaks of each"),
        BOUND_TO_A_LIFE,
        Sometimes("a_life_is_bound_to_a_request_that_had_ended",
                  all_of(had_ended(p, u), binds(p, h, u), leads(h, p))),
        Always("a_sink_that_names_a_request_is_met",
               implies(named(p, h, u), exists(d, all_of(met(p, h, d), name(d, h, p, u)))),
               why="the rank answers this sink without a question"),
        Always("no_leader_is_told_its_own_decision", implies(leads(h, p), ~name(d, h, p, u)),
               why="a sink has the name from the leader"),
        Sometimes("a_rank_is_told_the_request", named(p, h, u)),
    )),
    about="The binding without loss, where a rank remembers which requests ended unbound.",
    configurations={"default": _configuration(2, 1), "sinks": _configuration(2, 2)},
)
