"""Claim: every hand-over drains on both sides, however many sources, sinks, lives, chunks and
pages, in any topology, whatever is lost and whoever dies: each source and each sink ends, a failed
sink has an answer of every source or has it fenced, and every page, slot, staging buffer and pinned
page of a source comes back (L1, L3 and L4 of the transfer).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); what helps whom is in
spec/lemmas/transfer_ranking.py, with the lemmas that only this needs. It rests on the safety claims
of writes_land_in_leased_memory.py too.
Bound: none, on any sort. Assumes: every timer fires that stays enabled, and so does every row that
is fair; messages that are there are received; faults, losses among them, happen finitely often;
finitely many lives. Memory whose writer lives on and cannot be kept out is in quarantine, which
counts as drained.
Not covered: delivery that takes the message off the network, the systems without time-outs, and the
transfer straight into pages; these are explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables without the
time-out of a sink, without the fence, and without the repeated abort.
"""

from proofs.claim import Liveness, Pending

CLAIM = Liveness(
    "transfer",
    defects=(
        Pending("give_up_transfer", "L1_a_sink_ends"),
        Pending("finish_fence", "L4_every_chunk_comes_back"),
        Pending("abort_again", "L3_every_claim_is_settled"),
    ),
)
