"""A result for a person at a terminal: the verdicts first, then a picture of each violation.

The console determines the width, the colours and the characters. Text that is too long for a column
or a line is folded, never cut off.
"""

from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdproto.check.report.narration import (
    counts_phrase,
    coverage_lines,
    every_row,
    headline,
    sizes_phrase,
    so_far,
)
from pdproto.check.report.pen import Pen
from pdproto.check.report.picture import draw
from pdproto.check.result import CheckResult, Finding, Verdict

VERDICT_STYLE: Final = {
    Verdict.HOLDS: "bold green",
    Verdict.VIOLATED: "bold red",
    Verdict.UNKNOWN: "bold yellow",
}


def render(result: CheckResult, console: Console, *, rows: bool = False) -> None:
    """Print the whole result. rows: also how often each row fired."""
    pen = Pen(console)
    _show(pen, *_heading(pen, result))
    console.print()
    if result.findings:
        console.print(_table(pen, result))
        console.print()
    if rows:
        console.print(_row_counts(pen, result))
        console.print()
    _show(pen, *_coverage(pen, result))
    for finding in result.findings:
        if finding.verdict is Verdict.VIOLATED:
            console.print()
            render_trace(finding, console)


def render_trace(finding: Finding, console: Console) -> None:
    """Print one finding, and its trace as a message-sequence picture if it has one."""
    pen = Pen(console)
    style = VERDICT_STYLE[finding.verdict]
    _show(
        pen,
        pen.text((finding.name, f"{style} underline"), f" {headline(finding)}"),
        pen.text(finding.claim),
        pen.text(str(finding.place), style="dim"),
    )
    if finding.note:
        _show(pen, pen.text(f"note: {finding.note}"))
    if finding.trace is None:
        return
    console.print()
    for line in draw(finding, console):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _show(pen: Pen, *texts: Text) -> None:
    for text in texts:
        for line in pen.wrap(text, pen.width):
            pen.console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _heading(pen: Pen, result: CheckResult) -> list[Text]:
    sizes = sizes_phrase(result.sizes)
    lines = [pen.text((result.system, "bold"), f"  {sizes}" if sizes else "")]
    if result.description:
        lines.append(pen.text(result.description, style="dim"))
    if result.faults:
        lines.append(pen.text(f"faults: {', '.join(result.faults)}"))
    if result.reductions:
        lines.append(pen.text(f"reductions: {', '.join(result.reductions)}"))
    extent = "every state explored" if result.complete else "incomplete"
    style = VERDICT_STYLE[result.verdict]
    lines.append(
        pen.text(
            (result.verdict.value.upper(), style),
            f"  {counts_phrase(result)}, {result.seconds:.2f} s, {extent}",
        )
    )
    if result.recalled:
        lines.append(pen.text("from an earlier run (--no-cache explores anew)", style="dim"))
    if result.stopped:
        lines.append(pen.text(f"stopped: {result.stopped}", style="yellow"))
    return lines


def _table(pen: Pen, result: CheckResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("property", overflow="fold", ratio=2)
    table.add_column("kind", no_wrap=True)
    table.add_column("steps", justify="right", no_wrap=True)
    table.add_column("assurance and note", overflow="fold", ratio=3)
    for finding in result.findings:
        length = finding.trace_length
        assurance = pen.text(finding.assurance)
        if finding.note:
            # The note of a property that holds is a condition, or says that it is vacuous.
            style = "yellow" if finding.verdict is Verdict.HOLDS else "dim"
            assurance = Text.assemble(assurance, "\n", pen.text(finding.note, style=style))
        table.add_row(
            pen.text(finding.verdict.value, style=VERDICT_STYLE[finding.verdict]),
            pen.text(finding.name, style="bold"),
            pen.text(finding.kind.value),
            "" if length is None else f"{length:,}",
            assurance,
        )
    return table


def _row_counts(pen: Pen, result: CheckResult) -> Table:
    """Each row, the most frequent first, with the number of states in which it can fire."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("row", overflow="fold", ratio=2)
    table.add_column("can fire", justify="right", no_wrap=True)
    table.add_column("place", overflow="fold", ratio=3)
    for name, count in sorted(result.row_counts.items(), key=lambda one: -one[1]):
        place = result.row_places.get(name)
        table.add_row(
            pen.text(name, style="bold" if count else "yellow"),
            pen.text(f"{count:,}" if count else "never", style="" if count else "yellow"),
            pen.text("" if place is None else str(place), style="dim"),
        )
    return table


def _coverage(pen: Pen, result: CheckResult) -> list[Text]:
    never = coverage_lines(result)
    if never:
        told = f"rows that never fired{so_far(result)}: {len(never)}"
        lines = [pen.text(told, style="yellow")]
        lines += [pen.text(f"    {line}") for line in never]
    else:
        lines = [pen.text(text, style="dim") for text in filter(None, (every_row(result),))]
    style = "yellow" if result.deadlocks else "dim"
    lines.append(pen.text(f"deadlocks{so_far(result)}: {result.deadlocks:,}", style=style))
    return lines
