"""Claim: items arrive in order, each once, for any number of items and of packets on each link.

Method: induction over every row by the cut-off (pdproto/check/prove/cutoff.py); the lemmas are in
spec/lemmas/alternating_bit_lemmas.py, each with its reason.
Bound: none, on any sort. Assumes: the axioms of the order of the items and of their bits; a link
never changes the order of packets, which is part of the tables.
Vacuity: every row can fire in a state in which all claims hold. Mutants: a link that lets packets
overtake each other, and a sender that goes on without the right bit.
"""

from pdproto.spec.examples.alternating_bit import advances, arrived, n
from pdproto.spec.language import DropClause
from proofs.claim import Safety

CLAIM = Safety("alternating-bit", unasked=True, slow=(), defects=(
    DropClause("take_even", ~arrived().after(n)),
    DropClause("advance", advances),
))
