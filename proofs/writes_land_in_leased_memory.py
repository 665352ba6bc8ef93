"""Claim: a write lands only in memory leased to its own life, a committed hand-over is whole, and
DRAINED means quiescent, for any number of sources, sinks, lives, chunks and pages, in any topology.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/transfer_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: a finished fence keeps writes out (rule 2 of
spec/handoff/engine.py); a detector of dead processes is right.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a sink that frees its
lease when it aborts.
"""

from proofs.claim import Known, Safety

CLAIM = Safety("transfer", defects=(Known("B22", row="abort_receive"),))
