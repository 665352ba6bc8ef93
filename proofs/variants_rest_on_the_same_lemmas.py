"""Claim: variants of the transfer and of optimistic prefill that leave a clock, a loss or a way out
away, that tell the parts of an end apart, or in which servers die, are as safe as the systems they
are edits of, however many of everything there are.

Method: induction over every row by the cut-off (pdproto/check/prove/cutoff.py), with the lemmas of
the system that each is an edit of, and none of its own.
Bound: none, on any sort. Assumes, vacuity and mutants: as of those systems.
Not covered: what comes about (liveness) is explored.
"""

import pytest

from proofs import standing


@pytest.mark.slow
@pytest.mark.parametrize("system", [
    "transfer-no-timeouts", "transfer-no-timers", "transfer-restart", "transfer-landed",
    "transfer-drained", "transfer-two-sinks", "transfer-two-lives", "optimistic-one-attempt",
    "optimistic-one-sided", "optimistic-crash",
])
def test_it_holds_for_all_sizes(system: str) -> None:
    standing.is_wholly_proved(system)
