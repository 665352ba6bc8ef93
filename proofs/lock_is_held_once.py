"""Claim: two clients never hold the lock at once, for any number of clients and rounds.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are in spec/lemmas/lock_server_lemmas.py, each with its
reason.
Bound: none, on any sort. Assumes: nothing about the network: messages are lost, repeated and
reordered.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a client that enters on
the grant of an old lease.
"""

from pdproto.spec.examples.lock_server import Lease, c, lease, r
from pdproto.spec.language import DropClause
from proofs.claim import Safety

CLAIM = Safety("lock-server", slow=(), defects=(
    DropClause("enter", lease(c, r) == Lease.CURRENT),
))
