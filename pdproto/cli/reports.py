"""The options that write the result of a check as a report, such as --html and --json."""

import argparse
import json
import sys
from importlib import import_module
from typing import Final

from pdproto.check.report import github
from pdproto.check.report.as_json import to_json
from pdproto.check.report.terminal import render
from pdproto.check.result import CheckResult, Verdict
from pdproto.cli.options import STANDARD_OUTPUT, console, write

TEXT: Final = "text"
GITHUB: Final = "github"
REPORTS: Final = {
    "html": "a page to step through the traces",
    "mermaid": "a sequence diagram of the first violation, or else of the first witness",
    "junit": "a test report: one case for each property",
    "sarif": "the violations, for code scanning",
    "json": "the result, with every trace",
}


def add_reports(parser: argparse.ArgumentParser) -> None:
    """Add an option for each kind of report, which `targets` reads."""
    for kind, what in REPORTS.items():
        parser.add_argument(f"--{kind}", metavar="FILE|-", help=f"write {what}")
    add_format(parser)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the option that says for whom the text on the standard output is."""
    parser.add_argument("--format", choices=(TEXT, GITHUB), default=TEXT,
                        help="github: also a line for each finding, which GitHub shows beside the "
                             "source (default: text)")


def targets(arguments: argparse.Namespace) -> dict[str, str]:
    """The file of each report that the options name, by its kind."""
    return {kind: target for kind in REPORTS if (target := getattr(arguments, kind)) is not None}


def report(
    result: CheckResult, files: dict[str, str], form: str = TEXT, *, rows: bool = False
) -> None:
    """Write the reports to the files, and the terminal's unless one uses its output.

    rows: the terminal's report says how often each row fired.
    """
    if STANDARD_OUTPUT not in files.values():
        with console() as drawn:
            render(result, drawn, rows=rows)
        if form == GITHUB:
            write("".join(f"{line}\n" for line in github.of_check(result)), STANDARD_OUTPUT)
    for kind, target in files.items():
        text = _rendered(kind, result)
        if text is None:
            say(f"no property has a trace to draw: {target} is not written")
        else:
            write(text, target)


def _rendered(kind: str, result: CheckResult) -> str | None:
    """The report as text; None if there is no trace to draw."""
    match kind:
        case "json":
            return json.dumps(to_json(result), indent=2)
        case "mermaid":
            return _mermaid(result)
        case _:
            # Imported only here, because most runs draw no page.
            return str(import_module(f"pdproto.check.report.{kind}").render(result))


def _mermaid(result: CheckResult) -> str | None:
    """The first violation as a diagram, or the first witness if there is none."""
    from pdproto.check.report import mermaid  # noqa: PLC0415 - as above

    drawn = [finding for finding in result.findings if finding.trace is not None]
    drawn.sort(key=lambda finding: finding.verdict is not Verdict.VIOLATED)
    return mermaid.render(drawn[0]) if drawn else None


def say(line: str) -> None:
    """Print a line on stderr, beside the result."""
    print(f"pdproto: {line}", file=sys.stderr)  # noqa: T201 - beside the answer
