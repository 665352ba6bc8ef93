"""A result as SARIF 2.1.0, which code hosts show beside the lines of source.

Each property is a rule. A violation is a result at the property's place. The rows of its trace are
a code flow, which some viewers step through, and related locations, which others list. An unknown
verdict is a result of kind "open". A property that holds is a rule without a result.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", 2020.
"""

import json
from typing import Any, Final
from urllib.parse import quote

from pdproto import __version__
from pdproto.check.report.narration import (
    headline,
    start_lines,
    step_lines,
    turns,
    visible,
)
from pdproto.check.result import CheckResult, Finding, Trace, Verdict
from pdproto.spec.language.place import Place

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def render(*results: CheckResult) -> str:
    """Return the log as JSON text, with a run for each result."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(result) for result in results]}
    return json.dumps(log, indent=2) + "\n"


def _run(result: CheckResult) -> dict[str, Any]:
    rules = {finding.name: finding for finding in reversed(result.findings)}
    names = list(dict.fromkeys(finding.name for finding in result.findings))
    driver = {
        "name": "pdproto",
        "version": __version__,
        "rules": [_rule(rules[name]) for name in names],
    }
    shown = [finding for finding in result.findings if finding.verdict is not Verdict.HOLDS]
    return {
        "tool": {"driver": driver},
        "invocations": [_invocation(result)],
        "results": [_result(finding, names.index(finding.name)) for finding in shown],
        "columnKind": "unicodeCodePoints",
    }


def _rule(finding: Finding) -> dict[str, Any]:
    return {
        "id": visible(finding.name),
        "shortDescription": _message(finding.claim or finding.name),
        "properties": {"kind": finding.kind.value},
    }


def _invocation(result: CheckResult) -> dict[str, Any]:
    """The invocation. A run that ended early counts as successful, with a warning."""
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if not result.complete:
        warning = {"level": "warning", "message": _message(result.stopped or "incomplete")}
        invocation["toolExecutionNotifications"] = [warning]
    return invocation


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    violated = finding.verdict is Verdict.VIOLATED
    told = f"{finding.name} {headline(finding)}. {finding.claim}"
    told += f" ({finding.note})" if finding.note else ""
    if finding.trace is not None and not finding.trace.steps:
        told = " ".join((told, *(line.strip() for line in start_lines(finding.trace))))
    found: dict[str, Any] = {
        "ruleId": visible(finding.name),
        "ruleIndex": rule,
        "kind": "fail" if violated else "open",
        "level": "error" if violated else "none",
        "message": _message(told),
        "locations": [_location(finding.place)],
    }
    if finding.trace is not None and finding.trace.steps:
        steps = _trace_locations(finding, finding.trace)
        flow = {"locations": [{"location": location} for location in steps]}
        found["codeFlows"] = [{"threadFlows": [flow]}]
        found["relatedLocations"] = [
            {"id": number} | location for number, location in enumerate(steps, start=1)
        ]
    return found


def _trace_locations(finding: Finding, trace: Trace) -> list[dict[str, Any]]:
    """Return the place of each step's row, with the effects of the step as its message."""
    located = []
    for index, (step, turn) in enumerate(zip(trace.steps, turns(finding), strict=True)):
        first, *rest = step_lines(step, turn)
        lines = [f"{index + 1}. {first}", *rest]
        if index == trace.loop:
            lines.insert(0, "repeats for ever from here:")
        if not index:
            lines[:0] = start_lines(trace)
        located.append(_location(step.place) | {"message": {"text": "\n".join(lines)}})
    return located


def _location(place: Place) -> dict[str, Any]:
    """The location. Its path is absolute, or relative to the working directory of the check."""
    path = quote(place.path.encode("utf-8", "backslashreplace"), safe="/")
    uri = f"file://{path}" if path.startswith("/") else path
    region = {"startLine": max(place.line, 1)}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _message(text: str) -> dict[str, str]:
    return {"text": visible(text)}
