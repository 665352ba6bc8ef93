"""Claim: under the decisions of a group every request is answered and no rank keeps one; every
source and every sink ends, tells its peers, and settles its claims; the pages of sources come back;
the group decides a request that a sink has given up, by messages alone; its refusal reaches every
sink of the group, and the other side; and the pages of sinks come back. This holds for any number
of ranks, sources, sinks, lives, decisions, pages and chunks (L1, L2, L3, L4 and M4_2 of
group-transfer and of sink-group).

Method: a ranking by local progress (pdproto/check/prove/ranking.py). The rankings of the transfer
(every_hand_over_drains.py) hold here as they are, and those of the agreement
(every_request_is_answered.py) with the end of a part in the place of its call;
spec/lemmas/group_transfer_ranking.py and sink_group_ranking.py have them. It also uses the safety
claims of the_servers_answer_alike.py and pages_are_freed_by_decision.py.
Bound: none, on any sort. Assumes: every timer and every fair row that stays enabled fires; messages
that are there are received; ranks die finitely often; finitely many requests, and always a number
for the next decision; each sink can fence a write, for the answers and for the pages of sinks. That
a refusal reaches the sink assumes that a rank runs each source; that it reaches the sources, that
the caller hands every chunk over after a sink has died
(docs/explanation/decisions/081-a-refusal-reaches-the-other-side.md).
Vacuity: in some state that is reached each property pends. Mutants: tables without the row by which
a rank votes against a request whose sender or sink has failed, without the rows by which an end
obeys the group or dies with its rank, without those by which a peer learns of it, and without the
one that frees the pages of a sink.
"""

from proofs.claim import Liveness, Pending

SOURCES = Liveness(
    "group-transfer", slow=("holds", "something"), nightly=("holds",), explored=True,
    defects=(
        Pending("open_own_sender", "M4_1_a_rank_that_waits_opens_its_sender"),
        Pending("vote_dead", "L2_a_sinks_failure_is_decided"),
        *(Pending(row, "L2_a_refusal_reaches_the_sink", explored=True)
          for row in ("obey", "end_sender", "hear_failure", "lose_source")),
    ))
SINKS = Liveness(
    "sink-group", slow=("holds", "something"), nightly=("holds",), explored=True,
    defects=(
        Pending("open_own_receiver", "M4_1_a_rank_that_waits_opens_its_receiver"),
        Pending("vote_dead", "L2_a_sinks_failure_is_decided"),
        *(Pending(row, "L2_a_refusal_reaches_every_source", explored=True)
          for row in ("obey", "end_receiver", "stop", "lose_sink", "meet_refusal")),
        *(Pending(row, "L4_every_chunk_comes_back", explored=True)
          for row in ("free_pages", "end_receiver", "report_broken")),
    ))
