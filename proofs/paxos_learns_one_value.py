"""Claim: at most one value is learned, for any number of acceptors, quorums, ballots and values.

Method: induction over every row, by Z3 with quantifiers (pdproto/check/prove/quantified.py), which
is asked first without the claims that close a cycle of sorts (pdproto/check/prove/stratified.py);
the lemmas are in spec/lemmas/paxos_lemmas.py, each with its reason.
Bound: none, on any sort. Assumes: any two quorums have an acceptor in common. Messages are lost,
repeated and reordered.
Vacuity: every row can fire in a state in which all claims hold. Mutant: a proposer that waits for
nobody. tests/prove/test_paxos_proof.py takes each lemma away.
"""

from pdproto.check.prove.proving import QUANTIFIED
from pdproto.spec.examples.paxos import promise
from pdproto.spec.examples.voting import a, b, member, q
from pdproto.spec.language import DropClause, forall, implies
from proofs.claim import Safety

CLAIM = Safety("paxos", engine=QUANTIFIED, unasked=True, slow=("holds",), defects=(
    DropClause("propose", forall(a, implies(member(q, a), promise(a, b)))),
))
