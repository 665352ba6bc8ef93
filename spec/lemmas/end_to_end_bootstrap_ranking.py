"""Why every life of a source that was looked up drains, also when its run ends, for any number of
ranks, runs, sinks, lives and chunks.

The rankings of the transfer hold here too. A look-up only decides when a receiver is opened. A run
that ends takes its lives along, which is a fault, and each sink learns it from its heartbeat.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.bootstrap import PeerLink, Run, e
from pdproto.spec.handoff.end_to_end_bootstrap import begun, link, missed, run
from pdproto.spec.handoff.ends import (
    Claim,
    Receiving,
    Write,
    address,
    b,
    c,
    claim,
    d,
    feeds,
    gone,
    h,
    p,
    receiving,
    target,
    write,
)
from pdproto.spec.handoff.roles import Incarnation, Sink, Source
from pdproto.spec.language import Always, all_of, exists, forall, implies
from pdproto.spec.language.ranking import Help, Ranking, Use, Witness
from pdproto.spec.lemmas import transfer_ranking

q, other, bound = Source("q"), Sink("other"), Incarnation("bound")

LEMMAS: Final = (
    *transfer_ranking.LEMMAS,
    Always("a_begun_run_lives_or_has_crashed",
           implies(begun(p, e, h), run(p, e).among(Run.UP, Run.CRASHED)),
           why="a server that stops on purpose ends its lives first"),
    Always("a_crashed_run_is_missed", implies(run(p, e) == Run.CRASHED, missed(p, e)),
           why="a connection closes with its process"),
    Always("a_written_source_has_all_addresses",
           implies(all_of(write(p, h, d, c) != Write.NONE, feeds(p, other)),
                   exists(b, target(p, h, other, b))),
           why="a source takes the first chunk when every sink has published"),
    Always("a_sink_that_waits_has_no_part",
           implies(receiving(d, h).among(Receiving.BOOTSTRAPPING, Receiving.WAITING),
                   claim(d, h, p) != Claim.LANDED),
           why="the first part begins the transfer"),
)
MONOTONE: Final = transfer_ranking.MONOTONE
_OF_TRANSFER: Final = {**transfer_ranking.IN_PARTS}
_OF_CLAIMS: Final = _OF_TRANSFER.pop("L3_every_claim_is_settled")
_OF_PAGES: Final = _OF_TRANSFER["L4_source_pages_come_back"]
# A sink hears that a source is gone from its heartbeat, or from the next run.
_UNHEARD: Final = ~gone(p, h, d)
_HEARS: Final = (
    Help("miss_heartbeat", at={e: bound}), Help("notice", _UNHEARD, {e: bound}),
    Help("disown", _UNHEARD, {e: bound}),
)
_BOUND: Final = Witness(bound, link(d, h, p, bound) == PeerLink.WELCOMED)

RANKINGS: Final = (
    *_OF_TRANSFER.values(),
    replace(_OF_CLAIMS, helpers=(*_OF_CLAIMS.helpers, *_HEARS), witnesses=(_BOUND,),
            using=(Use("M1_3_every_target_rank_is_met"),)),
    Ranking(
        "a_failed_look_up_gives_everything_back", _OF_PAGES.helpers,
        witnesses=_OF_PAGES.witnesses,
        using=(*_OF_PAGES.using, Use("a_written_source_has_all_addresses", {other: d})),
        assumed={"the_source_feeds_every_sink": forall((p, d), feeds(p, d))},
        why="no sink of a failed look-up publishes memory, so the source's own clock ends it"),
    Ranking("a_run_disowns_the_lives_of_the_run_before", (Help("disown"),),
            why="the run answers for itself"),
    Ranking(
        "a_run_that_ends_takes_its_transfers_along",
        (Help("miss_heartbeat"), Help("notice", ~gone(p, h, d)), Help("lose_source"),
         Help("commit", at={b: b}), Help("find_spoilt", at={b: b})),
        witnesses=(Witness(b, address(d, h, b)),),
        using=(Use("a_publishing_sink_has_an_address"),),
        # A source that has landed its part is not missed, and another one may keep the sink.
        assumed={"one_source": forall((p, q), p.same(q)),
                 "the_source_feeds_every_sink": forall((p, d), feeds(p, d))},
        why="the heartbeat finds the run dead, and then the receiver"),
    Ranking("a_completed_look_up_begins_the_transfer", (Help("open_receiver"),),
            why="the transfer begins by itself"),
)
