"""Claim: under the decisions of a group every request is answered and no rank keeps one; every
source and every sink ends, tells its peers, and settles its claims; the pages of sources come back;
the group decides a request that a sink has given up, by messages alone; and its refusal reaches
every sink of the group. This holds for any number of ranks, sources, sinks, lives, decisions, pages
and chunks (L1, L2, L3 and M4_2 of group-transfer and of sink-group; L4 of group-transfer).

Method: a ranking by local progress (pdproto/check/prove/ranking.py). The rankings of the transfer
(every_hand_over_drains.py) hold here as they are, and those of the agreement
(every_request_is_answered.py) with the end of a part in the place of its call;
spec/lemmas/group_transfer_ranking.py and sink_group_ranking.py have them. It also uses the safety
claims of the_servers_answer_alike.py and pages_are_freed_by_decision.py.
Bound: none, on any sort. Assumes: every timer and every fair row that stays enabled fires; messages
that are there are received; ranks die finitely often; finitely many requests, and always a number
for the next decision; each sink can fence a write, for the answers.
Not covered: that a refusal reaches the other side, and that the pages of sinks come back; these are
explored (docs/explanation/decisions/077-a-ranking-holds-in-each-system-with-its-rows.md).
Vacuity: in some state that is reached each property pends. Mutants: tables without the row by which
a rank votes against a request whose sender or sink has failed.
"""

from proofs.claim import Liveness, Pending

SOURCES = Liveness(
    "group-transfer", slow=("holds", "something"), nightly=("holds",), explored=True,
    defects=(Pending("vote_dead", "L2_a_sinks_failure_is_decided"),))
SINKS = Liveness(
    "sink-group", slow=("holds", "something"), nightly=("holds",), explored=True,
    defects=(Pending("vote_dead", "L2_a_sinks_failure_is_decided"),))
