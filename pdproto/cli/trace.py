"""Replay traces of real runs against the tables, and show the first line that does not conform.

Give the traces of all ranks of a hand-over together (`pdproto handoff --trace FOLDER` writes one
file for each rank). They are merged to one behaviour of the whole system: each message is sent,
each write of a device was begun, and every `always` holds in each state, as far as lines tell.
Exit status: 0 they conform, 1 no behaviour has a line, 2 usage, or traces of other tables, 3 the
traces are incomplete, or something is assumed.
"""

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from pdproto.check.report.narration import counted
from pdproto.check.report.terminal import VERDICT_STYLE, render_trace
from pdproto.check.result import EXIT_STATUS, Verdict
from pdproto.check.trace.verdict import Nearest, ReplayResult
from pdproto.check.trace.verify import to_json, to_result, verify
from pdproto.check.unjudged import unjudged_lines
from pdproto.cli.options import STANDARD_OUTPUT, UsageError, check_targets, console, write
from pdproto.cli.systems import load

SYSTEM: Final = "transfer"
WORDS: Final = {
    Verdict.HOLDS: "CONFORMS", Verdict.VIOLATED: "REJECTED", Verdict.UNKNOWN: "INCOMPLETE",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto trace`."""
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path,
                        help="a trace as JSON lines, one file for each process")
    parser.add_argument("--system", metavar="SYSTEM", default=SYSTEM,
                        help=f"the system of the tables: a built-in name, module:attribute, or "
                             f"path/to/file.py:attribute (default: {SYSTEM})")
    parser.add_argument("--from-middle", action="store_true",
                        help="the traces may begin in the middle: endpoints that began earlier are "
                             "skipped, and counted")
    parser.add_argument("--json", metavar="FILE|-", help="write the result")
    parser.add_argument("--html", metavar="FILE|-",
                        help="write a page to step through the run up to the rejected line")


def run(arguments: argparse.Namespace) -> int:
    """Replay and report; returns the exit status."""
    check_targets([arguments.json, arguments.html])
    for path in arguments.files:
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name its files, as in {path}/*.jsonl")
    paths = [path.resolve() for path in arguments.files]
    for path, given in zip(paths, arguments.files, strict=True):
        if paths.count(path) > 1:
            raise UsageError(f"{given} is given twice")
    verified = verify(load(arguments.system), arguments.files, from_middle=arguments.from_middle)
    if STANDARD_OUTPUT not in (arguments.json, arguments.html):
        with console() as out:
            show(verified, out)
    if arguments.json is not None:
        write(json.dumps(to_json(verified), indent=2) + "\n", arguments.json)
    if arguments.html is not None:
        # Imported only here, because most runs draw no page.
        page = import_module("pdproto.check.report.html").render(to_result(verified))
        write(str(page), arguments.html)
    return EXIT_STATUS[verified.verdict]


def show(verified: ReplayResult, out: Console) -> None:
    """Print the verdict, its assumptions, and the run up to the line that is rejected."""
    verdict = verified.verdict
    prefix = " up to the line below" if verdict is Verdict.VIOLATED else ""
    out.print(Text.assemble(
        (WORDS[verdict], VERDICT_STYLE[verdict]),
        f"  {counted(verified.lines, 'line')} of {counted(len(verified.files), 'file')}{prefix}: "
        f"{counted(verified.endpoints, 'endpoint')}, "
        f"{counted(sum(verified.rows.values()), 'row')}, by the tables of {verified.system.name}"))
    for sender, count in verified.assumed.items():
        out.print(Text(f"assumed: {counted(count, 'message')} of {sender}, which no line sends"))
    if verified.passed:
        begun = f"{counted(verified.passed, 'line')} of endpoints that had begun before"
        out.print(Text(f"passed over: {begun}"))
    for line in verified.missing:
        out.print(Text(f"missing: {line}", style="yellow"), soft_wrap=True)
    for line in verified.assumes:
        out.print(Text(f"assumed: {line}", style="yellow"), soft_wrap=True)
    for line in unjudged_lines(verified.unjudged):
        out.print(Text(line, style="yellow"), soft_wrap=True)
    rejection = verified.rejection
    if rejection is None:
        return
    out.print()
    where = f"{rejection.file}, line {rejection.number}"
    out.print(Text(f"{where}: {rejection.why}", style="bold"), soft_wrap=True)
    out.print(Text(f"    {rejection.text}", style="dim"), soft_wrap=True)
    for nearest in rejection.nearest:
        out.print(_nearest(nearest))
    if rejection.names:
        out.print(Text("where " + ", ".join(
            f"{short} is {name}" for short, name in rejection.names.items())))
    if rejection.trace is not None:
        out.print()
        render_trace(to_result(verified).findings[0], out)


def _nearest(nearest: Nearest) -> Text:
    row = f"{nearest.row}({nearest.parameters})"
    if not nearest.failing:
        return Text(f"    {row} could fire here")
    return Text.assemble(f"    {row} needs ", ("; ".join(nearest.failing), "yellow"))
