"""The outcome of a `pdproto handoff`: its numbers, and the claims that it must uphold."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from statistics import quantiles
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from pdproto.drill.handoff.cluster import HandoffProcess
from pdproto.drill.handoff.cut import Cut
from pdproto.drill.handoff.load import Load, Topology
from pdproto.drill.handoff.processor import PARTS
from pdproto.drill.handoff.rank import Report
from pdproto.node.faults import INJECTED

REASONS_SHOWN: Final = 6


class HandoffVerdict:
    """The reports of all ranks, compared with each other and with the load.

    started, ended: of the whole drill, on the clock of the host. The hand-overs take from the first
    moment at which every decode rank could open one until the last one has ended at every rank.
    restarted: ranks of a server that was restarted. survivors: the earlier processes of its ranks,
    without the one that was killed; or of the rank that was drained. cut: of the registry.
    """

    def __init__(
        self,
        topology: Topology,
        load: Load,
        members: Mapping[str, HandoffProcess],
        *,
        started: float,
        ended: float,
        restarted: frozenset[str],
        survivors: Sequence[HandoffProcess] = (),
        cut: Cut | None = None,
    ) -> None:
        self.topology: Final = topology
        self.load: Final = load
        self.members: Final = members
        self.restarted: Final = restarted
        self.survivors: Final = survivors
        self.cut: Final = cut
        self.reports: Final = {name: m.report or Report(name) for name, m in members.items()}
        self.drained: Final = {
            m.rank.name: m.report for m in survivors
            if m.report is not None and m.report.drained is not None}
        decode = [self.reports[name] for name in topology.decode]
        first = max(report.began for report in decode)
        last = max(report.last_ended for report in self.reports.values())
        self.start_seconds: Final = first - started
        self.seconds: Final = max(last - first, 1e-9)
        self.release_seconds: Final = ended - last
        self.processor_seconds: Final = sum(
            report.processor_seconds for report in self.reports.values())
        self.verify_seconds: Final = max(report.verify_seconds for report in decode)

    @cached_property
    def complaints(self) -> tuple[str, ...]:
        """The claims that do not hold, each in one line that names the rank and the room."""
        return (*self._incomplete(), *self._corrupt(), *self._uncompared(),
                *self._disagreeing(), *self._kept(), *self._slow(), *self._unasked(),
                *self._early(), *(() if self.cut is None else self.cut.complaints()))

    @property
    def succeeded(self) -> int:
        """The number of requests that succeeded on every decode rank."""
        decode = [self.reports[name].outcomes for name in self.topology.decode]
        return sum(all(of.get(room) for of in decode) for room in range(self.load.requests))

    def _incomplete(self) -> Iterator[str]:
        for name, report in self.reports.items():
            earlier = self.drained.get(name, Report(name))
            missing = self.load.requests - len(report.outcomes | earlier.outcomes)
            if missing and name not in self.restarted:
                yield f"{name} has not seen the end of {missing} requests"

    def _corrupt(self) -> Iterator[str]:
        for name, report in self.reports.items():
            for room in report.corrupt:
                yield f"{name}, room {room}: the pages hold other bytes than were sent"

    def _uncompared(self) -> Iterator[str]:
        """Each byte that a decode rank has taken was compared."""
        for name in self.topology.decode:
            report = self.reports[name]
            taken = sum(self._bytes_of(name, room)
                        for room, success in report.outcomes.items() if success)
            if taken != report.verified_bytes:
                yield (f"{name} has compared {report.verified_bytes:,} bytes, and has taken "
                       f"{taken:,}")

    def _bytes_of(self, name: str, room: int) -> int:
        """The bytes that a decode rank takes of a request."""
        pages = self.load.request(room).pages
        return self.load.layers * self.load.page_bytes * sum(
            len(self.topology.share(source, pages)) for source in self.topology.sources(name))

    @property
    def verdict(self) -> str:
        """`violated` if a claim does not hold, `unknown` if no byte was compared, else `holds`."""
        if self.complaints:
            return "violated"
        return "holds" if self.has_compared else "unknown"

    @property
    def has_compared(self) -> bool:
        """Whether any byte was compared: a drill in which every hand-over fails shows little."""
        return any(report.verified_bytes for report in self.reports.values())

    def _disagreeing(self) -> Iterator[str]:
        """S14: a sink that answers Success contradicts no source."""
        for name in self.topology.decode:
            for room, success in self.reports[name].outcomes.items():
                for source in self.topology.sources(name) if success else ():
                    if self._outcome(source, room) is False:
                        yield f"room {room}: {name} has succeeded, and {source} has failed"

    def _outcome(self, name: str, room: int) -> bool | None:
        """The outcome of a room at a rank. A later run of the rank may succeed where one failed."""
        earlier = [m.report for m in self.survivors if m.report and m.rank.name == name]
        said = [report.outcomes.get(room) for report in (self.reports[name], *earlier)]
        return next((outcome for outcome in said if outcome is not None), None)

    def _kept(self) -> Iterator[str]:
        """L3, L4: without traffic every gauge is zero."""
        for member in (*self.members.values(), *self.survivors):
            name, report = member.rank.name, member.report or Report(member.rank.name)
            left = {**report.left, **(member.leftovers or {})}
            for what, count in left.items():
                if count:
                    yield f"{name} still has {count:g} {what}"
            if member.leftovers is None:
                yield f"{name} did not end cleanly"

    def _slow(self) -> Iterator[str]:
        """No hand-over delays the others: every turn of a loop is short."""
        for member in (*self.members.values(), *self.survivors):
            metrics = member.report.metrics if member.report else {}
            if metrics.get("slow_turns"):
                yield (f"{member.rank.name}: {metrics['slow_turns']:g} turns of its loop took over "
                       f"50 ms of processor time, one of them "
                       f"{metrics['longest_turn_seconds'] * 1e3:.1f} ms")

    def _unasked(self) -> Iterator[str]:
        """Without a killed rank, only hand-overs fail that were aborted, or struck by a fault."""
        if self.restarted:
            return
        for name, report in (*self.reports.items(), *self.drained.items()):
            for room, why in report.reasons.items():
                struck = bool(self.load.faults) and INJECTED in why
                if self.load.request(room).abort is None and not struck:
                    yield f"{name}, room {room}: failed, though nobody aborted it: {why}"

    def _early(self) -> Iterator[str]:
        """A node that says that it is empty has no open hand-over."""
        for name, report in self.drained.items():
            if report.drained is not None and report.drained.early:
                yield (f"{name} says that it is empty, and has {report.drained.early} open "
                       f"hand-overs")

    def numbers(self) -> dict[str, Any]:
        """All measured numbers, for machines."""
        latencies = sorted(s for name in self.topology.decode
                           for s in self.reports[name].latencies)
        verified = sum(report.verified_bytes for report in self.reports.values())
        return {
            "verdict": self.verdict,
            "requests": self.load.requests,
            "succeeded": self.succeeded,
            "failed": self.load.requests - self.succeeded,
            "seconds": round(self.seconds, 3),
            "start_seconds": round(self.start_seconds, 3),
            "verify_seconds": round(self.verify_seconds, 3),
            "release_seconds": round(self.release_seconds, 3),
            "processor_ms_per_request": round(
                1e3 * self.processor_seconds / self.load.requests, 3),
            "processor_ms_by_part": {part: round(1e3 * sum(
                report.processor_parts.get(part, 0.0) for report in self.reports.values()
            ) / self.load.requests, 3) for part in PARTS},
            "requests_per_second": round(self.load.requests / self.seconds, 1),
            "verified_bytes": verified,
            "verified_bytes_per_second": round(verified / self.seconds),
            "latency_p50_ms": _percentile(latencies, 50),
            "latency_p99_ms": _percentile(latencies, 99),
            **self._optimistic(),
            "injected_faults": self._sum("injected_faults"),
            "reasons": dict(self._reasons().most_common()),
            "restarted": sorted(self.restarted),
            "drained": {name: {"open": report.drained.open,
                               "seconds": round(report.drained.seconds, 3)}
                        for name, report in self.drained.items() if report.drained},
            "cut": None if self.cut is None else asdict(self.cut),
            "complaints": list(self.complaints),
            "ranks": {name: report.metrics for name, report in self.reports.items()},
        }

    def show(self, console: Console) -> None:
        """Print the numbers and the complaints for people."""
        numbers = self.numbers()
        ranks = f"{len(self.topology.prefill)} prefill and {len(self.topology.decode)} decode ranks"
        table = Table(title=f"{self.load.requests} hand-overs, {ranks}")
        table.add_column("what")
        table.add_column("measured", justify="right")
        for what, value in (
            ("succeeded", numbers["succeeded"]),
            ("failed (aborted, by a fault, or a rank was killed)", numbers["failed"]),
            ("hand-overs/s", numbers["requests_per_second"]),
            ("seconds of the hand-overs", numbers["seconds"]),
            ("of these, comparing bytes at a decode rank", numbers["verify_seconds"]),
            ("seconds before: starting", numbers["start_seconds"]),
            ("seconds after: giving everything back", numbers["release_seconds"]),
            ("processor time of a hand-over, all ranks (ms)",
             numbers["processor_ms_per_request"]),
            *((f"of these: {part}", ms)
              for part, ms in numbers["processor_ms_by_part"].items() if ms),
            ("latency p50, p99 (ms)",
             f"{numbers['latency_p50_ms']}, {numbers['latency_p99_ms']}"),
            ("bytes verified", f"{numbers['verified_bytes']:,}"),
            ("fences", f"{self._sum('fences_done'):g}"),
            ("late writes refused", f"{self._sum('refused_writes'):g}"),
            *((what.replace("_", " "), f"{value:g}") for what, value in self._optimistic().items()),
        ):
            table.add_row(what, str(value))
        for name, drain in numbers["drained"].items():
            table.add_row(f"{name} drained: hand-overs open, seconds until empty",
                          f"{drain['open']}, {drain['seconds']}")
        if self.cut is not None:
            table.add_row("seconds of the cut of the registry; hand-overs that ended in it",
                          f"{self.cut.seconds:.1f}; {self.cut.ended}")
            table.add_row("seconds until a look-up failed in it; until all were listed after it",
                          f"{self.cut.refused_s:.1f}; {self.cut.back_s or 0:.1f}")
        console.print(table)
        for reason, count in self._reasons().most_common(REASONS_SHOWN):
            console.print(f"  {count:6} x {reason}", highlight=False)
        for complaint in self.complaints[:20]:
            console.print(f"[red]✗[/] {complaint}", highlight=False)
        if not self.complaints:
            console.print(self._held_claims(), highlight=False, soft_wrap=True)

    def _held_claims(self) -> str:
        """What was compared, and found right."""
        bytes_ = sum(report.verified_bytes for report in self.reports.values())
        if not self.has_compared:
            return ("no hand-over has succeeded, so no byte was compared; every rank has given "
                    "everything back")
        but = f" but {', '.join(sorted(self.restarted))}" * bool(self.restarted)
        return (f"each of the {bytes_:,} bytes that decode has taken was compared, and is as it "
                f"was sent; no source has failed where its sink succeeded; every rank{but} has "
                f"seen the end of all {self.load.requests:,} hand-overs; every rank has given "
                f"everything back")

    def _optimistic(self) -> dict[str, float]:
        """The counts of optimistic prefill; none without it. A group of ranks has no prefix cache.
        """
        if self.load.retries is None:
            return {}
        again = self._sum("optimistic_prefill_retries") + self._sum("group_prefill_retries")
        if len(self.topology.prefill) > 1:
            return {"passes_run_again": again}
        return {"passes_run_again": again, "hit_rate": self._sum("optimistic_hit_rate"),
                "pages_of_repeated_passes": self._sum("optimistic_repeated_pages"),
                "of_these_in_the_prefix_cache": self._sum("optimistic_repeated_hits")}

    def _sum(self, counter: str) -> float:
        return sum(report.metrics.get(counter, 0) for report in self.reports.values())

    def _reasons(self) -> Counter[str]:
        return Counter(why for report in (*self.reports.values(), *self.drained.values())
                       for why in report.reasons.values())


def _percentile(values: list[float], percent: int) -> float | None:
    if len(values) < 2:
        return round(values[0] * 1e3, 3) if values else None
    return round(quantiles(values, n=100, method="inclusive")[percent - 1] * 1e3, 3)
