"""`pdproto handoff --inject`: hand-overs of real processes fail on purpose, and spoil no other."""

import pytest

from tests.e2e.drill import handoff

REQUESTS = 120


@pytest.mark.parametrize("options", [
    (),
    pytest.param(("--pp", "2", "--tp", "2"), marks=pytest.mark.slow),
    pytest.param(("--optimistic", "2", "--publish-ms", "10"), marks=pytest.mark.slow),
    pytest.param(("--pp", "2", "--optimistic", "2", "--publish-ms", "10"), marks=pytest.mark.slow),
    pytest.param(("--engine", "tcp", "--direct"), marks=pytest.mark.slow),
], ids=["one rank", "group", "optimistic", "optimistic group", "direct"])
def test_m5_8_ranks_fail_hand_overs_at_a_rate(options: tuple[str, ...]) -> None:
    """Each rank draws twice with 0.1, so that some fail and some do not. All is given back."""
    numbers = handoff("--requests", str(REQUESTS), "--abort-rate", "0",
                      "--inject", "bootstrap=0.1,transfer=0.1", *options)
    assert 0 < numbers["succeeded"] < REQUESTS
    assert numbers["failed"] <= numbers["injected_faults"]
    assert {why.rpartition(": ")[2] for why in numbers["reasons"]} == {"bootstrap", "transfer"}
    assert all("a fault injected for a test" in why for why in numbers["reasons"])
