"""Run the processes of a system in virtual time: one seed is one run, and every step is checked.

The runtime runs each machine of the system by its table, as a server would. The seed decides how
long each message, clock, device and client takes, and which faults come. Safety is checked after
every step; at the end the run is brought to rest, and liveness is checked. A failing run is
shortened, drawn, and printed with the command that replays it. `pdproto fuzz` tries the same
processes with events in any order, and `pdproto run` walks through the tables without processes.
Exit status: 0 no violation was seen, 1 one was, 2 usage, 3 no step was taken.
"""

import argparse
import shlex
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import chain
from random import Random
from time import monotonic
from typing import Final, TypeAlias

from pdproto.check.explore import Monitor, silent
from pdproto.check.report.progress import Reporter
from pdproto.check.worker_pool import in_order, run_tasks
from pdproto.cli.numbers import natural
from pdproto.cli.options import add_sizes, add_system, check_targets, configuration, whole_number
from pdproto.cli.sampled import (
    Sampled,
    add_outputs,
    report,
    require_processes,
    runnable,
    subject_words,
)
from pdproto.cli.systems import load
from pdproto.cli.workers import add_workers, workers
from pdproto.testing.simulated import Run, SimulatedSystem

SEEDS: Final = 10
# SYSTEM, --configuration, --size and --faults.
Subject: TypeAlias = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto sim`."""
    add_system(parser)
    add_sizes(parser)
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", metavar="S", type=natural, help="run this seed alone")
    seeds.add_argument("--seeds", metavar="N", type=whole_number, default=SEEDS,
                       help=f"run the seeds 0 to N - 1 (default: {SEEDS})")
    add_outputs(parser)
    add_workers(parser, "processes that share the seeds (default: 1)", default=1)
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


@dataclass(frozen=True, slots=True)
class _SeedTask:
    """The run of one seed, in a form that can be sent to a worker: the options name the system."""

    subject: Subject
    seed: int

    def __str__(self) -> str:
        return f"seed {self.seed}"


def run(arguments: argparse.Namespace) -> int:
    """Run the seeds up to the first one that fails; returns the exit status."""
    check_targets([arguments.json, arguments.html])
    seeds = range(arguments.seeds) if arguments.seed is None else (arguments.seed,)
    subject = (arguments.system, arguments.configuration, tuple(chain(*arguments.size)),
               tuple(chain(*arguments.faults)))
    simulated = _simulated(subject)
    fired, runs, began = Counter[str](), list[Run](), monotonic()
    tasks = [_SeedTask(subject, seed) for seed in seeds]
    with (Reporter(sys.stderr, quiet=arguments.quiet) as reporter,
          closing(run_tasks(tasks, _outcome, workers(arguments), silent)) as found):
        for one, rows in in_order(found):
            runs.append(one)
            fired += rows
            reporter.line(f"seed {one.seed}: {len(runs)} of {len(seeds)} runs",
                          monotonic() - began)
            if one.finding is not None:
                break
    last = runs[-1]
    failed = last.finding is not None
    sampled = Sampled(
        simulated.system, simulated.configuration, len(runs), fired.total(), fired,
        frozenset(one.fairness for one in runs),
        told=(f"{sum(one.seconds for one in runs):,.0f} virtual seconds",),
        finding=simulated.cut_down(last) if failed else None,
        replay=shlex.join([*subject_words("sim", arguments), "--seed", str(last.seed)]),
    )
    return report(sampled, arguments.json, arguments.html)


@cache
def _simulated(subject: Subject) -> SimulatedSystem:
    """Raises UsageError and the errors of `load`."""
    name, sizes, size, faults = subject
    system = load(name)
    chosen = configuration(system, argparse.Namespace(
        configuration=sizes, size=[size], faults=[faults]))
    require_processes(system)
    with runnable(system):
        return SimulatedSystem(system, chosen, Random)


def _outcome(task: _SeedTask, _: Monitor) -> tuple[Run, Counter[str]]:
    fired = Counter[str]()
    found = _simulated(task.subject).run(
        task.seed, on_row=lambda _, row: fired.update((row.row.name,)))
    return found, fired
