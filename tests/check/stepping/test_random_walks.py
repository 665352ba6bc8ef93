"""Random walks: the same for a seed, and each violation that they tell is one."""

import json

import pytest

from pdproto.check.load import load
from pdproto.check.stepping import random_walks
from pdproto.check.stepping.walk import Walker
from pdproto.cli.main import main
from pdproto.spec.catalogue import SYSTEMS
from tests.check.stepping.test_walk import walker
from tests.cli.word_systems import refining, refining_each, refining_from_any


def test_a_seed_gives_the_same_walks_and_another_seed_others() -> None:
    first, again = (random_walks.random_walks(walker(), 3, 20, 30) for _ in range(2))
    assert first == again
    other = random_walks.random_walks(walker(), 4, 20, 30)
    assert other.fired != first.fired


def test_a_violation_is_told_with_a_path_that_leads_to_it() -> None:
    walked = walker()
    seen = random_walks.random_walks(walked, 0, 200, 100)
    assert seen.violations.keys() == {"mutual_exclusion"}
    for name, (first, path) in seen.violations.items():
        assert first == walked.initial
        assert name in walked.violated(walked.after(walked.follow(path)))
        for shorter in range(len(path)):
            assert name not in walked.violated(walked.after(walked.follow(path[:shorter])))
    assert len(seen.violations["mutual_exclusion"][1]) == 7
    assert 0 < seen.broken["mutual_exclusion"] < 200


def test_the_counts_are_those_of_the_steps() -> None:
    walked = walker(load(SYSTEMS["transfer-two-lives"].target))
    seen = random_walks.random_walks(walked, 1, 10, 25)
    assert sum(seen.fired.values()) == seen.steps <= 250
    assert all(seen.enabled[name] >= count for name, count in seen.fired.items())
    assert seen.walks == 10
    # In a small system the walks see all.
    assert len(random_walks.random_walks(walker(), 0, 500, 100).states) == 55


def test_an_interrupt_keeps_the_walks_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    walked, calls = walker(), 0
    enabled = Walker.enabled

    def interrupted(self: Walker, state: int) -> object:
        nonlocal calls
        calls += 1
        if calls > 50:
            raise KeyboardInterrupt
        return enabled(self, state)

    monkeypatch.setattr(Walker, "enabled", interrupted)
    seen = random_walks.random_walks(walked, 0, 1_000, 100)
    assert seen.interrupted
    assert 0 < seen.walks < 1_000
    assert seen.steps >= seen.walks


def test_each_step_of_a_walk_is_one_of_the_abstract_system() -> None:
    """Seen red: `pdproto run` saw no violation of a refinement, which each walk violated."""
    for make in (refining, refining_each, refining_from_any):
        for kept in (True, False):
            seen = random_walks.random_walks(walker(make(kept)), 0, 20, 20)
            assert seen.violations.keys() == ({*()} if kept else {"claim"})
        assert seen.broken["claim"] > 0


def test_a_violation_is_told_with_the_state_in_which_its_path_begins(
    capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen red: no JSON told it, though only some of the initial states violate the claim."""
    main(["run", "tests.cli.word_systems:any_relation_broken", "--runs", "20", "--json", "-"])
    violation = json.loads(capsys.readouterr().out)["violations"]["claim"]
    start = {one["variable"]: one["after"] for one in violation["start"]}
    assert violation["path"] == []
    assert "false" in (start["lit(n0)"], start["lit(n1)"])
