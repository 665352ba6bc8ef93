"""Claim: decode finds every room that runs and that it looks for, without a clock. Decode learns of
a conflict of ranks and of every other failure of a room. The registry accepts every rank, or
refuses the server. Both halves of a request end, and the registry keeps nothing of it. This
holds for any number of ranks and rooms (L1, L2, L3 and M2.3 of the resolution of the
data-parallel rank).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/dp_rank_ranking.py, with the lemmas that only this needs. It also uses the safety claims
of decode_asks_the_rank_that_runs_it.py.
Bound: none, on any sort. Assumes: room modulo ranks is some rank; every fair row that stays enabled
fires, and for the claims with clocks every timer too; messages that are there are received; the
halves of a request are lost finitely often.
Not covered: delivery that takes the message off the network; it is explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: a registry that does
not keep a question, ranks that do not learn of a conflict, and ranks that do not retire rooms.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "dp-rank", nightly=("holds",),
    defects=(
        Pending("keep_question", "M2_3_the_query_finds_the_room"),
        Pending("be_disowned", "L2_a_conflict_reaches_decode"),
        Pending("tidy_up", "L3_entries_are_cleaned_up"),
    ),
)
