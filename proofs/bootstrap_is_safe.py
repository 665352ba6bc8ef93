"""Claim: a failed look-up never shows WaitingForInput, and no sink uses half a list of addresses as
a whole, for any number of ranks, runs, sinks and hand-overs.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/registry_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: the assumptions of spec/handoff/registry.py, and nothing more.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a hand-over that takes half
a list for a whole.
"""

from proofs.claim import Known, Safety

CLAIM = Safety("registry", defects=(Known("half-cache", row="connect"),))
