"""Claim: without digests, the pages of an answer still hold every part of its own life and nothing
else, for any number of elements of each sort, as long as the fence of pages holds.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/page_fence_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: a finished fence keeps writes out of single pages (rule 2 of
spec/handoff/engine.py), so there is no `stray`; a detector of dead processes is right.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a sink that commits before
every source has reported that its part has landed.
"""

from pdproto.spec.handoff.sink import ALL_LANDED
from pdproto.spec.language import DropClause
from proofs.claim import Safety

CLAIM = Safety("transfer-direct", defects=(DropClause("commit", ALL_LANDED),))
