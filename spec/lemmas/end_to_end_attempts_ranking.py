"""Why the transfer after optimistic prefill drains and every pass gives its places back, for any
number of requests, attempts, running slots, slots, sinks and chunks, of one source.

The rankings of the transfer hold here too: no row of a pass or of HOST takes back what an end has
reached. A sender ends by its own clocks, whatever its pass does. Then the request ends here, a
launched batch runs to its end, and its places are free.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff import attempts
from pdproto.spec.handoff.attempts import Stage, m, s
from pdproto.spec.handoff.end_to_end_attempts import (
    AT_REST,
    PASS,
    ready,
    running_slot,
    slot,
    stage,
)
from pdproto.spec.handoff.ends import (
    Receiving,
    Sending,
    Write,
    abort,
    b,
    can_fence,
    d,
    feeds,
    h,
    kv,
    p,
    receiving,
    sending,
    target,
    write,
)
from pdproto.spec.handoff.roles import Chunk, Life, Sink, Source
from pdproto.spec.language import Always, Sort, all_of, any_of, exists, forall, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness
from pdproto.spec.lemmas import optimistic_ranking, transfer_ranking

# A request that holds a place, its source, and a chunk that is not under way to some sink.
holder, sender = Life("holder"), Source("sender")
somewhere, waiting = Sink("somewhere"), Chunk("waiting")

_OF_A_PASS: Final = ("a_running_slot_is_for_a_working_request",)
LEMMAS: Final = (
    *transfer_ranking.LEMMAS,
    *(PASS.claim(one) for one in optimistic_ranking.LEMMAS if one.name in _OF_A_PASS),
    Always("a_destination_is_an_address",
           implies(all_of(ready(h), feeds(p, d)), exists(b, target(p, h, d, b))),
           why="a pass knows where its KV goes when every sink has published"),
    Always("a_request_has_a_sender",
           implies(stage(h).among(*attempts.ACTIVE), sending(p, h) != Sending.UNKNOWN),
           why="a request that comes to prefill opens its sender"),
    Always("held_pages_are_of_a_sent_pass",
           implies(kv(p, h), stage(h).among(Stage.SENDING, Stage.FAILED)),
           why="a transfer takes the pages when its pass is sent"),
    Always("a_successful_sender_is_of_a_sent_pass",
           implies(sending(p, h) == Sending.SUCCESS,
                   stage(h).among(Stage.SENDING, Stage.SUCCESS, Stage.FAILED)),
           why="a sender begins when its pass is sent"),
    Always("a_failed_pass_has_an_ended_sender",
           implies(stage(h) == Stage.FAILED,
                   sending(p, h).among(Sending.SUCCESS, Sending.FAILED, Sending.GONE)),
           why="rule 4: the end of the sender ends the request"),
    Always("a_failed_sink_tells_its_sources",
           implies(all_of(receiving(d, h) == Receiving.FAILED, feeds(p, d)),
                   any_of(abort(d, h, p), sending(p, h).among(Sending.SUCCESS, Sending.GONE))),
           why="a sink that fails stops its sources, if they have not sent all"),
)

_FAILED: Final = stage(h) == Stage.FAILED
MONOTONE: Final = (
    *transfer_ranking.MONOTONE,
    Monotone("pass_over", stage(h).among(*attempts.ENDED), why="an end is final"),
    Monotone("batch_over", _FAILED & AT_REST, why="a request that has ended launches no batch"),
    Monotone("place_given_back", _FAILED & ~slot(h, m), why="an ended request takes no place"),
    Monotone("running_place_given_back", _FAILED & ~running_slot(h, s),
             why="an ended request takes no place"),
)

# The request ends with its sender, its batch runs to its end, and its places are free.
_PASS_ENDS: Final = tuple(map(Help, ("end_pass", "conclude")))
_PLACES: Final = (
    Help("finish_first", _FAILED), Help("finish_last", _FAILED),
    Help("release_places"), Help("bury_pass"),
)
(_OF_PAGES,) = (one for one in transfer_ranking.RANKINGS
                if one.leads_to == "L4_source_pages_come_back")


# Rows of a sink, and of a device.
_OF_NO_SOURCE: Final = ("give_up_bootstrap", "give_up_queue", "give_up_transfer",
                        "finish_first", "finish_last")


def _of_holder(one: Help) -> Help:
    at: Mapping[Sort, Sort] = {h: holder}
    if one.row not in _OF_NO_SOURCE:
        at = {**at, p: sender}
    return replace(one, at={**at, **one.at})


RANKINGS: Final = (
    *(one for one in transfer_ranking.RANKINGS
      if one.leads_to not in (_OF_PAGES.leads_to, "L1_a_sink_with_all_parts_ends")),
    replace(_OF_PAGES, helpers=(*_OF_PAGES.helpers, *_PASS_ENDS, *_PLACES)),
    Ranking(
        "a_sinks_failure_ends_the_pass", (Help("stop"), *_PASS_ENDS),
        assumed={"the_source_feeds_every_sink": forall((p, d), feeds(p, d))},
        why="the abort of the sink ends the sender, and the end of the sender its request"),
    Ranking(
        "L4_slots_and_running_slots_come_back",
        tuple(map(_of_holder, (*_OF_PAGES.helpers, *_PASS_ENDS, *_PLACES))),
        witnesses=(
            Witness(holder, any_of(exists(m, slot(holder, m)),
                                   exists(s, running_slot(holder, s)))),
            Witness(sender, sending(sender, holder) != Sending.UNKNOWN),
            Witness(waiting, all_of(
                feeds(sender, somewhere),
                ~write(sender, holder, somewhere, waiting).among(Write.POSTED, Write.LANDED))),
        ),
        using=(Use("a_sending_source_has_addresses", {p: sender, h: holder, d: somewhere}),),
        # A write that is never fenced may read its place for ever.
        assumed={"every_sink_can_fence": forall(d, can_fence(d))},
        why="every request ends with its sender, and gives back all that it has"),
)
