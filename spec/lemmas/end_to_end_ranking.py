"""Why a hand-over drains from end to end, also when the run of its source ends, for any number of
requests, runs, attempts, running slots, slots, sinks and chunks, of one source.

The rankings of the transfer after optimistic prefill hold here too, and so do those of the transfer
behind a bootstrap. A run that ends is the end of its senders, and a sender ends its request.
"""

from typing import Final

from pdproto.spec.handoff.ends import d, feeds, h, p
from pdproto.spec.language import forall
from pdproto.spec.language.ranking import Ranking, Use
from pdproto.spec.lemmas import end_to_end_attempts_ranking as passes
from pdproto.spec.lemmas import end_to_end_bootstrap_ranking as lookup

LEMMAS: Final = tuple({
    one.name: one for one in (*passes.LEMMAS, *lookup.LEMMAS)}.values())
MONOTONE: Final = passes.MONOTONE

_OF_LOOK_UP: Final = {one.leads_to: one for one in lookup.RANKINGS}
_OF_PASS: Final = {one.leads_to: one for one in passes.RANKINGS}
RANKINGS: Final = (
    *{**_OF_PASS, **{name: _OF_LOOK_UP[name] for name in (
        "L3_every_claim_is_settled", "a_run_that_ends_takes_its_transfers_along",
        "a_completed_look_up_begins_the_transfer")}}.values(),
    Ranking(
        "a_run_that_ends_takes_its_passes_along", (*passes.PASS_ENDS, *passes.PLACES),
        why="the end of the run is the end of the sender, and a sender ends its request"),
    passes.gives_back(
        "a_failed_look_up_gives_everything_back", h,
        {"the_source_feeds_every_sink": forall((p, d), feeds(p, d))},
        "no sink of a failed look-up publishes memory, so the source's own clock ends it",
        using=(Use("a_written_source_has_all_addresses", {p: passes.sender, lookup.other: d}),)),
)
