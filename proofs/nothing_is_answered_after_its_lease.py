"""Claim: no registry that shares a store answers with a run whose lease is over, and none lists or
strikes out a run that the store has not ordered, for any number of registries, runs and beats.

Method: induction over every row, by the cut-off (pdproto/check/prove/cutoff.py); the lemmas are in
spec/lemmas/replica_lemmas.py.
Bound: none. Assumes: the store shows its order without gaps, and a lease is longer than a beat may
take (NETWORK in spec/handoff/replica.py).
Vacuity: every row can fire in a state in which all claims hold. Mutants: a beat that counts twice;
a registry that is current before it has read the order.
Not covered: liveness, which is explored.
"""

from pdproto.spec.handoff.replica import View, beat, copy, counted
from pdproto.spec.language import DropClause, Retarget
from proofs.claim import Safety

CLAIM = Safety("registry-replica", defects=(
    DropClause("be_current", ~counted(copy, beat)),
    Retarget("copy_registration", to=View.CURRENT),
))
