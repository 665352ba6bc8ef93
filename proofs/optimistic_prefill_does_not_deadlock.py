"""Claim: by no clock, every request of optimistic prefill ends on both servers, and its slot, its
running slot and its page come back, however many requests, slots, running slots, pages and
attempts, although each server may wait for memory that is held for a request that waits at the
other (L5, L1 and L4).

Method: a ranking by local progress (pdproto/check/prove/ranking.py); who helps whom is in
spec/lemmas/optimistic_ranking.py, with the lemmas that only this needs. It rests on the safety
claims of attempts_hold_what_they_use.py too.
Bound: none, on any sort. Assumes: no message is lost (every_attempt_ends_in_time.py does not);
every row fires that is fair and stays enabled; messages that are there are received; finitely many
requests.
Not covered: delivery that takes the message off the network; it is explored.
Vacuity: in some state in which all claims hold each property pends. Mutants: tables in which nobody
yields, nobody falls back, or no sink hears of a failure.
"""

import pytest

from pdproto.check.prove.judgement import Status
from pdproto.spec.handoff.optimistic import SYSTEM as PREFILL
from tests.handoff.exploring import without
from tests.prove import draining

SYSTEM = "optimistic"


@pytest.mark.slow
def test_it_holds_for_all_sizes() -> None:
    draining.drains(SYSTEM)


def test_it_is_about_something() -> None:
    draining.pends(SYSTEM)


@pytest.mark.parametrize("row", ["run_again", "fall_back", "hear_failure"])
def test_a_defect_is_noticed(row: str) -> None:
    claim = draining.ranking(SYSTEM, "L5_no_capacity_deadlock")
    assert draining.unhelped(SYSTEM, without(PREFILL, row), claim) == {
        claim.leads_to: Status.FAILED
    }
