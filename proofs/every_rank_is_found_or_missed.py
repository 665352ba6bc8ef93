"""Claim: the bootstrap of every hand-off ends, and succeeds after a restart; a rank that is up is
recorded, and one that is gone is struck out, at once if it has said goodbye; a sink forgets its
address, and who depends on it fails, however many ranks, runs, sinks and hand-offs (L1, L6, L7 and
M1.4 of the registry).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); who helps whom is in
spec/lemmas/registry_ranking.py, with the lemmas that only this needs. It rests on the safety claims
of bootstrap_is_safe.py too.
Bound: none, on any sort. Assumes: every row fires that is fair and stays enabled, every timer too
where a repeat is needed, and every detector; messages that are there are received; who is gone is
found silent, and nobody else; crashes, losses and the registry's end are finitely many; the runs of
a rank are finitely many, so that there is a last one.
Not covered: delivery that takes the message off the network, and bootstrap where nothing is said a
second time (registry-no-retry); these are explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: a sink that does not
forget who is gone, or does not notice it, and a registry that does not.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "registry", slow=("holds", "something"),
    defects=(
        Pending("forget", "L1_bootstrap_ends"),
        Pending("forget", "L7_a_dead_address_is_forgotten"),
        Pending("expire", "L7_registrations_expire"),
        Pending("miss_heartbeat", "M1_4_lost_connection"),
    ),
)
