"""Claim: for every message or completion that arrives at an end of the hand-over, in any state,
some row acts on it, ignores it or rejects it; and no trigger has two answers. This holds for any
number of elements of each sort, in any topology.

Method: one obligation for each trigger, and one for each two rows on it, by the cut-off
(pdproto/check/prove/coverage.py).
Bound: none, on any sort. Assumes nothing: neither that the message was sent, nor that a run reaches
the state. Not covered: steps that an instance takes by itself, whose order the explorer tries.
Mutants: a table without the answer to a late failure, and one whose sink commits to two ends.
"""

import pytest

from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.judgement import Status
from pdproto.cli.prove import RUN_BY_PROCESSES, subject
from pdproto.spec.handoff.ends import Claim, claim, d, h, p
from pdproto.spec.handoff.transfer import SYSTEM as TRANSFER
from pdproto.spec.language import DropClause, DropRow, System, edited
from proofs import draining


def unanswered(system: System) -> dict[str, Status]:
    """The triggers without a proof, in any state."""
    found = list(coverage(system, ()))
    shown = draining.proof(system, found)
    return {o.claim.name: shown.status(o) for o in found
            if shown.status(o) is not Status.PROVED}


@pytest.mark.parametrize("name", RUN_BY_PROCESSES)
def test_it_holds_for_all_sizes(name: str) -> None:
    assert unanswered(subject(name).system) == {}


def test_a_hole_is_noticed() -> None:
    broken = edited(TRANSFER, "deaf", DropRow("ignore_failed_success_failed"))
    assert unanswered(broken) == {"sink on failed: answered": Status.FAILED}


def test_two_answers_are_noticed() -> None:
    only = claim(d, h, p) == Claim.TOLD
    broken = edited(TRANSFER, "torn", DropClause("note_stopped", only))
    assert unanswered(broken)["sink on abort_ack: note_stopping or note_stopped"] is Status.FAILED
