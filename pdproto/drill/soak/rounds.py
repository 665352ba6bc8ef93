"""A soak: rounds of faults, each followed by a rest in which everything must be released."""

import os
from pathlib import Path
from time import monotonic
from typing import Final

from pdproto.check.report.progress import Reporter
from pdproto.drill.handoff.load import Load
from pdproto.drill.soak.chaos import Chaos
from pdproto.drill.soak.cluster import ProcessLostError, SoakCluster
from pdproto.drill.soak.report import SoakResult

ROUND_S: Final = 20.0  # of faults, between two rests
REST_S: Final = 60.0  # after which all hand-overs must have ended, also on a busy machine
HEAR_S: Final = 0.02
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only read


def load_of(seed: int, in_flight: int, decode: int) -> Load:
    """The load. Hand-overs are small, so that faults take most of the time."""
    return Load(
        seed=seed, requests=0, layers=2, page_bytes=4096, request_pages_max=8,
        pool_pages=8 * in_flight * decode, abort_rate=0.2, abort_within_s=0.05, in_flight=in_flight)


def run_soak(cluster: SoakCluster, seconds: float, seed: int, *, quiet: bool) -> SoakResult:
    """Run a cluster under faults for `seconds`, close it, and return the result."""
    began, before = monotonic(), _shared_memory_names()
    soak, complaints = Soak(cluster, Chaos(cluster, seed), seconds), cluster.books.complaints
    try:
        with Reporter(quiet=quiet) as reporter:
            soak.run(reporter)
    except ProcessLostError as error:
        complaints.append(str(error))
    finally:
        soak.close()
    left = sorted(_shared_memory_names() - before)
    complaints += [f"{name} is left in {SHARED_MEMORY}" for name in left]
    if not cluster.books.succeeded:
        complaints.append("no hand-over has succeeded")
    return SoakResult(cluster.books, soak.chaos.counts, soak.messages, soak.rounds,
                  monotonic() - began)


def _shared_memory_names() -> set[str]:
    """The names of pdproto's shared memory segments on this machine."""
    return {name for name in os.listdir(SHARED_MEMORY) if "pdproto" in name}


class Soak:
    """Rounds of faults, each followed by a rest. messages: counts of what the network did."""

    def __init__(self, cluster: SoakCluster, chaos: Chaos, seconds: float) -> None:
        self.cluster: Final = cluster
        self.chaos: Final = chaos
        self.rounds = 0
        self.messages: dict[str, int] = {}
        self._seconds: Final = seconds

    def run(self, reporter: Reporter) -> None:
        """Run rounds for the given seconds, from the first request on. Raises ProcessLostError."""
        while not self.cluster.books.routed:  # until all processes have started
            self.cluster.route()
            self.cluster.hear(HEAR_S)
        began = monotonic()
        ends = began + self._seconds
        while monotonic() < ends and not self.cluster.books.complaints:
            until = min(monotonic() + ROUND_S, ends)
            while (now := monotonic()) < until:
                self.cluster.route()
                self.cluster.hear(HEAR_S)
                self.chaos.turn(now)
                reporter.line(self._line(), now - began)
            self.chaos.end()
            self._rest(reporter, began)
            self.rounds += 1

    def _rest(self, reporter: Reporter, began: float) -> None:
        """Let every decode rank start once more, and wait until all memory has been released."""
        cluster, ends = self.cluster, monotonic() + REST_S
        waiting, held = set(cluster.sinks), ["not asked yet"]
        while held and (now := monotonic()) < ends:
            cluster.greet(waiting)
            cluster.hear(HEAR_S)
            reporter.line(self._line(), now - began)
            if not cluster.unfinished and not waiting:
                held = cluster.ask()
        cluster.books.complaints += [f"{name} has not begun, or not ended all its hand-overs"
                                     for name in (*waiting, *cluster.unfinished)] or held
        cluster.books.complaints += [
            f"{member.name}: {value:g} {what}" for member in cluster.members.values()
            if member.told is not None for what, value in member.told.faults.items()]

    def _line(self) -> str:
        books = self.cluster.books
        faults = ", ".join(f"{count} {what}" for what, count in sorted(self.chaos.counts.items()))
        return (f"{books.routed:,} hand-overs, {books.succeeded:,} right; {faults or 'no fault'}; "
                f"{self.rounds} times at rest, {len(books.complaints)} complaints")

    def close(self) -> None:
        """End all processes, and complain about resources that they have left."""
        try:
            self.messages = self.cluster.net("counts")
        except (ProcessLostError, OSError) as error:
            self.cluster.books.complaints.append(str(error))
        for name, left in self.cluster.close().items():
            self.cluster.books.complaints += [f"{name} has ended with {count} {what} left"
                                              for what, count in left.items()]
