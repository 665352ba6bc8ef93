"""SARIF is checked against the 2.1.0 schema by hand: what it requires, allows and forbids."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest

from pdproto.check.report import sarif
from pdproto.check.report.narration import visible
from pdproto.check.result import CheckResult, Verdict
from pdproto.spec.language.place import Place
from tests.check.report import samples
from tests.check.report.printing import assert_golden


def run(result: CheckResult) -> dict[str, Any]:
    log = json.loads(sarif.render(result))
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    assert isinstance(only, dict)
    return only


def check_message(message: dict[str, Any]) -> None:
    assert set(message) == {"text"}
    assert message["text"]


def check_location(location: dict[str, Any]) -> None:
    assert set(location) <= {"id", "physicalLocation", "message"}
    assert location.get("id", 0) >= 0
    physical = location["physicalLocation"]
    assert set(physical) == {"artifactLocation", "region"}
    assert set(physical["artifactLocation"]) == {"uri"}
    assert not set(physical["artifactLocation"]["uri"]) & set(' "<>\\^`{|}\n')
    assert physical["region"]["startLine"] >= 1
    if "message" in location:
        check_message(location["message"])


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_logs_follow_the_schema(name: str) -> None:
    only = run(samples.SAMPLES[name]())
    assert set(only) == {"tool", "invocations", "results", "columnKind"}
    driver = only["tool"]["driver"]
    assert set(driver) == {"name", "version", "rules"}
    identities = [rule["id"] for rule in driver["rules"]]
    assert len(set(identities)) == len(identities)
    for rule in driver["rules"]:
        assert set(rule) == {"id", "shortDescription", "properties"}
        check_message(rule["shortDescription"])
    for invocation in only["invocations"]:
        assert invocation["executionSuccessful"] is True
        for notification in invocation.get("toolExecutionNotifications", []):
            assert notification["level"] in {"none", "note", "warning", "error"}
            check_message(notification["message"])
    for found in only["results"]:
        check_result(found, identities)


def check_result(found: dict[str, Any], rules: list[str]) -> None:
    required = {"ruleId", "ruleIndex", "kind", "level", "message", "locations"}
    assert required <= set(found) <= required | {"codeFlows", "relatedLocations"}
    assert rules[found["ruleIndex"]] == found["ruleId"]
    # The schema's default kind is "fail"; any other kind must have the level "none".
    assert (found["kind"], found["level"]) in {("fail", "error"), ("open", "none")}
    check_message(found["message"])
    for location in [*found["locations"], *found.get("relatedLocations", [])]:
        check_location(location)
    identities = [location["id"] for location in found.get("relatedLocations", [])]
    assert identities == list(range(1, len(identities) + 1))
    for flow in found.get("codeFlows", []):
        (thread,) = flow["threadFlows"]
        assert len(thread["locations"]) == len(identities)
        for step in thread["locations"]:
            check_location(step["location"])


def test_what_is_written() -> None:
    assert_golden("stuck.sarif", sarif.render(samples.stuck()))


def test_a_violation_points_at_its_property_and_at_each_row_of_its_trace() -> None:
    (found,) = run(samples.safety())["results"]
    assert found["ruleId"] == "consistent"
    assert found["locations"][0]["physicalLocation"]["region"]["startLine"] == 88
    lines = [
        location["physicalLocation"]["region"]["startLine"]
        for location in found["relatedLocations"]
    ]
    assert lines == [41, 58, 41, 58, 47, 66, 12, 74]


def test_properties_that_hold_are_rules_without_results() -> None:
    clean = run(samples.clean())
    assert clean["results"] == []
    assert len(clean["tool"]["driver"]["rules"]) == 2


def test_unknown_is_open_and_the_run_warns() -> None:
    incomplete = run(samples.incomplete())
    (found,) = incomplete["results"]
    assert found["kind"] == "open"
    (notification,) = incomplete["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"].startswith("the limit of 1,000,000 states")
    silent = run(replace(samples.incomplete(), stopped=""))
    (notification,) = silent["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"] == "incomplete"


def test_one_property_found_twice_is_one_rule() -> None:
    (finding, *_) = samples.lasso().findings
    again = replace(finding, verdict=Verdict.UNKNOWN, note="without timers", trace=None)
    both = run(samples.result(finding, again))
    assert len(both["tool"]["driver"]["rules"]) == 1
    assert [found["ruleIndex"] for found in both["results"]] == [0, 0]


def test_a_loop_is_told_at_the_step_where_it_begins() -> None:
    (found,) = run(samples.lasso())["results"]
    texts = [location["message"]["text"] for location in found["relatedLocations"]]
    assert [text.startswith("repeats for ever from here:\n2.") for text in texts] == [
        False,
        True,
        False,
        False,
        False,
    ]


def test_places_are_uris() -> None:
    (finding,) = samples.at_once().findings
    for path, uri in (
        ("/home/me/my spec.py", "file:///home/me/my%20spec.py"),
        ("spec/été#1.py", "spec/%C3%A9t%C3%A9%231.py"),
    ):
        (found,) = run(samples.result(replace(finding, place=Place(path, 0))))["results"]
        physical = found["locations"][0]["physicalLocation"]
        assert physical["artifactLocation"]["uri"] == uri
        assert unquote(uri).endswith(path)
        assert physical["region"]["startLine"] == 1


@pytest.mark.parametrize("hostile", samples.HOSTILE)
def test_hostile_text_comes_back_when_it_is_read(hostile: str) -> None:
    (found,) = run(samples.hostile())["results"]
    texts = "\n".join(location["message"]["text"] for location in found["relatedLocations"])
    assert visible(hostile) in texts
