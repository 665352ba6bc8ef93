"""Claim: the decisions of a group of prefill ranks agree with their transfers: nothing is sent
before all have agreed, served means sent, decode never serves a request that prefill has refused
while all ranks live, and the promises of the transfer alone hold under the decisions too, for
any number of ranks, sinks, lives, decisions, pages and chunks.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/group_transfer_lemmas.py, each with
its reason, and those of both parts. Bound: none, on any sort. Assumes: each rank runs one sender of
its own, and each sender feeds every sink; a finished fence keeps writes out (rule 2 of
spec/handoff/engine.py). Vacuity: every row can fire in a state in which all claims hold. Mutants: a
rank that reports its part broken while its engine still reads the pages; one that sends before it
is admitted. Not covered: liveness, which is explored.
"""

from pdproto.spec.handoff.group import Stage, h, r, stage
from pdproto.spec.handoff.source import UNREAD
from pdproto.spec.language import DropClause
from pdproto.spec.lemmas.group_transfer_lemmas import BRIDGE
from proofs.claim import Safety

CLAIM = Safety(
    "group-transfer", whole=True, bridge=BRIDGE, slow=("holds", "lemmas"),
    nightly=("holds-group-transfer",),
    defects=(
        DropClause("report_broken", UNREAD),
        DropClause("begin_transfer", stage(r, h) == Stage.RUNNING),
    ),
)
