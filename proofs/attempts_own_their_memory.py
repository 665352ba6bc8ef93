"""Claim: every sent request has a destination, a slot and its KV, and no slot, running slot or page
has two owners, for any number of requests, slots, running slots, pages and attempts.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/optimistic_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: nothing about the network.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a send before the
bootstrap was finalized.
"""

from proofs.claim import Known, Safety

CLAIM = Safety("optimistic", defects=(Known("O1", row="send"),))
