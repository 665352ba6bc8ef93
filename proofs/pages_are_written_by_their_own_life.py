"""Claim: where sources write straight into pages, a write lands only while its own life has them,
and the pages of an answer hold every part of its life, for any number of elements of each sort.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/direct_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: a finished fence keeps writes out of single pages (rule 2 of
spec/handoff/engine.py); a detector of dead processes is right.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a sink that frees its
pages when it aborts.
"""

from pdproto.spec.handoff.direct import FREE_PAGES
from pdproto.spec.language import AddEffect
from proofs.claim import Safety

CLAIM = Safety("transfer-in-place", defects=(
    AddEffect("abort_receive", FREE_PAGES),
))
