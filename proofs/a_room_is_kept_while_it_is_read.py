"""Claim: the pages of a room are held while a decode request reads them, whatever clocks end; a
request reads the KV of its own prompt; a kept room has a place of its own, and a place no other
room than a kept one; a request is answered at once, and refused only when the pages are given back,
or for another prompt, for any number of rooms, requests and places.

Method: induction over every row, by the cut-off (pdproto/check/prove/cutoff.py); the lemmas are in
spec/lemmas/keep_lemmas.py, the ranking in spec/lemmas/keep_ranking.py.
Bound: none. Assumes: nothing; that a request that is served ends is not part of the claim.
Vacuity: every row can fire in a state in which all claims hold. Mutants: pages that are given back
under a read, a room that is kept without a place, and a request that is served whatever its prompt.
"""

from pdproto.spec.handoff.keep import UNREAD, h, m, of, place, room
from pdproto.spec.language.edit import DropClause
from proofs.claim import Known, Safety

CLAIM = Safety("kept-rooms", whole=True, slow=(), defects=(
    DropClause("give_back", UNREAD),
    DropClause("serve", of(h, room)),
    DropClause("keep", place(m).unset),
    Known("keep-loses-a-place", row="end_keep"),
))
