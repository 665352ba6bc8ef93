"""Hand over pages between real processes for as long as you like, while everything goes wrong.

A registry, prefill ranks and decode ranks run, and a network between them. Ranks and the registry
are killed and started anew, ranks are stopped and go on, connections are cut or stand still,
messages are lost, doubled, late or out of order, clients leave. Every while everything must come to
rest: each hand-over has ended, every page, lease and gauge is given back, every byte of a success
is right, both sides agree. At the end no process has a thread or a socket left. Exit status: 0 all
of that holds, 1 not.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from time import monotonic
from typing import Final

from pdproto.check.report.progress import Reporter
from pdproto.cli.options import STANDARD_OUTPUT, UsageError, console, whole_number, write
from pdproto.drill.children import ended_in_order
from pdproto.drill.handoff.load import Load
from pdproto.drill.soak.chaos import Chaos
from pdproto.drill.soak.cluster import ProcessLostError, SoakCluster
from pdproto.drill.soak.report import SoakResult, page, show
from pdproto.engine.contract import EngineError
from pdproto.engine.engines import ENGINES, require

ROUND_S: Final = 20.0  # of faults, between two rests
REST_S: Final = 60.0  # in which everything has to come to rest, on a busy machine
HEAR_S: Final = 0.02
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only looked at


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--seconds", type=whole_number, default=600, metavar="S",
                        help="for how long, the last rest apart (default: 600)")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="of load and faults; processes take their own time (default: 0)")
    parser.add_argument("--prefill", type=whole_number, default=2, metavar="N",
                        help="ranks, each a pipeline stage with layers of its own (default: 2)")
    parser.add_argument("--decode", type=whole_number, default=2, metavar="N",
                        help="ranks, each a server of its own (default: 2)")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="tcp",
                        help="how bytes move (default: tcp)")
    parser.add_argument("--in-flight", type=whole_number, default=8, metavar="N",
                        help="hand-overs open at once at a decode rank (default: 8)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", metavar="FILE", help="write the result; - for standard output")
    parser.add_argument("--record", metavar="FILE", help="write the result as a Markdown page")
    parser.add_argument("--commit", default="", help="what is soaked, for that page")


def run(arguments: argparse.Namespace) -> int:
    """Soak, and say what became of it."""
    try:
        require(arguments.engine)
    except EngineError as error:
        raise UsageError(str(error)) from error
    load = load_of(arguments.seed, arguments.in_flight, arguments.decode)
    with ended_in_order():
        try:
            cluster = SoakCluster(prefill=arguments.prefill, decode=arguments.decode, load=load,
                              engine=arguments.engine, in_flight=arguments.in_flight)
        except ProcessLostError as error:
            raise UsageError(str(error)) from error
        result = soaked(cluster, arguments.seconds, arguments.seed, quiet=arguments.quiet)
    if arguments.json:
        write(json.dumps(result.numbers(), indent=2) + "\n", arguments.json)
    if arguments.record:
        command = " ".join(["pdproto", *_without(sys.argv[1:], ("--record", "--commit", "--json"))])
        write(page(result, command, arguments.commit), arguments.record)
    if arguments.json != STANDARD_OUTPUT:
        with console() as out:
            show(result, out)
    return 1 if result.books.complaints else 0


def load_of(seed: int, in_flight: int, decode: int) -> Load:
    """What is handed over: so little at a time that faults, and not bytes, take the time."""
    return Load(
        seed=seed, requests=0, layers=2, page_bytes=4096, request_pages_max=8,
        pool_pages=8 * in_flight * decode, abort_rate=0.2, abort_within_s=0.05, in_flight=in_flight)


def soaked(cluster: SoakCluster, seconds: float, seed: int, *, quiet: bool) -> SoakResult:
    """What becomes of a cluster in so many seconds, and when it is closed."""
    began, before = monotonic(), _segments()
    soak, complaints = Soak(cluster, Chaos(cluster, seed), seconds), cluster.books.complaints
    try:
        with Reporter(quiet=quiet) as reporter:
            soak.run(reporter)
    except ProcessLostError as error:
        complaints.append(str(error))
    finally:
        soak.close()
    complaints += [f"{name} is left in {SHARED_MEMORY}" for name in sorted(_segments() - before)]
    if not cluster.books.succeeded:
        complaints.append("no hand-over has succeeded")
    return SoakResult(cluster.books, soak.chaos.counts, soak.messages, soak.rounds,
                  monotonic() - began)


def _without(arguments: list[str], names: tuple[str, ...]) -> list[str]:
    """A command line without these options and their values."""
    return [argument for place, argument in enumerate(arguments)
            if argument not in names and (not place or arguments[place - 1] not in names)]


def _segments() -> set[str]:
    """Shared memory of ours that has a name."""
    return {name for name in os.listdir(SHARED_MEMORY) if "pdproto" in name}


class Soak:
    """Rounds of faults, each with a rest behind it. messages: what the network did to them."""

    def __init__(self, cluster: SoakCluster, chaos: Chaos, seconds: float) -> None:
        self.cluster: Final = cluster
        self.chaos: Final = chaos
        self.rounds = 0
        self.messages: dict[str, int] = {}
        self._seconds: Final = seconds

    def run(self, reporter: Reporter) -> None:
        """For so long from the first request on, and until all is at rest. Raises ProcessLostError.
        """
        while not self.cluster.books.routed:  # until all are there
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
        """Have every decode rank begin once more, and wait until everything has been given back."""
        cluster, ends = self.cluster, monotonic() + REST_S
        waiting, held = set(cluster.sinks), ["not asked yet"]
        while held and (now := monotonic()) < ends:
            cluster.greet(waiting)
            cluster.hear(HEAR_S)
            reporter.line(self._line(), now - began)
            if not cluster.stands and not waiting:
                held = cluster.ask()
        cluster.books.complaints += [f"{name} has not begun, or not ended all its hand-overs"
                                     for name in (*waiting, *cluster.stands)] or held
        cluster.books.complaints += [
            f"{member.name}: {value:g} {what}" for member in cluster.members.values()
            if member.told is not None for what, value in member.told.faults.items()]

    def _line(self) -> str:
        books = self.cluster.books
        faults = ", ".join(f"{count} {what}" for what, count in sorted(self.chaos.counts.items()))
        return (f"{books.routed:,} hand-overs, {books.succeeded:,} right; {faults or 'no fault'}; "
                f"{self.rounds} times at rest, {len(books.complaints)} complaints")

    def close(self) -> None:
        """End all processes: none may have anything left."""
        try:
            self.messages = self.cluster.net("counts")
        except (ProcessLostError, OSError) as error:
            self.cluster.books.complaints.append(str(error))
        for name, left in self.cluster.close().items():
            self.cluster.books.complaints += [f"{name} has ended with {count} {what} left"
                                              for what, count in left.items()]
