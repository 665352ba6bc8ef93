"""Claim: under any loss, every request of optimistic prefill ends on both servers, and its slot,
its running slot and its page come back, for any number of requests, slots, running slots, pages
and attempts; even if no sink ever gives up, and even if a request reaches only one of the two
servers (L1, L4 and L5 of optimistic-loss, optimistic-no-timeouts and optimistic-one-sided).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); the helping rows are in
spec/lemmas/optimistic_loss_ranking.py and optimistic_no_timeouts_ranking.py, with the lemmas that
only this needs. The safety claims of attempts_own_their_memory.py are lemmas here. Bound: none,
on any sort. Assumes: every timer and every fair row that stays enabled fires; messages that are
there are received; losses happen finitely often; finitely many requests. Not covered: delivery that
takes the message off the network; it is explored. Vacuity: in some state in which all claims hold
each property pends. Mutants: a source that never gives up, a sink that never repeats its address, a
source that answers no repeated message.
"""

from dataclasses import replace

import pytest

from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.cli.systems import load, subject
from pdproto.spec.handoff.optimistic import ONE_SIDED
from pdproto.spec.language import LeadsTo, ReplaceProperties, edited
from proofs import draining
from proofs.claim import Liveness, Pending

LOSS = Liveness(
    "optimistic-loss", slow=("holds",), nightly=("holds",),
    defects=(
        Pending("give_up_waiting", "L5_no_capacity_deadlock"),
        Pending("give_up_transfer", "L1_a_sink_ends"),
    ),
)
NO_TIMEOUTS = Liveness(
    "optimistic-no-timeouts", slow=("holds",), nightly=("holds",),
    defects=(
        Pending("publish_again", "L1_a_sink_ends"),
        Pending("done_again", "L4_pages_come_back"),
    ),
)


@pytest.mark.nightly
@pytest.mark.slow
def test_it_holds_of_requests_that_reach_one_server_only() -> None:
    """Also under loss. The claims that this system adds for runs without loss are not assumed."""
    promises = tuple(one for one in ONE_SIDED.properties if isinstance(one, LeadsTo))
    losing = replace(ONE_SIDED, faults=load("optimistic-loss").faults, like=ONE_SIDED)
    system = edited(losing, "one-sided-and-lossy", ReplaceProperties(promises))
    one = subject("optimistic-loss")
    found = [*obligations(system, claims(system, (*one.lemmas, *one.helping))),
             *draining.found(one, system, one.rankings)]
    shown = draining.proof(system, found)
    assert {o.claim.part_of for o in found} > {promise.name for promise in promises}
    assert [o.name for o in found if shown.status(o) is not Status.PROVED] == []
