"""Claim: a room that runs and that decode looks for is found, and without a clock; a conflict of
ranks and whatever else a room fails of reaches decode; every rank is heard, or the server is
refused; both halves of a request end, and the registry keeps nothing of it, however many ranks and
rooms (L1, L2, L3 and M2.3 of the resolution of the data-parallel rank).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); who helps whom is in
spec/lemmas/dp_rank_ranking.py, with the lemmas that only this needs. It rests on the safety claims
of decode_asks_the_rank_that_runs_it.py too.
Bound: none, on any sort. Assumes: room modulo ranks is some rank; every row fires that is fair and
stays enabled, and for what is claimed with the clocks every timer too; messages that are there are
received; the halves of a request are lost finitely often.
Not covered: delivery that takes the message off the network; it is explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: a registry that does
not keep a question, ranks that do not hear of a conflict, and ones that do not tidy up.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "dp-rank",
    defects=(
        Pending("keep_question", "M2_3_the_query_finds_the_room"),
        Pending("be_disowned", "L2_a_conflict_reaches_decode"),
        Pending("tidy_up", "L3_entries_are_cleaned_up"),
    ),
)
