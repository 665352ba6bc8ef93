"""Claim: optimistic prefill as decisions of a group answers every request, decides a failure and
the readiness of all ranks, and brings each decision to every rank, for any number of ranks,
requests, attempts and decisions, if any rank may die (L1, L2 and L3 of optimistic-group); the same
by its clocks while messages are lost (optimistic-group-loss).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/optimistic_group_ranking.py and optimistic_group_loss_ranking.py, with the lemmas that
only this needs. It also uses the safety claims of a_group_runs_the_same_passes.py. The proofs are
about the systems with a history (spec/handoff/optimistic_group_history.py), which no row reads.
Bound: none, on any sort. Assumes: every fair row that stays enabled fires; messages that are there
are received; ranks die and messages are lost finitely often; finitely many requests, and always a
number for the next decision; a launched chunk ends. L2 needs no safety net while no message is
lost. Not covered: delivery that takes the message off the network. A pass yields only where rule 3
allows it, and need not.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables without the row
by which a rank applies a decision, by which the entry acts on a report, by which a group ends
without a rank, or by which a message is repeated; a chunk that need not end.
"""

from proofs.claim import Liveness, Pending

_DAY = "L2_a_failure_is_decided"
PROMPT = Liveness(
    "optimistic-group-history",
    slow=("holds", "something"),
    nightly=(
        "holds", "something", "defect-hand_over-L1_every_request_is_answered",
        "defect-finish_last-L1_every_request_is_answered",
        "defect-drop-L2_a_decision_reaches_all", "defect-follow-L3_no_orphan",
    ),
    defects=(
        Pending("decide_fail", _DAY),
        Pending("hand_over", "L1_every_request_is_answered"),
        Pending("finish_last", "L1_every_request_is_answered", unfair=True),
        Pending("drop", "L2_a_decision_reaches_all"),
        Pending("follow", "L3_no_orphan"),
    ),
)
LOSS = Liveness(
    "optimistic-group-loss-history",
    slow=("holds", "something"),
    nightly=(
        "holds", "something", "defect-whole_again-L1_every_request_is_answered",
        "defect-give_way_again-L2_a_decision_reaches_all",
    ),
    defects=(
        Pending("give_up", _DAY, unfair=True),
        Pending("whole_again", "L1_every_request_is_answered"),
        Pending("give_way_again", "L2_a_decision_reaches_all"),
    ),
)
