"""Claim: variants of the transfer and of optimistic prefill are as safe as the systems that they
edit, for any number of elements of each sort. They leave out a clock, a loss or a way to end,
separate the parts of an end, or let servers die.

Method: induction over every row by the cut-off (pdproto/check/prove/cutoff.py), with the lemmas of
the edited system, and none of their own.
Bound: none, on any sort. Assumes, vacuity and mutants: as for those systems.
Not covered: liveness, which is explored.
"""

import pytest

from proofs import standing


@pytest.mark.slow
@pytest.mark.parametrize("system", [
    "transfer-no-timeouts", "transfer-no-timers", "transfer-restart", "transfer-landed",
    "transfer-drained", "transfer-two-sinks", "transfer-two-lives", "transfer-two-sources",
    "optimistic-one-attempt", "optimistic-one-sided", "optimistic-crash",
])
def test_it_holds_for_all_sizes(system: str) -> None:
    standing.is_wholly_proved(system)
