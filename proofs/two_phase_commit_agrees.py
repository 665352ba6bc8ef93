"""Claim: no participant commits while another aborts, for any number of participants.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/two_phase_commit_lemmas.py, each
with its reason.
Bound: none, on any sort. Assumes: messages are neither forged nor taken back.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a coordinator that commits
before it has every vote.
"""

from pdproto.spec.examples.two_phase_commit import heard, p
from pdproto.spec.language import DropClause, forall
from proofs.claim import Safety

CLAIM = Safety("two-phase-commit", slow=(), defects=(
    DropClause("decide_commit", forall(p, heard(p))),
))
