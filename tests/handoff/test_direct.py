"""The transfer straight into pages: its properties, and the need of each precaution."""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.result import Verdict
from pdproto.spec.handoff.direct import FREE_PAGES, IN_PLACE
from pdproto.spec.handoff.ends import can_fence, d
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.sink import INTACT
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language import AddEffect, DropClause, DropEffect, System, edited
from tests.handoff.exploring import (
    EXPECTED,
    counts,
    explored,
    failing,
    judged,
    lint_errors,
    name_of,
)


@pytest.mark.parametrize("name", [
    "default", pytest.param("sources", marks=pytest.mark.nightly)])
def test_everything_holds_at_the_expected_counts(name: str) -> None:
    found = explored(IN_PLACE.name, name)
    assert failing(found) == []
    assert counts(found) == EXPECTED[IN_PLACE.name, name]
    # Nothing spoils a part here: the fence holds.
    vacuous = [f.name for f in found.findings if "vacuous" in f.note]
    assert vacuous == ["only_spoilt_parts_fail_by_the_digest"]


def test_lint_finds_no_error_in_place() -> None:
    assert lint_errors(IN_PLACE) == []


BROKEN: Final = (
    (edited(IN_PLACE, "failure-frees-pages", AddEffect("abort_receive", FREE_PAGES)),
     "default", "S1_writes_stay_in_own_pages"),
    (edited(IN_PLACE, "timeout-frees-pages", AddEffect("give_up_transfer", FREE_PAGES)),
     "default", "S1_writes_stay_in_own_pages"),
    (edited(IN_PLACE, "pages-are-kept", DropEffect("end_lease", FREE_PAGES)),
     "default", "L4_every_page_comes_back"),
    (edited(IN_PLACE, "digests-are-not-read", DropClause("commit", INTACT)),
     "stray", "S2_complete_when_committed"),
    (edited(IN_PLACE, "any-engine-may", DropClause("grant", can_fence(d))),
     "no-fence", "L4_every_page_comes_back"),
)


@pytest.mark.parametrize(("system", "size", "claim"), BROKEN, ids=name_of)
def test_each_precaution_is_needed(system: System, size: str, claim: str) -> None:
    """Without it the claim is refuted, with it the claim holds.

    A life whose pages never come back needs no second life, and a graph without swept states,
    from which its trace is drawn, is a hundred times smaller then.
    """
    configuration = SYSTEM.configurations[size]
    if claim.startswith("L"):
        configuration = replace(configuration, sizes={**configuration.sizes, Life: 1})
    assert judged(system, claim, configuration).verdict is Verdict.VIOLATED
    if IN_PLACE.configurations.get(size) == configuration:  # explored anyway
        assert claim not in failing(explored(IN_PLACE.name, size))
    else:
        assert judged(IN_PLACE, claim, configuration).verdict is Verdict.HOLDS


def test_no_memory_is_granted_without_a_page_fence() -> None:
    found = judged(IN_PLACE, "S2_a_sink_commits", SYSTEM.configurations["no-fence"])
    assert found.verdict is Verdict.VIOLATED
