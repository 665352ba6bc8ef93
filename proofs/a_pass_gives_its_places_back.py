"""Claim: the transfer after optimistic prefill drains as the transfer alone does; a sink that fails
ends the pass, by messages alone; and every slot and running slot comes back, for any number of
requests, attempts, running slots, slots, sinks, pages and chunks (L1, L3 and L4 of
end-to-end-attempts).

Method: a ranking by local progress (pdproto/check/prove/ranking.py). The rankings of the transfer
(every_hand_over_drains.py) hold here as they are; spec/lemmas/end_to_end_attempts_ranking.py has
what the pass adds. It also uses the safety claims of only_computed_kv_is_sent.py.
Bound: one source rank, as end_to_end_attempts.py has it; none on any other sort. Assumes: every
timer and every fair row that stays enabled fires; messages that are there are received; ranks die
finitely often; finitely many requests. That a sink's failure ends the pass assumes that the source
feeds each sink; that slots come back, that each sink can fence a write.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables without the row
that ends a request with its sender, and without the row that frees its places; a launched batch
that need not end.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "end-to-end-attempts",
    slow=("holds", "something"),
    nightly=("holds", "something", "defect-finish_last-L4_slots_and_running_slots_come_back",
             "defect-release_places-L4_slots_and_running_slots_come_back"),
    defects=(
        Pending("end_pass", "a_sinks_failure_ends_the_pass"),
        Pending("release_places", "L4_slots_and_running_slots_come_back"),
        Pending("finish_last", "L4_slots_and_running_slots_come_back", unfair=True),
    ),
)
