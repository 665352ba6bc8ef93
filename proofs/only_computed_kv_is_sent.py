"""Claim: the engine reads only the KV of a whole, finalized pass, in a place that its request keeps
until the engine has finished; nothing is sent of a dropped pass; and the promises of the transfer
alone hold with optimistic prefill too, for any number of requests, attempts, running slots, slots,
sinks, pages and chunks.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/end_to_end_attempts_lemmas.py, each
with its reason, and those of both parts.
Bound: one source rank, as end_to_end_attempts.py has it; none on any other sort. Assumes: a
finished fence keeps writes out (rule 2 of spec/handoff/engine.py). Vacuity: every row can fire in a
state in which all claims hold. Mutants: a place that is given back while the engine reads from it;
a pass that is sent before it is computed. Not covered: liveness
(a_pass_gives_its_places_back.py).
"""

from pdproto.spec.handoff.end_to_end_attempts import COMPUTED
from pdproto.spec.handoff.source import UNREAD
from pdproto.spec.language import DropClause
from pdproto.spec.lemmas.end_to_end_attempts_lemmas import BRIDGE
from proofs.claim import Safety

CLAIM = Safety(
    "end-to-end-attempts", whole=True, bridge=BRIDGE, slow=("holds", "lemmas"),
    proved_in=("end-to-end-attempts", "end-to-end-contended"),
    nightly=("holds-end-to-end-attempts", "holds-end-to-end-contended"),
    defects=(
        DropClause("release_places", UNREAD),
        DropClause("begin_transfer", COMPUTED),
    ),
)
