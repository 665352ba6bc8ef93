"""Defects that take the silence of a peer for its death, as edits of the transfer's tables."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.transfer_sizes import ONE
from pdproto.spec.handoff.ends import Claim, claim, d, gone, h, p, sink_over
from pdproto.spec.handoff.sink import ABORTED_AGAIN, UNANSWERED
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.handoff.transfer_told import TOLD
from pdproto.spec.language import AddClause, DropClause, edited

SILENCE: Final = (
    Bug("silence-as-death", "pdproto itself, seen under SGLang",
        "Prefill stood still for 8 s with 100 requests in flight, and decode failed 77 to 99.",
        edited(SYSTEM, "silence-as-death", DropClause("lose_source", gone(p, h, d))),
        ONE, "L7_only_a_dead_source_is_lost", note="it had said nothing for 5 s"),
    Bug("silence-of-a-sink-as-death", "pdproto itself, seen under SGLang",
        "Decode stood still for 7.5 s with 150 requests in flight, and prefill failed 95.",
        edited(SYSTEM, "silence-of-a-sink-as-death", DropClause("lose_sink", sink_over(d, h, p))),
        ONE, "a_source_loses_a_sink_that_it_knows_and_that_is_over",
        note="it had said nothing for 5 s"),
    Bug("fenced-and-forgotten", "pdproto itself, seen under SGLang",
        "Prefill went on, and held up to 91 requests for 300 s that decode had given up meanwhile.",
        edited(TOLD, "fenced-and-forgotten", DropClause("abort_again", ABORTED_AGAIN), AddClause(
            "abort_again", claim(d, h, p).among(*UNANSWERED, Claim.FENCING))),
        TOLD.configurations["default"], "L2_a_source_hears_of_the_end_of_every_life",
        note="it had not met these lives, and decode had its memory back"),
)
