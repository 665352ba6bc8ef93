"""The result of a `python -m lab soak`: as numbers, as a table, as a page."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from lab.soak.memory import LIMIT
from lab.soak.state import SoakState

REASONS_SHOWN: Final = 8
COMPLAINTS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class SoakResult:
    """The result of a soak, until its last rest."""

    state: SoakState

    def numbers(self) -> dict[str, Any]:
        """For machines."""
        state, totals = self.state, self.state.totals
        return {
            "over": state.is_over,
            "parts": state.parts,
            "cut_off": state.cut_off,
            "seconds": round(state.seconds, 1),
            "rests": state.rests,
            "handoffs": totals.routed,
            "handoffs_per_second": round(totals.routed / max(state.seconds, 1e-9), 1),
            "engines": dict(state.engines),
            "succeeded": totals.succeeded,
            "failed": totals.failed,
            "cut_short_by_a_kill": totals.routed - totals.succeeded - totals.failed,
            "verified_bytes": totals.verified_bytes,
            "drained": totals.drained,
            "faults": dict(sorted(state.faults.items())),
            "messages": dict(sorted(state.messages.items())),
            "fences": totals.fences,
            "late_writes_refused": totals.late_writes_refused,
            "lost_peers": totals.lost_peers,
            "files_max": totals.files_max,
            "resident_bytes_max": totals.resident_bytes_max,
            "growth": {kind: {"processes": growth.series, "handoffs": growth.handoffs,
                              "worst_bytes_per_1000": round(growth.worst)}
                       for kind, growth in sorted(state.growth.items())},
            "reasons": dict(self.reasons()),
            "complaints": list(totals.complaints),
        }

    def reasons(self) -> list[tuple[str, int]]:
        """The most frequent reasons of failures, and how often each came."""
        known = self.state.totals.reasons.items()
        return sorted(known, key=lambda one: -one[1])[:REASONS_SHOWN]

    def rows(self) -> Iterator[tuple[str, str]]:
        """For people: the name of each number, and its value."""
        numbers = self.numbers()
        yield "seconds", f"{numbers['seconds']:,g}"
        yield "runs of the command; cut off without a rest", (
            f"{numbers['parts']:,}; {numbers['cut_off']:,}")
        yield "hand-overs", f"{numbers['handoffs']:,}"
        yield "hand-overs a second, with rests", f"{numbers['handoffs_per_second']:g}"
        for engine, count in numbers["engines"].items():
            yield f"hand-overs by {engine}", f"{count:,}"
        yield "succeeded, every byte compared", f"{numbers['succeeded']:,}"
        yield "failed (aborted, or by a fault)", f"{numbers['failed']:,}"
        yield "cut short: decode was killed", f"{numbers['cut_short_by_a_kill']:,}"
        yield "bytes compared, of processes that came to a rest", f"{numbers['verified_bytes']:,}"
        for what, count in numbers["faults"].items():
            yield what, f"{count:,}"
        yield "ranks that were drained, empty and replaced", f"{numbers['drained']:,}"
        messages = numbers["messages"]
        yield "messages", f"{messages.get('messages', 0):,}"
        yield "lost, doubled, late", ", ".join(
            f"{messages.get(what, 0):,}" for what in ("lost", "doubled", "late"))
        yield "fences; late writes refused", (
            f"{numbers['fences']:,}; {numbers['late_writes_refused']:,}")
        yield "files of a process at most", f"{numbers['files_max']:,}"
        yield "memory of a process at most", f"{numbers['resident_bytes_max'] / 2**20:.0f} MiB"
        yield from self._growth()
        yield "times at rest, with nothing left", f"{numbers['rests']:,}"
        yield "complaints", f"{len(numbers['complaints']):,}"

    def _growth(self) -> Iterator[tuple[str, str]]:
        for kind, growth in sorted(self.state.growth.items()):
            yield (f"growth of {kind}, bytes per 1,000 hand-overs at most "
                   f"({growth.series:,} processes, {growth.handoffs:,} hand-overs; "
                   f"{LIMIT:,.0f} is the limit)"), f"{growth.worst:,.0f}"


def show(result: SoakResult, console: Console) -> None:
    """The table, and the list of complaints."""
    table = Table(title="soak")
    table.add_column("what")
    table.add_column("measured", justify="right")
    for row in result.rows():
        table.add_row(*row)
    console.print(table)
    for reason, count in result.reasons():
        console.print(f"  {count:6} x {reason}", highlight=False, soft_wrap=True)
    complaints = result.state.totals.complaints
    for complaint in complaints[:COMPLAINTS_SHOWN]:
        console.print(f"[red]✗[/] {complaint}", highlight=False, soft_wrap=True)
    if not complaints:
        console.print(_held_claims(result), highlight=False, soft_wrap=True)


def _held_claims(result: SoakResult) -> str:
    """What was compared at the rests so far, and found right."""
    numbers = result.numbers()
    if not numbers["rests"]:
        return "the soak has not come to a rest, so nothing was compared"
    if not numbers["verified_bytes"]:
        return ("no process that came to a rest has compared a byte; nothing was held, at each of "
                f"{numbers['rests']:,} rests")
    return (f"each of the {numbers['verified_bytes']:,} bytes that were compared is as it was "
            f"sent; both sides agree, and nothing was held, at each of {numbers['rests']:,} rests")


def page(result: SoakResult, command: str) -> str:
    """The result as Markdown, with the command that repeats the soak."""
    state, complaints = result.state, result.state.totals.complaints
    goal = state.settings.handoffs
    title = "The last soak" if goal is None else f"A soak of {goal:,} hand-overs"
    commits = f", commit {', '.join(state.commits)}" * bool(state.commits)
    lines = [f"# {title}", "",
             "Real processes hand over while they are killed, stopped and cut off from others.",
             "`python -m lab soak --help` says what must hold all the same.",
             "", f"    {command}", "",
             f"{datetime.now(UTC):%Y-%m-%d}{commits}: {len(complaints) or 'no'} complaints"
             f"{'' if state.is_over else ' so far. The soak is not over: the command goes on'}.",
             "", "| what | measured |", "|---|--:|",
             *(f"| {what} | {measured} |" for what, measured in result.rows()), ""]
    lines += [f"* {complaint}" for complaint in complaints[:COMPLAINTS_SHOWN]]
    return "\n".join(lines).rstrip() + "\n"
