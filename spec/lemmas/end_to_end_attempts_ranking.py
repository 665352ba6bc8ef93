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
    Sending,
    Write,
    b,
    can_fence,
    d,
    feeds,
    h,
    kv,
    p,
    sending,
    target,
    write,
)
from pdproto.spec.handoff.roles import Chunk, Life, Sink, Source
from pdproto.spec.language import Always, Formula, Sort, all_of, any_of, exists, forall, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness
from pdproto.spec.lemmas import optimistic_ranking, transfer_ranking

# A request that holds a place, its source, and a chunk that is not under way to some sink.
holder, sender = Life("holder"), Source("sender")
somewhere, waiting = Sink("somewhere"), Chunk("waiting")

A_DESTINATION_IS_AN_ADDRESS: Final = Always(
    "a_destination_is_an_address",
    implies(all_of(ready(h), feeds(p, d)), exists(b, target(p, h, d, b))),
    why="a pass knows where its KV goes when every sink has published")
_OF_A_PASS: Final = ("a_running_slot_is_for_a_working_request",)
LEMMAS: Final = (
    *transfer_ranking.LEMMAS,
    *(PASS.claim(one) for one in optimistic_ranking.LEMMAS if one.name in _OF_A_PASS),
    A_DESTINATION_IS_AN_ADDRESS,
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
    transfer_ranking.A_FAILED_SINK_TELLS,
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
PASS_ENDS: Final = tuple(map(Help, ("end_pass", "conclude")))
PLACES: Final = (
    Help("finish_first", _FAILED), Help("finish_last", _FAILED),
    Help("release_places"), Help("bury_pass"),
)
_OF_TRANSFER: Final = {**transfer_ranking.IN_PARTS}
_OF_PAGES: Final = _OF_TRANSFER.pop("L4_source_pages_come_back")


# Rows of a sink, and of a device.
_OF_NO_SOURCE: Final = (*transfer_ranking.OF_NO_SOURCE, "finish_first", "finish_last")


def gives_back(
    leads_to: str, request: Life, assumed: Mapping[str, Formula], why: str, *,
    first: tuple[Witness, ...] = (), using: tuple[Use, ...] = (),
) -> Ranking:
    """The ranking of a promise that this request ends and gives all its places back. first: the
    witnesses on which the others depend. using: further claims.
    """
    def of_request(one: Help) -> Help:
        at: Mapping[Sort, Sort] = {h: request}
        if one.row not in _OF_NO_SOURCE:
            at = {**at, p: sender}
        return replace(one, at={**at, **one.at})

    memory = transfer_ranking.sinks_get_memory(sender, request)
    return Ranking(
        leads_to, tuple(map(of_request, (*_OF_PAGES.helpers, *PASS_ENDS, *PLACES))),
        witnesses=(
            *first,
            Witness(sender, sending(sender, request) != Sending.UNKNOWN),
            *memory.witnesses,
            Witness(waiting, all_of(
                feeds(sender, somewhere),
                ~write(sender, request, somewhere, waiting).among(Write.POSTED, Write.LANDED))),
        ),
        using=(Use("a_sending_source_has_addresses", {p: sender, h: request, d: somewhere}),
               *memory.using, *using),
        assumed=assumed, why=why)


RANKINGS: Final = (
    *_OF_TRANSFER.values(),
    replace(_OF_PAGES, helpers=(*_OF_PAGES.helpers, *PASS_ENDS, *PLACES)),
    Ranking(
        "a_sinks_failure_ends_the_pass", (Help("stop"), *PASS_ENDS),
        assumed={"the_source_feeds_every_sink": forall((p, d), feeds(p, d))},
        why="the abort of the sink ends the sender, and the end of the sender its request"),
    gives_back(
        "L4_slots_and_running_slots_come_back", holder,
        # A write that is never fenced may read its place for ever.
        {"every_sink_can_fence": forall(d, can_fence(d))},
        "every request ends with its sender, and gives back all that it has",
        first=(Witness(holder, any_of(exists(m, slot(holder, m)),
                                      exists(s, running_slot(holder, s)))),)),
)
