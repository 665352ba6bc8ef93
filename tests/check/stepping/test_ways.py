"""The shortest way to a state, and the states around one."""

from dataclasses import replace

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.load import load
from pdproto.check.questions import DEADLOCK
from pdproto.check.stepping.formulas import wanted
from pdproto.check.stepping.walk import Walker
from pdproto.check.stepping.ways import neighbourhood, shortest, shortest_to_deadlock
from pdproto.spec.catalogue import SYSTEMS
from pdproto.spec.examples.lock_server_broken import SYSTEM as BROKEN
from tests.check.stepping.test_walk import VIOLATION, walker

BOTH = "phase(c0) = holding and phase(c1) = holding"


def test_a_way_is_as_long_as_the_shortest_counterexample() -> None:
    walked = walker()
    found = shortest(walked, walked.initial, wanted(walked.ground, BOTH))
    assert found.path is not None
    assert len(found.path) == len(VIOLATION)
    assert walked.violated(walked.after(walked.follow(found.path))) == ["mutual_exclusion"]
    result = check(BROKEN, walked.configuration, CheckSettings())
    (violated,) = (one for one in result.findings if one.name == "mutual_exclusion")
    assert violated.trace_length == len(found.path)


def test_a_way_goes_on_from_where_one_stands() -> None:
    walked = walker()
    moves = walked.follow(VIOLATION[:4])
    found = shortest(walked, walked.after(moves), wanted(walked.ground, BOTH))
    assert found.path is not None
    assert len(found.path) == 3
    end = walked.follow((*VIOLATION[:4], *found.path))
    assert walked.violated(walked.after(end)) == ["mutual_exclusion"]
    here = shortest(walked, walked.after(end), wanted(walked.ground, BOTH))
    assert here.path == ()


def test_no_way_is_told_as_an_answer_about_all_states() -> None:
    walked = Walker(load(SYSTEMS["lock-server"].target), walker().configuration, {})
    never = shortest(walked, walked.initial, wanted(walked.ground, BOTH))
    assert never.path is None
    assert never.complete
    cut = shortest(walked, walked.initial, wanted(walked.ground, BOTH), states_max=5)
    assert cut.path is None
    assert not cut.complete


def test_a_deadlock_is_found_by_the_way_that_check_shows() -> None:
    endless = replace(BROKEN, final=None)
    walked = Walker(endless, walker().configuration, {})
    found = shortest_to_deadlock(walked, walked.initial)
    assert found.path is not None
    assert walked.violated(walked.after(walked.follow(found.path))) == [DEADLOCK]
    settings = CheckSettings(properties=(DEADLOCK,))
    (deadlock,) = check(endless, walked.configuration, settings).findings
    assert deadlock.trace_length == len(found.path)
    assert shortest_to_deadlock(walker(), walker().initial).path is None


@pytest.mark.parametrize("most", [1, 5, 54, 200])
def test_a_neighbourhood_is_bounded_and_says_whether_it_is_all(most: int) -> None:
    walked = walker()
    found = neighbourhood(walked, walked.initial, most)
    assert len(found.nodes) == min(most, 55)
    assert found.complete == (most >= 55)
    for node in found.nodes:
        assert walked.after(walked.follow(node.path)) == node.state
        assert node.violated == tuple(walked.violated(node.state))
    depths = [len(node.path) for node in found.nodes]
    assert depths == sorted(depths)
    for before, after, label in found.edges:
        move = walked.move(found.nodes[before].state, label)
        assert move.after == found.nodes[after].state
