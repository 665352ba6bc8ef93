"""Claim: where both sides have room for one request, and no end gives up, every request of
optimistic prefill is sent, every sink commits, and all memory of both comes back, without a clock,
for any number of requests, attempts, slots, running slots, pages and chunks (L1, L4 and L5 of
end-to-end-contended).

Method: a ranking by local progress (pdproto/check/prove/ranking.py). The rankings of optimistic
prefill alone (optimistic_prefill_does_not_deadlock.py) have the transfer in the place of their sink
here; spec/lemmas/end_to_end_contended_ranking.py has that. It also uses the safety claims of
only_computed_kv_is_sent.py.
Bound: one source rank, as end_to_end_attempts.py has it, and one sink, which it feeds. Of two sinks
each may hold the page that the other one's request waits for
(docs/explanation/decisions/082-a-pass-hands-every-chunk-over.md). None on any other sort. Assumes:
no process dies; every write lands; every fair row that stays enabled fires; messages that are there
are received; finitely many requests.
Vacuity: in some state that is reached each property pends. Mutants: tables in which no request
yields or falls back, no pass finds its destination, no transfer ends its pass, no sink publishes or
commits, and no answer ends.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "end-to-end-contended", slow=("holds", "something"), nightly=("holds",), explored=True,
    defects=(
        *(Pending(row, "L5_no_capacity_deadlock", explored=True)
          for row in ("run_again", "fall_back", "find_destination", "conclude")),
        *(Pending(row, "L1_a_sink_ends", explored=True) for row in ("publish_memory", "commit")),
        Pending("conclude", "L4_slots_and_running_slots_come_back", explored=True),
        Pending("finish", "L4_every_page_comes_back", explored=True),
    ),
)
