"""A result as JUnit XML: a test case for each finding, so that a CI server lists them.

A violation is a failure, with the trace as its text. A property that is still unknown when the
search ends is an error: with a skipped case, a build that shows nothing would pass.
"""

from xml.etree import ElementTree

from pdproto.check.report.narration import (
    counts_phrase,
    coverage_lines,
    headline,
    sizes_phrase,
    so_far,
    trace_lines,
    visible,
)
from pdproto.check.result import CheckResult, Finding, Verdict


def render(result: CheckResult) -> str:
    """Return the XML document."""
    suites = ElementTree.Element("testsuites", _counts(result))
    suites.append(suite_of(result))
    return document(suites)


def document(suites: ElementTree.Element) -> str:
    """Return the text of these test suites."""
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def suite_of(result: CheckResult) -> ElementTree.Element:
    """Return the test suite: a case for each finding."""
    suite = ElementTree.Element("testsuite", _counts(result) | {"skipped": "0"})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(result).items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": value})
    for finding in result.findings:
        _case(suite, result, finding)
    ElementTree.SubElement(suite, "system-out").text = "\n".join(_summary(result))
    return suite


def _counts(result: CheckResult) -> dict[str, str]:
    verdicts = [finding.verdict for finding in result.findings]
    return {
        "name": visible(result.system),
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count(Verdict.VIOLATED)),
        "errors": str(verdicts.count(Verdict.UNKNOWN)),
        "time": f"{result.seconds:.3f}",
    }


def _properties(result: CheckResult) -> dict[str, str]:
    return {
        "sizes": sizes_phrase(result.sizes),
        "faults": ", ".join(map(visible, result.faults)),
        "reductions": ", ".join(map(visible, result.reductions)),
        "complete": str(result.complete).lower(),
    }


def _case(suite: ElementTree.Element, result: CheckResult, finding: Finding) -> None:
    """Add the finding's test case, without a time: one run decides all properties."""
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": f"{visible(result.system)}.{finding.kind.value}",
            "name": visible(finding.name),
            "file": visible(finding.place.path),
            "line": str(finding.place.line),
        },
    )
    if finding.verdict is Verdict.VIOLATED:
        failure = {"type": finding.kind.value, "message": headline(finding)}
        told = [visible(finding.claim), visible(str(finding.place)), *trace_lines(finding)]
        ElementTree.SubElement(case, "failure", failure).text = "\n".join(told)
    elif finding.verdict is Verdict.UNKNOWN:
        error = {"type": "incomplete", "message": headline(finding)}
        ElementTree.SubElement(case, "error", error).text = visible(result.stopped)
    told = [visible(text) for text in (finding.assurance, finding.note) if text]
    if told:
        ElementTree.SubElement(case, "system-out").text = "\n".join(told)


def _summary(result: CheckResult) -> list[str]:
    lines = [counts_phrase(result), f"deadlocks{so_far(result)}: {result.deadlocks:,}"]
    lines += [f"row never fired{so_far(result)}: {line}" for line in coverage_lines(result)]
    if result.stopped:
        lines.append(f"stopped: {visible(result.stopped)}")
    return lines
