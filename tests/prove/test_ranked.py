"""Rankings beside their proofs: each reason is needed, and without a row the explorer agrees."""

from collections.abc import Sequence
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.proving import ProofSettings as Limits
from pdproto.check.prove.proving import prove
from pdproto.cli.systems import subject
from pdproto.spec.language import DropRow, OnRow, System, edited
from pdproto.spec.language.ranking import Ranking
from proofs import draining
from tests.property.profiles import some
from tests.tiers import sampled

NAMES: Final = ("registry", "dp-rank", "incarnations")
BINDINGS: Final = ("binding-named-no-timeouts", "binding-ordered-loss")
RANKINGS: Final = tuple(
    pytest.param(name, ranking, id=f"{name}-{ranking.leads_to}",
                 marks=() if ranking.pending is None else (pytest.mark.slow, pytest.mark.nightly))
    for name in (*NAMES, *BINDINGS) for ranking in subject(name).rankings
)
ROWS: Final = {
    name: tuple(dict.fromkeys(h.row for one in subject(name).rankings for h in one.helpers))
    for name in NAMES
}
ROWS_SAMPLED: Final = 2
HELPERS_SAMPLED: Final = 1  # of each ranking
QUICK: Final = ("keep_question", "tidy_up", "expire", "strike_out")
# Where the explorer needs other sizes or faults to see that the row is missed, or another row does
# in the end what this one does at once.
ELSEWHERE: Final = frozenset({
    "resolve_alone", "strike_room_and_tell", "greet_again", "record_again", "renew",
    "fail_abandoned", "meet", "place",
})


def spoken_of(name: str) -> set[str]:
    """The rows of which a property says when they fire: without them there is no system."""
    properties = subject(name).system.properties
    return {claim.row for claim in properties if isinstance(claim, OnRow)}


ASKED: Final = tuple((name, row) for name, rows in ROWS.items() for row in rows
                     if row not in spoken_of(name))


def violated(name: str, system: System) -> set[str]:
    """The ranked properties that a fair run violates, at the default sizes."""
    ranked = tuple(ranking.leads_to for ranking in subject(name).rankings)
    asked = CheckSettings(properties=ranked, keep_going=True)
    result = check(system, system.configurations["default"], asked)
    return {finding.name for finding in result.findings if finding.verdict == "violated"}


def without_help(name: str, system: System, rankings: Sequence[Ranking]) -> set[str]:
    """The ranked properties without a proof that some row always helps."""
    pending = draining.found(subject(name), system, rankings, helped_only=True)
    shown = prove(system, pending, Limits(timeout_s=draining.LIMIT_S))
    return {o.claim.part_of for o in pending
            if shown.status(o) in (Status.FAILED, Status.REFUSED)}


@pytest.mark.parametrize(("name", "row"), [
    *(pytest.param(name, row) for name, row in ASKED if row in QUICK),
    *sampled([pytest.param(name, row, marks=pytest.mark.slow) for name, row in ASKED
              if row not in QUICK], ROWS_SAMPLED, "rows of small systems"),
])
def test_a_property_that_a_fair_run_violates_has_no_proof(name: str, row: str) -> None:
    broken = edited(subject(name).system, f"without-{row}", DropRow(row))
    helped = [ranking for ranking in subject(name).rankings
              if row in {helper.row for helper in ranking.helpers}]
    unhelped = without_help(name, broken, helped)
    assert unhelped
    explored = violated(name, broken)
    assert explored <= unhelped
    assert bool(explored) != (row in ELSEWHERE)


@pytest.mark.parametrize(("name", "ranking"), RANKINGS)
def test_no_helper_is_idle(name: str, ranking: Ranking) -> None:
    """A fixed sample of its helpers; with HYPOTHESIS_PROFILE=nightly all, in a minute more."""
    rows = tuple(dict.fromkeys(helper.row for helper in ranking.helpers))
    for row in some(rows, HELPERS_SAMPLED, f"{name} {ranking.leads_to}"):
        fewer = draining.without_helper(ranking, row)
        assert without_help(name, subject(name).system, [fewer]), row
