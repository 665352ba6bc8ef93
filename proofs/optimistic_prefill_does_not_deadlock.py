"""Claim: without a clock, every request of optimistic prefill ends on both servers, and its slot,
its running slot and its page come back, for any number of requests, slots, running slots, pages
and attempts, although each server may wait for memory that is held for a request that waits at
the other (L5, L1 and L4).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/optimistic_ranking.py, with the lemmas that only this needs. It also uses the safety
claims of attempts_own_their_memory.py.
Bound: none, on any sort. Assumes: no message is lost (every_attempt_ends_in_time.py does not);
every fair row that stays enabled fires; messages that are there are received; finitely many
requests.
Not covered: delivery that takes the message off the network; it is explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables in which no
request yields, no request falls back, or no sink learns of a failure.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "optimistic", slow=("holds",),
    nightly=("holds", "defect-hear_failure-L5_no_capacity_deadlock",
             "defect-fall_back-L5_no_capacity_deadlock"),
    defects=(
        Pending("run_again", "L5_no_capacity_deadlock"),
        Pending("fall_back", "L5_no_capacity_deadlock"),
        Pending("hear_failure", "L5_no_capacity_deadlock"),
    ),
)
