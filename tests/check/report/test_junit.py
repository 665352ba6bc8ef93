from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pdproto.check.report import junit
from pdproto.check.report.narration import visible
from pdproto.check.result import CheckResult, PropertyKind
from tests.check.report import samples
from tests.check.report.page_reader import read_xml
from tests.check.report.printing import assert_golden


def parsed(result: CheckResult) -> ElementTree.Element:
    return read_xml(junit.render(result))


def told(result: CheckResult) -> str:
    """Return the text of the first failure."""
    failure = parsed(result).find(".//failure")
    assert failure is not None
    return failure.text or ""


@pytest.mark.parametrize("name", ["safety", "stuck", "incomplete"])
def test_what_is_written(name: str) -> None:
    assert_golden(f"{name}.junit.xml", junit.render(samples.SAMPLES[name]()))


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_counts_are_those_of_the_cases(name: str) -> None:
    suites = parsed(samples.SAMPLES[name]())
    (suite,) = suites
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
    assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error"))


def test_an_unknown_verdict_is_an_error_with_the_reason() -> None:
    error = parsed(samples.incomplete()).find(".//testcase[@name='consistent']/error")
    assert error is not None
    assert error.attrib["type"] == "incomplete"
    assert error.text == "the limit of 1,000,000 states was reached; raise --max-states"


@pytest.mark.parametrize("hostile", samples.HOSTILE)
def test_hostile_text_comes_back_when_it_is_read(hostile: str) -> None:
    assert visible(hostile) in told(samples.hostile())


def test_traces_tell_where_a_run_starts_repeats_and_ends() -> None:
    assert "repeats for ever from here:\n  2 client c0: request(c0)" in told(samples.lasso())
    stuck = told(samples.stuck())
    assert "stuck: no fair row can fire\n    server: grant(c1) needs free is true" in stuck
    assert "start:\n    server free = false\n    here free at first does not hold" in told(
        samples.at_once()
    )


def test_a_run_that_ends_in_stillness_says_so() -> None:
    result = samples.lasso()
    (finding, *rest) = result.findings
    assert finding.trace is not None
    still = replace(finding, trace=replace(finding.trace, loop=5))
    assert told(replace(result, findings=(still, *rest))).endswith("nothing more ever happens")


def test_a_violation_that_no_run_shows_is_a_failure_without_steps() -> None:
    result = samples.safety()
    never = replace(result.findings[0], kind=PropertyKind.SOMETIMES, trace=None, instance="")
    text = told(replace(result, findings=(replace(never, assurance=""),)))
    assert text.splitlines() == [never.claim, str(never.place)]


def test_a_property_that_holds_again_is_said_to() -> None:
    result = samples.safety()
    finding = result.findings[0]
    assert finding.trace is not None
    healed = replace(finding.trace.steps[0], holds={"consistent": True})
    trace = replace(finding.trace, steps=(*finding.trace.steps, healed), start=())
    text = told(replace(result, findings=(replace(finding, trace=trace),)))
    assert "here consistent holds again" in text
    assert "start:" not in text
