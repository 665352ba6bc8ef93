"""Claim: ranks that have applied the same decisions run and keep the same requests, for any number
of ranks, requests, slots and decisions.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/agreement_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: the identity of a life is never used again; messages may be
lost, repeated and reordered, and ranks die with their group.
Vacuity: every row can fire in a state in which all claims hold. Mutant: ranks that start a request
out of turn.
"""

from pdproto.spec.handoff.group import EARLIER
from pdproto.spec.language import DropClause
from proofs.claim import Safety

CLAIM = Safety("agreement", defects=(DropClause("start", EARLIER),))
