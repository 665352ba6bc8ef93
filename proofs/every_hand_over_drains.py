"""Claim: every hand-over drains on both sides, for any number of sources, sinks, lives, chunks and
pages, in any topology, under any loss and any death: each source and each sink ends, a failed sink
has an answer of every source or has it fenced, and every page, slot, staging buffer and pinned page
of a source comes back (L1, L3 and L4 of the transfer).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/transfer_ranking.py, with the lemmas that only this needs. It also uses the safety
claims of writes_land_in_leased_memory.py.
Bound: none, on any sort. Assumes: every timer and every fair row that stays enabled fires; messages
that are there are received; faults, losses among them, happen finitely often; finitely many lives.
Memory whose writer lives on and cannot be fenced is in quarantine, which counts as drained.
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
