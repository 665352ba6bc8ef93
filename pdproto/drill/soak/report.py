"""The result of a `pdproto soak`: as numbers, as a table, as a page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from pdproto.drill.soak.cluster import Books

REASONS_SHOWN: Final = 8
COMPLAINTS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class SoakResult:
    """The result of a soak. faults: counts by kind. messages: counts of the network. rests: times
    at which everything had been given back.
    """

    books: Books
    faults: Mapping[str, int]
    messages: Mapping[str, int]
    rests: int
    seconds: float

    def numbers(self) -> dict[str, Any]:
        """For machines."""
        books, states = self.books, self.books.states.values()
        return {
            "seconds": round(self.seconds, 1),
            "rests": self.rests,
            "handoffs": books.routed,
            "succeeded": books.succeeded,
            "failed": books.failed,
            "cut_short_by_a_kill": books.routed - books.succeeded - books.failed,
            "verified_bytes": sum(state.verified_bytes for state in states),
            "drained": books.drained,
            "faults": dict(sorted(self.faults.items())),
            "messages": dict(sorted(self.messages.items())),
            "fences": round(self._sum("fences_done")),
            "late_writes_refused": round(self._sum("refused_writes")),
            "lost_peers": round(self._sum("lost_peers")),
            "files_max": max((state.files for state in states), default=0),
            "resident_bytes_max": max((state.resident for state in states), default=0),
            "reasons": dict(books.reasons.most_common(REASONS_SHOWN)),
            "complaints": list(books.complaints),
        }

    def _sum(self, counter: str) -> float:
        return sum(state.counters.get(counter, 0) for state in self.books.states.values())

    def rows(self) -> Iterator[tuple[str, str]]:
        """For people: the name of each number, and its value."""
        numbers = self.numbers()
        yield "seconds", f"{numbers['seconds']:g}"
        yield "hand-overs", f"{numbers['handoffs']:,}"
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
        yield "times at rest, with nothing left", f"{numbers['rests']:,}"
        yield "complaints", f"{len(numbers['complaints']):,}"


def show(result: SoakResult, console: Console) -> None:
    """The table, and the list of complaints."""
    table = Table(title="soak")
    table.add_column("what")
    table.add_column("measured", justify="right")
    for row in result.rows():
        table.add_row(*row)
    console.print(table)
    for reason, count in result.books.reasons.most_common(REASONS_SHOWN):
        console.print(f"  {count:6} x {reason}", highlight=False, soft_wrap=True)
    for complaint in result.books.complaints[:COMPLAINTS_SHOWN]:
        console.print(f"[red]✗[/] {complaint}", highlight=False, soft_wrap=True)
    if not result.books.complaints:
        console.print("no byte is wrong, both sides agree, and everything was given back")


def page(result: SoakResult, command: str, commit: str) -> str:
    """The result as Markdown, with the command that repeats the soak."""
    lines = ["# The last soak", "",
             "Real processes hand over while they are killed, stopped and cut off from others.",
             "`pdproto soak --help` says what must hold all the same; `make soak` writes this.",
             "", f"    {command}", "",
             f"{datetime.now(UTC):%Y-%m-%d}{f', commit {commit}' * bool(commit)}: "
             f"{len(result.books.complaints) or 'no'} complaints.", "",
             "| what | measured |", "|---|--:|",
             *(f"| {what} | {measured} |" for what, measured in result.rows()), ""]
    lines += [f"* {complaint}" for complaint in result.books.complaints[:COMPLAINTS_SHOWN]]
    return "\n".join(lines).rstrip() + "\n"
