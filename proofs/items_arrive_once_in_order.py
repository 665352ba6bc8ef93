"""Claim: items arrive in order, each once, for any number of items, and links of any length.

Method: induction over every row by the cut-off (pdproto/check/prove/cutoff.py), with the messages
of a channel at places that do not shift (pdproto/check/prove/places.py); the lemmas are in
spec/lemmas/alternating_bit_lemmas.py, each with its reason.
Bound: none, on any sort. Assumes: the axioms of the order of the items and of their bits. A link is
an ordered channel, and loses packets.
Vacuity: every row can fire in a state in which all claims hold. Mutants: a receiver that does not
look at the bit, and a sender that goes on without the right one.
"""

from pdproto.spec.examples.alternating_bit import i, odd, same_bit
from pdproto.spec.language import DropClause
from proofs.claim import Safety

CLAIM = Safety("alternating-bit", slow=(), defects=(
    DropClause("take_even", ~odd(i)),
    DropClause("advance", same_bit),
))
