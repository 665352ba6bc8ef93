"""Claim: the decisions of a group of decode ranks agree with the pages of their sinks: nothing is
published before all have agreed, no page is free while a write to it is possible, served means
complete, no rank serves its part while another living rank has failed, and the promises of the
transfer into pages hold under the decisions too, for any number of ranks, sources, lives,
decisions, pages and chunks.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/sink_group_lemmas.py, each with its
reason, and those of both parts. Bound: none, on any sort. Assumes: each rank runs one sink of its
own, and each source feeds every sink; a finished fence keeps writes out (rule 2 of
spec/handoff/engine.py). Vacuity: every row can fire in a state in which all claims hold. Mutants: a
rank that reports its part broken while a source may still write to its pages; one that publishes
before it is admitted; one that frees its pages before the group has decided it. Not covered:
liveness, which is explored.
"""

from pdproto.spec.handoff.group import Stage, h, r, stage
from pdproto.spec.handoff.sink import NO_CLAIM
from pdproto.spec.language import DropClause
from pdproto.spec.lemmas.sink_group_lemmas import BRIDGE
from proofs.claim import Safety

CLAIM = Safety(
    "sink-group-pair", whole=True, proved_in=("sink-group", "sink-group-pair", "sink-group-loss"),
    bridge=BRIDGE, slow=("holds", "lemmas"),
    nightly=("holds-sink-group", "holds-sink-group-pair", "holds-sink-group-loss",
             "defect-report_broken", "defect-publish_pages"),
    defects=(
        DropClause("report_broken", NO_CLAIM),
        DropClause("publish_pages", stage(r, h) == Stage.RUNNING),
        DropClause("free_pages", stage(r, h) == Stage.CLOSED),
    ),
)
