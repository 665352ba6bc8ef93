"""Workflow commands of GitHub: lines that it shows beside the source of a pull request.

    ::error file=page.py,line=31,title=one_writer::violated after 7 steps. ...

Source: GitHub's reference of workflow commands, "Setting an error message".
"""

from collections.abc import Iterator, Sequence

from pdproto.check.lint import Remark, Severity
from pdproto.check.report.narration import headline, row_label, start_lines, visible
from pdproto.check.result import CheckResult, Finding, Verdict
from pdproto.spec.language.place import Place

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def of_check(result: CheckResult) -> Iterator[str]:
    """A line for each property that does not hold, at the property's place."""
    for finding in result.findings:
        if finding.verdict is not Verdict.HOLDS:
            command = "error" if finding.verdict is Verdict.VIOLATED else "warning"
            yield _line(command, finding.place, finding.name, "\n".join(_told(finding)))


def of_lint(remarks: Sequence[Remark]) -> Iterator[str]:
    """A line for each remark."""
    for remark in remarks:
        yield _line(COMMANDS[remark.severity], remark.place, remark.rule, remark.problem)


def _told(finding: Finding) -> Iterator[str]:
    yield f"{headline(finding)}. {visible(finding.claim)}"
    if finding.note:
        yield visible(finding.note)
    if finding.trace is not None:
        yield from start_lines(finding.trace)
        for number, step in enumerate(finding.trace.steps, start=1):
            yield f"{number}. {row_label(step.row, step.parameters)}"


def _line(command: str, place: Place, title: str, told: str) -> str:
    where = f"file={_property(place.path)},line={max(place.line, 1)},title={_property(title)}"
    return f"::{command} {where}::{_data(told)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")
