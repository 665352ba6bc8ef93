"""Claim: registration, look-up, optimistic prefill and transfer keep together the promises of each
alone; and the run that was looked up sends a pass, only to a sink that it has met. This holds for
any number of lives, successive runs, sinks, staging buffers, chunks, pages, slots, running slots
and attempts.

Method: induction over every row, fault rows included, by the cut-off
(pdproto/check/prove/cutoff.py); the lemmas are those that join a bootstrap to a transfer and a pass
to a transfer (spec/lemmas/end_to_end_bootstrap_lemmas.py, end_to_end_attempts_lemmas.py).
Bound: one source rank, as the second of those has it; none on any other sort. Assumes: a run that
is found gone is gone; a finished fence keeps writes out (rule 2 of spec/handoff/engine.py).
Vacuity: every row can fire in a state in which all claims hold. Mutants: a sink that opens its
receiver before every rank has welcomed it; a place that is given back while the engine reads from
it.
Not covered: liveness (the_parts_drain_together.py).
"""

from pdproto.cli.systems import subject
from pdproto.spec.handoff.bootstrap import Phase, d, h
from pdproto.spec.handoff.end_to_end_bootstrap import phase
from pdproto.spec.handoff.source import UNREAD
from pdproto.spec.language import DropClause
from proofs.claim import Safety

CLAIM = Safety(
    "end-to-end", whole=True, proved_in=("end-to-end-restart",), unasked=True, slow=("holds",),
    nightly=("holds-end-to-end-restart", "something"),
    defects=(
        DropClause("open_receiver", phase(d, h) == Phase.WAITING_FOR_INPUT),
        DropClause("release_places", UNREAD),
    ),
)


def test_it_is_the_same_question_with_one_run() -> None:
    """The tables are the same, and `end-to-end` claims one thing more: its refinement, of which
    tests/handoff/test_hand_over.py asks each row.
    """
    one, restart = subject("end-to-end"), subject("end-to-end-restart")
    assert one.system.tables == restart.system.tables
    more = {claim.name for claim in one.claims} - {claim.name for claim in restart.claims}
    assert more == {"it_is_a_hand_over"}
