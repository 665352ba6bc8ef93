"""Claim: a failed look-up never waits for input, and nobody takes half a list of addresses for a
whole, however many ranks, runs, sinks and hand-offs.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/registry_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: what spec/handoff/registry.py assumes; of safety, nothing more.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a hand-off that takes half
a list for a whole.
"""

from proofs.claim import Known, Safety

CLAIM = Safety("registry", defects=(Known("half-cache", row="connect"),))
