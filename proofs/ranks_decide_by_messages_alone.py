"""Claim: without a clock, a request of a group reaches every rank, a failure and the readiness of
all ranks are decided, an end of all parts is answered, and a decision reaches every rank and is
confirmed, for any number of ranks, requests, slots and decisions, if any rank may die (L2 of the
agreement).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/agreement_ranking.py, with the lemmas that only this needs. It also uses the safety
claims of ranks_decide_alike.py.
Bound: none, on any sort. Assumes: no message is lost (every_request_is_answered.py does not); every
fair row that stays enabled fires; messages that are there are received; ranks die finitely often;
finitely many requests, and always a number for the next decision.
Not covered: delivery that takes the message off the network; it is explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: an entry that does not
act on a failure, or on a confirmation, and a rank that does not turn away a request that it has
never met.
"""

from pdproto.cli.systems import subject
from pdproto.spec.handoff.agreement import SYSTEM as GROUP
from proofs.claim import Liveness, Pending

PROMISES = tuple(ranking.leads_to for ranking in subject("agreement").fault_free.rankings)
CLAIM = Liveness(
    "agreement", slow=("holds",), promises=PROMISES,
    defects=(
        Pending("decide_fail", "L2_a_failure_is_decided"),
        Pending("confirm", "L2_a_decision_reaches_all"),
        Pending("turn_away", "L2_a_decision_reaches_all"),
    ),
)


def test_it_is_about_what_no_clock_helps() -> None:
    assert {name for name in PROMISES if name.startswith("L2_")} == {
        claim.name for claim in GROUP.properties if claim.name.startswith("L2_")
    }
