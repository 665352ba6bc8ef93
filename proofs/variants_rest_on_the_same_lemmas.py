"""Claim: the variants that leave a clock, a message or a way out away, or that tell the parts of an
end apart, are as safe as the systems they are edits of, however many of everything there are.

Method: induction over every row by the cut-off (pdproto/check/prove/cutoff.py), with the lemmas of
the system that each is an edit of, and none of its own.
Bound: none, on any sort. Assumes, vacuity and mutants: as of those systems.
Not covered: variants in which a message comes once, or a fault is left out, promise more than holds
with the faults they declare, and are explored (transfer-prompt, registry-prompt, dp-rank-prompt).
"""

import pytest

from pdproto.check.prove.proving import Settings, prove
from pdproto.cli.prove import subject
from tests.prove.standing import LIMIT_S, unproved


@pytest.mark.slow
@pytest.mark.parametrize("system", [
    "transfer-patient", "transfer-restart", "transfer-landed", "transfer-drained",
    "transfer-two-sinks", "transfer-two-lives", "optimistic-one-attempt",
])
def test_it_holds_for_all_sizes(system: str) -> None:
    settings = Settings(engines=("cutoff",), timeout_s=LIMIT_S, workers=2)
    claimed = subject(system)
    assert unproved(prove(claimed.system, claimed.obligations(), settings)) == []
