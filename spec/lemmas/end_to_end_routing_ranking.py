"""Why every life of a routed room drains, and the room is struck out, for any number of groups,
ranks, rooms, sinks and chunks.

The rankings of the transfer hold here too. The row `obey_refusal` ends a receiver one way more.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff import routing
from pdproto.spec.handoff.end_to_end_routing import ROUTING, ours, runs
from pdproto.spec.handoff.ends import (
    Sending,
    Write,
    b,
    d,
    feeds,
    h,
    p,
    sending,
    target,
    write,
)
from pdproto.spec.handoff.roles import Sink, Source
from pdproto.spec.handoff.routing import Runs, alone, modulo, x, y
from pdproto.spec.language import Always, Sort, all_of, exists, forall, implies
from pdproto.spec.language.ranking import Help, Ranking, Use, Witness
from pdproto.spec.lemmas import dp_rank_ranking, transfer_ranking
from pdproto.spec.lemmas.transfer_ranking import OF_NO_SOURCE, somewhere, waiting

prompt_named: Final = ROUTING.symbol(routing.prompt_named)
# Any source of the room, and any sink of it.
sender, reader = Source("sender"), Sink("reader")

LEMMAS: Final = (
    *transfer_ranking.LEMMAS,
    *(ROUTING.claim(one) for one in dp_rank_ranking.LEMMAS if one.name == "a_target_has_a_meet"),
    transfer_ranking.A_FAILED_SINK_TELLS,
    Always("a_successful_source_has_addresses",
           implies(all_of(sending(p, h) == Sending.SUCCESS, feeds(p, d)),
                   exists(b, target(p, h, d, b))),
           why="a source takes the first chunk when every sink has published"),
    Always("a_named_rank_is_where_the_rule_leads",
           implies(prompt_named(h, x, y), modulo(h, y)),
           why="the other groups have sources of their own, which are not in this system"),
    Always("a_waiting_room_is_where_the_rule_leads",
           implies(runs(x, h) == Runs.WAITING, modulo(h, x) | alone),
           why="the other groups have sources of their own, which are not in this system"),
)
MONOTONE: Final = transfer_ranking.MONOTONE
_OF_TRANSFER: Final = transfer_ranking.IN_PARTS
_ENDS: Final = _OF_TRANSFER["L1_a_source_ends"]


def _of_sender(one: Help) -> Help:
    at: Mapping[Sort, Sort] = {} if one.row in OF_NO_SOURCE else {p: sender}
    return replace(one, at={**at, **one.at})


_MEMORY: Final = transfer_ranking.sinks_get_memory(sender)
# Rooms of other groups have sources of their own, which are not in this system.
_OURS: Final = {"the_rule_leads_to_this_group": forall((h, x), implies(modulo(h, x), ours(x)))}

RANKINGS: Final = (
    *_OF_TRANSFER.values(),
    Ranking("L2_a_source_hears_of_a_failure", (Help("stop"),),
            why="the abort of the sink ends the sender"),
    Ranking("a_room_that_runs_here_has_a_sender", (Help("open_own_sender"),),
            why="a rank that has the room opens it by itself"),
    Ranking("a_room_that_is_found_here_has_a_receiver", (Help("open_receiver"),),
            why="decode opens it by itself"),
    Ranking("a_refusal_ends_the_transfer", (Help("obey_refusal"),),
            why="a sink that is turned away fails by itself"),
    Ranking("a_failed_sender_ends_its_room", (Help("end_room"),), assumed=_OURS,
            why="the end of the sender ends the room"),
    Ranking(
        "a_listed_room_is_struck_out",
        (*(_of_sender(one) for one in (*_ENDS.helpers, Help("open_own_sender"),
                                       Help("end_room"))),
         Help("hear_meet"), Help("greet"), Help("tidy_up")),
        witnesses=(
            Witness(sender, sending(sender, h) != Sending.GONE),
            *_MEMORY.witnesses,
            Witness(reader, feeds(sender, reader)),
            Witness(waiting, all_of(
                feeds(sender, somewhere),
                ~write(sender, h, somewhere, waiting).among(Write.POSTED, Write.LANDED))),
        ),
        using=(*_MEMORY.using,
               Use("a_sending_source_has_addresses", {p: sender, h: h, d: somewhere}),
               Use("a_successful_source_has_addresses", {p: sender, d: reader})),
        assumed={**_OURS, "the_source_feeds_every_sink": forall((p, d), feeds(p, d))},
        why="the end of the sender ends the room, if decode has not met it before"),
)
