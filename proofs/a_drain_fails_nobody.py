"""Claim: a server that has been drained has no open request, no request fails because its process
is stopped then, a drain refuses no request that the server has taken, and the registry still finds
the server of an old request, for any number of requests.

Method: induction over every row, by the cut-off (pdproto/check/prove/cutoff.py); the lemmas are in
spec/lemmas/drain_lemmas.py, each with its reason.
Bound: none. Assumes: nothing; that a taken request ends is not part of the claim.
Vacuity: every row can fire in a state in which all claims hold. Mutants: a server that says it is
empty while a request is open, or while a client is not done; a registry that turns old requests
away.
"""

from pdproto.spec.handoff.drain import Taken, h, known, request
from pdproto.spec.language import forall
from pdproto.spec.language.edit import DropClause
from proofs.claim import Known, Safety

CLAIM = Safety("drain", slow=(), defects=(
    DropClause("be_empty", forall(h, request(h) != Taken.OPEN)),
    Known("empty-before-confirmed", row="be_empty"),
    DropClause("turn_away", ~known(h)),
))
