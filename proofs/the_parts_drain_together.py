"""Claim: registration, look-up, optimistic prefill and transfer drain together: each end ends, and
gives back all that it holds, also when a look-up fails or the run of the source ends. This holds
for any number of requests, runs, sinks, attempts, pages, slots, running slots and chunks (L1, L3
and L4 of end-to-end and end-to-end-restart).

Method: a ranking by local progress (pdproto/check/prove/ranking.py). The rankings are those of
a_pass_gives_its_places_back.py and a_looked_up_hand_over_drains.py; spec/lemmas/
end_to_end_ranking.py joins them. It also uses the safety claims of the_parts_hold_together.py.
Bound: one source rank, as end_to_end_attempts.py has it; none on any other sort. Assumes: every
timer and every fair row that stays enabled fires; messages that are there are received; runs end
finitely often; finitely many requests. What else a promise assumes, `pdproto prove end-to-end`
prints: that the source feeds each sink, or that each sink can fence a write.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables without the row
that frees the places of a dead run, and without the row by which a receiver learns of its end.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "end-to-end-restart",
    slow=("holds", "something"),
    nightly=("holds", "something",
             "defect-notice-a_run_that_ends_takes_its_transfers_along"),
    defects=(
        Pending("bury_pass", "a_run_that_ends_takes_its_passes_along"),
        Pending("notice", "a_run_that_ends_takes_its_transfers_along"),
    ),
)
