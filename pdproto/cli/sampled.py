"""The report of `fuzz` and of `sim`: some runs of a system, and any counterexample."""

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rich.text import Text

from pdproto.check.outcome import Outcome, outcome
from pdproto.check.report.as_json import to_json
from pdproto.check.report.narration import counted, sizes_phrase
from pdproto.check.report.terminal import VERDICT_STYLE, render_trace
from pdproto.check.result import CheckResult, Finding, PropertyKind
from pdproto.check.unjudged import unjudged, unjudged_lines
from pdproto.cli.options import STANDARD_OUTPUT, UsageError, console, write
from pdproto.cli.reports import say
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import Fairness, Property
from pdproto.spec.language.system import DEFAULT, Configuration, System
from pdproto.testing.property_checker import why_unjudged


@dataclass(frozen=True, slots=True)
class Sampled:
    """Some runs of a system at the sizes and faults of a configuration.

    steps: rows that fired in all runs. fired: by row, how often. assumed: in some run each. wanted:
    the properties that were asked for; empty for all. told: further figures as text. finding: the
    violation; None if no run has one. replay: the command that shows it again.
    """

    system: System
    configuration: Configuration
    runs: int
    steps: int
    fired: Mapping[str, int]
    assumed: frozenset[Fairness]
    wanted: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    finding: Finding | None = None
    replay: str = ""

    @property
    def never(self) -> tuple[str, ...]:
        """The rows that could fire under these faults, and fired in no run."""
        tables = self.system.tables_under(self.configuration.faults)
        names = dict.fromkeys(row.name for table, _ in tables for row in table.rows
                              if row.kind == "row")
        return tuple(name for name in names if not self.fired.get(name))

    @property
    def unjudged(self) -> Mapping[str, str]:
        """Of each property that was asked for, and that no run judges, the reason."""
        found = unjudged(self.system, self._why_unjudged)
        return {name: why for name, why in found.items() if name in (self.wanted or found)}

    def _why_unjudged(self, name: str, claim: Property | None) -> str:
        reasons = [why_unjudged(name, claim, one) for one in sorted(self.assumed)]
        return reasons[0] if reasons and all(reasons) else ""

    @property
    def outcome(self) -> Outcome:
        """The verdict."""
        judged = not self.wanted or not {*self.wanted} <= {*self.unjudged}
        return outcome(violated=self.finding is not None, steps=self.steps, judged=judged)

    @property
    def result(self) -> CheckResult:
        """The runs as the result of a check, for reports."""
        finding, sizes = self.finding, self.configuration.sizes
        return CheckResult(
            self.system.name, self.system.about,
            {sort.__name__: size for sort, size in sizes.items()}, self.configuration.faults,
            states=0, transitions=self.steps, depth=0, seconds=0.0, complete=False,
            stopped=f"these are {counted(self.runs, 'run')}, and not all",
            findings=() if finding is None else (finding,), rows_never_fired=self.never,
            deadlocks=int(finding is not None and finding.kind is PropertyKind.DEADLOCK),
            row_places={row.name: row.place for _, row in self.system.rows()},
            rows_fired=tuple(name for name, times in self.fired.items() if times),
        )


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add --json and --html."""
    parser.add_argument("--json", metavar="FILE|-",
                        help="write the counts, and the violation with its trace")
    parser.add_argument("--html", metavar="FILE|-", help="write a page to step through a violation")


def subject_words(verb: str, arguments: argparse.Namespace) -> list[str]:
    """The command line of a verb with SYSTEM, its sizes and its faults, as they were given."""
    words = ["pdproto", verb, arguments.system]
    if arguments.configuration != DEFAULT:
        words += ["--configuration", arguments.configuration]
    for option in ("size", "faults"):
        if given := [value for group in getattr(arguments, option) for value in group]:
            words += [f"--{option}", *given]
    return words


def require_processes(system: System) -> None:
    """Raise UsageError for a system in which no machine is a process."""
    if all(machine.world for machine in system.machines):
        raise UsageError(f"{system.name} has no machine but hosts and the world: there is no "
                         f"process to run; `pdproto run` walks through its tables")


@contextmanager
def runnable(system: System) -> Iterator[None]:
    """Say of a table that the runtime cannot run what can be done. Raises UsageError."""
    try:
        yield
    except SpecError as error:
        raise UsageError(f"{error}: the runtime cannot run {system.name}; `pdproto run` and "
                         f"`pdproto check` can explore it") from error


def report(sampled: Sampled, json_target: str | None, html_target: str | None) -> int:
    """Print the runs, and write the reports; returns the exit status."""
    if STANDARD_OUTPUT not in (json_target, html_target):
        _show(sampled)
    if json_target is not None:
        write(json.dumps(_as_json(sampled), indent=2), json_target)
    if html_target is not None and sampled.finding is None:
        say(f"no run has a violation to draw: {html_target} is not written")
    elif html_target is not None:
        # Imported only here, because most runs draw no page.
        write(str(import_module("pdproto.check.report.html").render(sampled.result)), html_target)
    return sampled.outcome.exit_status


def _show(sampled: Sampled) -> None:
    verdict = sampled.result.verdict
    faults = ", ".join(sampled.configuration.faults)
    facts = ", ".join(filter(None, [sizes_phrase(sampled.result.sizes), faults]))
    figures = (counted(sampled.runs, "run"), *sampled.told, counted(sampled.steps, "step"))
    with console() as out:
        out.print(Text.assemble((sampled.system.name, "bold"), f"  {facts}"))
        out.print(Text(f"{', '.join(figures)}, each compared with the tables"))
        if sampled.never:
            out.print(Text(f"never fired: {', '.join(sampled.never)}", style="yellow"))
        for line in unjudged_lines(sampled.unjudged):
            out.print(Text(line, style="yellow"), soft_wrap=True)
        if sampled.finding is None:
            out.print(Text(sampled.outcome.told, style="dim"))
            return
        out.print(Text.assemble((verdict.value.upper(), VERDICT_STYLE[verdict]),
                                f"  replay: {sampled.replay}"), soft_wrap=True)
        out.print()
        render_trace(sampled.finding, out)


def _as_json(sampled: Sampled) -> dict[str, Any]:
    return to_json(sampled.result) | {
        "verdict": sampled.outcome.seen, "runs": sampled.runs, "steps": sampled.steps,
        "rows": dict(sampled.fired), "replay": sampled.replay,
        "not_judged": [f"{claim}: {why}" for claim, why in sampled.unjudged.items()],
    }
