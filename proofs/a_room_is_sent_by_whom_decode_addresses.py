"""Claim: KV of a room lands only if decode addressed the group that its sources work for, and that
group was given the room; nothing is sent of a room that was put on the wrong group; and what holds
of a transfer alone, and of the resolution of the rank alone, holds of the two together, however
many groups, ranks, rooms, sinks, pages and chunks, and whichever half of a request is lost.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/end_to_end_routing_lemmas.py, each
with its reason, and those of both parts. Bound: none, on any sort. Assumes: a room has one
remainder; the sources are the ranks of one group; a finished fence keeps writes out (rule 2 of
spec/handoff/engine.py). Vacuity: every row but the answers of the dead can fire in a state in which
all claims hold. Mutants: a sender opened for a room that its group has not got; a receiver opened
for a group that decode does not address. Not covered: what comes about (liveness) is explored;
processes that die are the registry's, and a_life_keeps_its_run.py's.
"""

from pdproto.spec.handoff.end_to_end_routing import RUN_HERE, addressed
from pdproto.spec.handoff.routing import h, x
from pdproto.spec.language import DropClause
from pdproto.spec.lemmas.end_to_end_routing_lemmas import BRIDGE
from proofs.claim import Safety

CLAIM = Safety(
    "end-to-end-routing", whole=True, bridge=BRIDGE, slow=("holds", "lemmas"),
    # A source that has died would answer with these, and none dies here.
    impossible=("disown_meeting", "disown_address", "disown_abort"),
    defects=(
        DropClause("open_own_sender", RUN_HERE),
        DropClause("open_receiver", addressed(h, x)),
    ),
)
