"""Find every historical defect with the explorer, by its shortest trace.

A defect is an edit of the tables, or a table of another project's design. With ID, the trace of
that defect is drawn, in every system that has it. Exit status: 0 if each defect violates the
property named in the catalogue, 1 if one does not, 2 if there is no such ID, 3 if the run was
interrupted.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdproto.check.cache import Cache
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import INTERRUPTED
from pdproto.check.load import suggestion
from pdproto.check.report.as_json import to_json
from pdproto.check.report.progress import Reporter
from pdproto.check.report.terminal import render_trace
from pdproto.check.result import CheckResult, Finding, Verdict
from pdproto.cli.options import STANDARD_OUTPUT, UsageError, console, write
from pdproto.cli.recall import add_no_cache, cache
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import EVERY


@dataclass(frozen=True, slots=True)
class Trial:
    """The check of one system with a defect."""

    bug: Bug
    result: CheckResult

    @property
    def violated(self) -> Finding | None:
        """The finding that the defect's property is violated; None if it is not."""
        return next((f for f in self.result.findings if f.verdict is Verdict.VIOLATED), None)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto bugs`."""
    parser.add_argument("id", metavar="ID", nargs="?", help="draw the trace of this defect")
    parser.add_argument("--json", metavar="FILE|-", help="write the results as JSON")
    add_no_cache(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Try the defects; returns the exit status."""
    chosen = EVERY if arguments.id is None else _named(arguments.id, EVERY)
    trials: list[Trial] = []
    interrupted = False
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        try:
            for trial in tried(chosen, cache(arguments), reporter):
                trials.append(trial)
                if trial.result.stopped == INTERRUPTED and trial.violated is None:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            interrupted = True
            trials = [one for one in trials if one.result.stopped != INTERRUPTED or one.violated]
            reporter.say(f"interrupted: {len(trials)} of {len(chosen)} defects were tried")
    drawn = arguments.id is not None
    if arguments.json != STANDARD_OUTPUT:
        _show(trials, drawn=drawn)
    if arguments.json:
        write(json.dumps([as_json(trial, traced=drawn) for trial in trials], indent=2),
              arguments.json)
    if any(trial.violated is None for trial in trials):
        return 1
    return 3 if interrupted else 0


def _named(name: str, bugs: Sequence[Bug]) -> tuple[Bug, ...]:
    """The defect of that name, in each system that has it. Raises UsageError if none does."""
    named = tuple(bug for bug in bugs if bug.id == name)
    if named:
        return named
    hint = suggestion(name, [bug.id for bug in bugs]) or "; `pdproto bugs` lists them"
    raise UsageError(f"there is no defect {name!r}{hint}")


def tried(bugs: Sequence[Bug], kept: Cache, reporter: Reporter) -> Iterator[Trial]:
    """Explore the system of each defect up to the first violation of the defect's property."""
    for bug in bugs:
        settings = CheckSettings(
            properties=(bug.violates,), workers=os.cpu_count() or 1, monitor=reporter.show
        )
        yield Trial(bug, kept.check(bug.system, bug.configuration, settings))


def as_json(trial: Trial, *, traced: bool) -> dict[str, Any]:
    """Return one trial as JSON values. traced: add the whole result with its trace."""
    found = trial.violated
    plain = {
        "id": trial.bug.id,
        "source": trial.bug.source,
        "symptom": trial.bug.symptom,
        "note": trial.bug.note,
        "system": trial.bug.system.name,
        "property": trial.bug.violates,
        "refuted": found is not None,
        "steps": None if found is None else found.trace_length,
        "states": trial.result.states,
        "seconds": trial.result.seconds,
    }
    return plain | ({"result": to_json(trial.result)} if traced else {})


def _show(trials: Sequence[Trial], *, drawn: bool) -> None:
    with console() as page:
        if drawn:
            for trial in trials:
                _draw(trial, page)
            return
        page.print(_table(trials))
        missed = [trial.bug.id for trial in trials if trial.violated is None]
        found = f"{len(trials) - len(missed)} of {len(trials)} defects found"
        page.print(Text(found + (f"; not found: {', '.join(missed)}" if missed else "")))


def _draw(trial: Trial, page: Console) -> None:
    bug, found = trial.bug, trial.violated
    page.print(Text.assemble((bug.id, "bold"), f"  {bug.source}\n{bug.symptom}"))
    if bug.note:
        page.print(Text(bug.note, style="dim"))
    page.print()
    if found is None:
        page.print(Text(f"{bug.violates} was not found violated", style="bold red"))
    else:
        render_trace(found, page)


def _table(trials: Sequence[Trial]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("defect", no_wrap=True)
    table.add_column("source", overflow="fold", ratio=2)
    table.add_column("symptom", overflow="fold", ratio=4)
    table.add_column("violates", overflow="fold", ratio=3)
    table.add_column("steps", justify="right", no_wrap=True)
    for trial in trials:
        found = trial.violated
        table.add_row(
            Text(trial.bug.id, style="bold"),
            Text(trial.bug.source),
            Text(trial.bug.symptom),
            Text("not found", style="bold red") if found is None else Text(found.name),
            "" if found is None else f"{found.trace_length:,}",
        )
    return table
