"""Optimistic prefill by its rankings: each reason is needed, and the explorer says the same."""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove.judgement import Status
from pdproto.cli.systems import subject
from pdproto.spec.language import Fairness, System
from pdproto.spec.language.ranking import Ranking
from proofs import draining
from proofs.draining import without
from tests.property.profiles import some
from tests.tiers import sampled

SAMPLE: Final = 2  # helpers of each ranking
ROWS_SAMPLED: Final = 1
NAMES: Final = ("optimistic", "optimistic-loss", "optimistic-no-timeouts")
RANKINGS: Final = tuple(
    pytest.param(name, ranking, id=f"{name}-{ranking.leads_to}")
    for name in NAMES for ranking in subject(name).every_ranking
)
NO_TIMEOUTS: Final = "optimistic-no-timeouts"
RANKED: Final = tuple(ranking.leads_to for ranking in subject(NO_TIMEOUTS).rankings)
HELPERS: Final = tuple(dict.fromkeys(
    helper.row for ranking in subject(NO_TIMEOUTS).rankings for helper in ranking.helpers
))
# Where it takes a second request to see that all promises are broken, not some.
CONTENDED: Final = ("give_up_waiting", "release", "finish")


@pytest.mark.nightly  # an idle helper makes no proof wrong
@pytest.mark.slow
@pytest.mark.parametrize(("name", "ranking"), RANKINGS)
def test_no_helper_is_idle(name: str, ranking: Ranking) -> None:
    """A fixed sample of them; with HYPOTHESIS_PROFILE=nightly all, in a quarter of an hour."""
    for place in some(range(len(ranking.helpers)), SAMPLE, f"{name} {ranking.leads_to}"):
        fewer = replace(
            ranking, helpers=(*ranking.helpers[:place], *ranking.helpers[place + 1:]))
        found = draining.unhelped(name, subject(name).system, fewer)
        assert found == {ranking.leads_to: Status.FAILED}, ranking.helpers[place].row


def explored(system: System) -> set[str]:
    """The promises that a fair run violates, for one request that any message may be lost of."""
    asked = CheckSettings(properties=RANKED, keep_going=True, fairness=(Fairness.TIMERS,))
    result = check(system, system.configurations["default"], asked)
    return {finding.name for finding in result.findings if finding.verdict == "violated"}


@pytest.mark.slow
@pytest.mark.parametrize("row", sampled(
    [pytest.param(row) for row in HELPERS], ROWS_SAMPLED, "rows of optimistic prefill"))
def test_the_explorer_says_the_same_of_tables_without_a_row(row: str) -> None:
    """A property has no proof exactly if a fair run violates it."""
    broken = without(subject(NO_TIMEOUTS).system, row)
    unhelped = draining.unhelped(NO_TIMEOUTS, broken)
    assert set(unhelped.values()) == {Status.FAILED}
    violated = explored(broken)
    assert violated
    assert violated <= set(unhelped)
    assert (violated == set(unhelped)) == (row not in CONTENDED)
