"""Claim: no room runs on one rank while decode asks another, for any number of ranks and rooms.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/dp_rank_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: room modulo ranks is one rank (`modulo` relates a room to at
most one).
Vacuity: every row can fire in a state in which all claims hold. Mutant: ranks that serve rooms for
which the rule names another rank.
"""

from proofs.claim import Known, Safety

CLAIM = Safety("dp-rank", defects=(Known("B04", row="serve_by_rule"),))
