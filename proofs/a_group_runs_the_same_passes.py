"""Claim: ranks that have applied the same decisions have begun the same passes of optimistic
prefill, and have the same requests in their queues. No rank begins a pass while another computes a
chunk of the pass before. A pass is finalized once, on every rank, and then neither yields nor
fails. For any number of ranks, requests, attempts and decisions.

Method: induction over every row, fault rows included, by the cut-off, and by Z3 with quantifiers
where that does not suffice (pdproto/check/prove/cutoff.py); the lemmas are in
spec/lemmas/optimistic_group_lemmas.py and optimistic_group_loss_lemmas.py, each with its reason.
They need the log of the entry, so the proofs are about the systems of
spec/handoff/optimistic_group_history.py, which adds variables that no row reads.
Bound: none, on any sort. Assumes: the identity of a life is never used again; ranks die with their
group.
Vacuity: every row can fire in a state in which all claims hold. Mutants: ranks that begin a pass
out of turn; an entry that lets a finalized pass yield; one that finalizes before every rank is
ready; one that yields before every rank has computed its chunk.
Not covered: liveness (a_group_ends_every_request.py).
"""

from pdproto.spec.handoff.group import h
from pdproto.spec.handoff.group_attempts import ALL_COMPUTED, ALL_READY, EARLIER, finalized
from pdproto.spec.language import DropClause
from proofs.claim import Safety

CLAIM = Safety(
    "optimistic-group-history", whole=True, helped=True, slow=("holds", "lemmas"),
    proved_in=("optimistic-group-history", "optimistic-group-loss-history"),
    nightly=("holds-optimistic-group-history", "holds-optimistic-group-loss-history",
             "defect-start", "defect-decide_to_yield"),
    # Without it four rankings of a_group_ends_every_request.py have a state in which no row helps.
    ranked=("an_applied_go_on_computes_the_last_chunk",),
    defects=(
        DropClause("start", EARLIER),
        DropClause("decide_to_yield", ~finalized(h)),
        DropClause("decide_to_yield", ALL_COMPUTED),
        DropClause("decide_finalize", ALL_READY),
    ),
)
