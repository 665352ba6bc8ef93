"""Claim: a decode request is refused memory only where nothing would end its wait: the system
refuses staging memory while no other request holds any, or a page belongs to a request that has not
given it back. Each other one waits, and gets memory or ends, for any number of requests and pages.

Method: induction over every row, by the cut-off (pdproto/check/prove/cutoff.py), and a ranking; the
lemma is in spec/lemmas/decode_memory_lemmas.py, the ranking in
spec/lemmas/decode_memory_ranking.py.
Bound: none. Assumes: a hand-over ends, and copies into its pages end (fair), which the other tables
of the hand-over show.
Vacuity: every row can fire in a state in which all claims hold. Mutants: a request that is refused
while another one holds memory, and one that is refused a page that comes back.
"""

from pdproto.spec.handoff.decode_memory import GIVEN_TWICE, NONE_HOLDS
from pdproto.spec.language.edit import DropClause
from proofs.claim import Safety

CLAIM = Safety(
    "decode-memory", whole=True, slow=(), ranked=("a_request_that_waits_wants_a_page",), defects=(
        DropClause("refuse", NONE_HOLDS),
        DropClause("refuse_given_twice", GIVEN_TWICE),
    ))
