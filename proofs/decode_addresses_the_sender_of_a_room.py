"""Claim: KV of a room lands only if decode addressed the group of its sources, and that group got
the room; nothing is sent of a room that was put on the wrong group; and the promises of the
transfer alone, and of the resolution of the rank alone, hold of the two together, for any number
of groups, ranks, rooms, sinks, pages and chunks, if either half of a request may be lost.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/end_to_end_routing_lemmas.py, each
with its reason, and those of both parts. Bound: none, on any sort. Assumes: a room has one
remainder; the sources are the ranks of one group; a finished fence keeps writes out (rule 2 of
spec/handoff/engine.py). Vacuity: every row except the answers of dead sources can fire in a state
in which all claims hold. Mutants: a sender opened for a room that its group does not have; a
receiver opened for a group that decode does not address. Not covered: liveness
(a_routed_room_is_struck_out.py); processes that die, which registry.py and a_life_keeps_its_run.py
cover.
"""

from pdproto.spec.handoff.end_to_end_routing import RUN_HERE, addressed
from pdproto.spec.handoff.routing import h, x
from pdproto.spec.language import DropClause
from pdproto.spec.lemmas.end_to_end_routing_lemmas import BRIDGE
from proofs.claim import Safety

CLAIM = Safety(
    "end-to-end-routing", whole=True, bridge=BRIDGE, slow=("holds", "lemmas"),
    nightly=("holds-end-to-end-routing",),
    # These rows are the answers of a dead source, and no source dies here.
    impossible=("disown_meeting", "disown_address", "disown_abort"),
    defects=(
        DropClause("open_own_sender", RUN_HERE),
        DropClause("open_receiver", addressed(h, x)),
    ),
)
