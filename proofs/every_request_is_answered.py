"""Claim: every request of a group of ranks gets its one answer, a request that failed on one rank
is removed on every rank, no queue keeps an orphan, every slot comes back, and the entry may
forget, for any number of ranks, requests, slots and decisions, under any loss and the death of
any rank (L1, M4_2, L3 and L4 of the agreement).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/agreement_ranking.py, with the lemmas that only this needs. It also uses the safety
claims of ranks_decide_alike.py.
Bound: none, on any sort. Assumes: every timer and every fair row that stays enabled fires; messages
that are there are received; faults, losses among them, happen finitely often; finitely many
requests, and always a number for the next decision.
Not covered: delivery that takes the message off the network; it is explored.
ranks_decide_by_messages_alone.py covers the claims without any timer (L2).
Vacuity: in some state in which all claims hold each property pends. Mutants: tables without a
time-out, without a repeated message, and without the answer of a group that ends.
"""

from pdproto.cli.systems import subject
from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "agreement", slow=("holds",),
    nightly=("holds", "defect-cut_off-L1_every_request_is_answered"),
    promises=tuple(ranking.leads_to for ranking in subject("agreement").rankings),
    defects=(
        Pending("cut_off", "L1_every_request_is_answered"),
        Pending("vote_dead_again", "L1_every_request_is_answered"),
        Pending("answer_lost", "L1_every_request_is_answered"),
    ),
)
