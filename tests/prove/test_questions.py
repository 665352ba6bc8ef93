"""Which questions of a proof wait for the night, beside those that its file names."""

import pytest

from proofs.claim import Safety


@pytest.mark.parametrize(("claim", "nightly"), [
    (Safety("two-phase-commit", defects=(), slow=()), set()),
    (Safety("two-phase-commit", defects=()), {"something", "lemmas"}),
    (Safety("two-phase-commit", defects=(), slow=("holds",)), {"something"}),
    (Safety("snapshot", defects=(), slow=("holds",), unasked=True, explored=True), set()),
], ids=["small", "large", "slow", "explored"])
def test_the_night_asks_what_follows_by_day(claim: Safety, nightly: set[str]) -> None:
    """A claim that holds in the states that the explorer reaches contradicts no other one there."""
    assert {question.name for question in claim.questions() if question.nightly} == nightly
    assert f"holds-{claim.system}" in {question.name for question in claim.questions()}
