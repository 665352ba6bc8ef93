"""Claim: a decode request that is asked for once is told at once when the request of its room has
ended at prefill; no other one is refused, and none while a request of its room runs, for any number
of rooms, decode requests and requests of prefill.

Method: induction over every row, by the cut-off (pdproto/check/prove/cutoff.py), and a ranking; the
lemmas are in spec/lemmas/ended_lemmas.py, the ranking in spec/lemmas/ended_ranking.py.
Bound: none. Assumes: a request that runs ends (fair), which the other tables of the hand-over show.
Vacuity: every row can fire in a state in which all claims hold. Mutants: a room that is forgotten
under a decode request, and a refusal of one whose own request is still to come.
"""

from pdproto.spec.handoff.ended import NONE_WAITS, h, once
from pdproto.spec.language.edit import DropClause
from proofs.claim import Safety

CLAIM = Safety(
    "ended-rooms", whole=True, slow=(), ranked=("a_leg_that_has_left_knows_it",), defects=(
        DropClause("refuse_ended", once(h)),
        DropClause("forget_room", NONE_WAITS),
    ))
