"""Claim: the bootstrap of every hand-over ends, and succeeds after a restart. A rank that is up is
recorded. A rank that is gone is struck out, at once if it has said goodbye; a sink forgets its
address, and the hand-overs that depend on it fail. This holds for any number of ranks, runs, sinks
and hand-overs (L1, L6, L7 and M1.4 of the registry).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/registry_ranking.py, with the lemmas that only this needs. It also uses the safety
claims of bootstrap_is_safe.py.
Bound: none, on any sort. Assumes: every fair row and every detector that stays enabled fires, and
every timer too where a repeated message is needed; messages that are there are received; a rank
that is gone is found silent; crashes, losses, false alarms and ends of the registry are finitely
many; the runs of a rank are finitely many, so there is a last one.
Not covered: delivery that takes the message off the network, and bootstrap where no message is
repeated (registry-no-retry); these are explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: a sink that does not
forget a run that is gone, or does not notice it, and a registry that does not.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "registry", slow=("holds", "something"), nightly=("holds",),
    defects=(
        Pending("forget", "L1_bootstrap_ends"),
        Pending("forget", "L7_a_dead_address_is_forgotten"),
        Pending("expire", "L7_registrations_expire"),
        Pending("miss_heartbeat", "M1_4_lost_connection"),
    ),
)
