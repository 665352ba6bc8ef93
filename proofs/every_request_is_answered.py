"""Claim: every request of a group of ranks comes to its one answer, a request that failed on one
rank is removed on every rank, no queue keeps an orphan, every slot comes back, and the entry may
forget, however many ranks, requests, slots and decisions, whatever is lost and whichever rank dies
(L1, M4_2, L3 and L4 of the agreement).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); who helps whom is in
spec/lemmas/agreement_ranking.py, with the lemmas that only this needs. It rests on the safety
claims of ranks_decide_alike.py too.
Bound: none, on any sort. Assumes: every timer fires that stays enabled, and so does every row that
is fair; messages that are there are received; faults, losses among them, happen finitely often;
finitely many requests, and always a number for the next decision.
Not covered: delivery that takes the message off the network; it is explored. What follows without
any timer (L2) is the matter of ranks_decide_by_messages_alone.py.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables without a
time-out, without a repeat, and without the answer of a group that ends.
"""

from pdproto.cli.systems import subject
from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "agreement", slow=("holds",),
    promises=tuple(ranking.leads_to for ranking in subject("agreement").rankings),
    defects=(
        Pending("cut_off", "L1_every_request_is_answered"),
        Pending("vote_dead_again", "L1_every_request_is_answered"),
        Pending("answer_lost", "L1_every_request_is_answered"),
    ),
)
