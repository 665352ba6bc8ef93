"""`python -m lab study force-query`: the cost of a query to the registry for every room (M2.4).

It measures the time to the first transfer, from when a request is due at prefill until its first
chunk is handed over. Everything else is short: no skew, no delay, a forward pass of two chunks of
1 ms. One server follows the routing rule; the other publishes rooms, and queries them. Each has a
registry of its own, and both get the same requests at the same moments.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from lab.sim.study import MS, Setting, percentile
from lab.study import ranks
from lab.study.lanes import END_S, Ran, Way, measure
from lab.study.plan import Cell
from lab.study.report import require_all
from lab.study.rooms import Routing
from pdproto.drill.children import context, run_in_child
from pdproto.drill.handoff.ranks import registry
from pdproto.net.hosts import LOOPBACK

SETTINGS: Final = tuple(
    Cell("requests a second", f"{rate}",
         Setting(skew_s=0.0, allocation_s=0.0, latency_s=0.0, forward_s=2 * MS,
                 load=rate * 2 * MS, tails=False))
    for rate in (10, 50))


@dataclass(frozen=True, slots=True)
class Transfer:
    """Seconds to the first transfer, and requests to the registry for each of the study's."""

    median_s: float
    p99_s: float
    calls: float


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A setting by the rule, and with forced queries. late_s: see report.py."""

    cell: Cell
    rule: Transfer
    forced: Transfer
    late_s: float


def rows(seed: int, count: int, again: int, on_progress: Callable[[int], None]) -> list[QueryRow]:
    """Measure all settings, one after the other. Raises as lanes.measure, and StudyError."""
    with _registry() as kept, _registry() as asked:
        ways = Way(0, Routing(kept, force_query=False)), Way(0, Routing(asked, force_query=True))
        found = measure(SETTINGS, seed, count, 1, on_progress, again=again, ways=ways)
    made = []
    for cell, measured in zip(SETTINGS, found, strict=True):
        for ran in (measured.without, measured.with_it):
            require_all(cell, ran, count)
        made.append(QueryRow(cell, transfer(measured.without), transfer(measured.with_it),
                        measured.late_s))
    return made


def transfer(ran: Ran) -> Transfer:
    """The figures of one way."""
    seconds = sorted(ran.computed.first_sent_s.values())
    calls = ran.computed.told + ran.answered.asked
    return Transfer(percentile(seconds, 0.5), percentile(seconds, 0.99), calls / len(seconds))


def as_markdown(found: list[QueryRow]) -> str:
    """A table, in milliseconds."""
    lines = ["| requests a second | median by the rule | forced | more | P99 by the rule | forced "
             "| more | calls a request by the rule | forced | late |",
             "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in found:
        rule, forced = row.rule, row.forced
        lines.append(
            f"| {row.cell.value} | {rule.median_s / MS:.1f} | {forced.median_s / MS:.1f} | "
            f"{(forced.median_s - rule.median_s) / MS:+.1f} | {rule.p99_s / MS:.1f} | "
            f"{forced.p99_s / MS:.1f} | {(forced.p99_s - rule.p99_s) / MS:+.1f} | "
            f"{rule.calls:.2f} | {forced.calls:.2f} | {row.late_s / MS:.1f} |")
    return "\n".join(lines) + "\n"


def as_json(found: list[QueryRow], seed: int, count: int) -> Mapping[str, Any]:
    """All figures, for machines."""
    return {"seed": seed, "requests": count, "rows": [asdict(row) for row in found]}


@contextmanager
def _registry() -> Iterator[str]:
    """Run a registry, yield its host:port, and end it afterwards."""
    child = run_in_child(context(ranks.__name__), "the registry", registry, None, LOOPBACK, None)
    try:
        yield str(child.hear())
        child.pipe.send(None)
        child.process.join(END_S)
    finally:
        child.end()
