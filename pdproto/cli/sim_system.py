"""`pdproto sim SYSTEM`: the processes of any system in virtual time.

The runtime runs each machine of the system by its table, as a server would. One seed is one run: it
decides how long each message, clock, device and client takes, and which faults come.
"""

import argparse
import shlex
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from random import Random
from time import monotonic
from typing import Final

from pdproto.check.explore import Monitor, silent
from pdproto.check.report.progress import Reporter
from pdproto.check.worker_pool import in_order, run_tasks
from pdproto.cli.options import UsageError, configuration
from pdproto.cli.sampled import Sampled, report, require_processes, runnable
from pdproto.cli.systems import load
from pdproto.cli.workers import workers
from pdproto.sim.plan import Shape
from pdproto.sim.system import Run, SimulatedSystem
from pdproto.spec.language.system import DEFAULT, Configuration, System

ALL: Final = "all"
OF_NODES: Final = ("prefill", "decode", "pp", "requests", "rate")
OF_SEEDS: Final = ("bug", "only_rooms", "only_faults", "trace", "study", "plot", "shard")


@dataclass(frozen=True, slots=True)
class SimulatedSubject:
    """The system with its sizes and faults, as the options name them. Workers get it as it is."""

    name: str
    configuration: str
    sizes: tuple[str, ...]
    faults: str

    def chosen(self) -> tuple[System, Configuration]:
        """The system and its configuration. Raises UsageError and the errors of `load`."""
        system = load(self.name)
        layers = tuple(system.faults) if self.faults == ALL else tuple(self.faults.split(","))
        given = argparse.Namespace(
            configuration=self.configuration, size=[self.sizes],
            faults=[tuple(filter(None, layers))] if self.faults else [])
        return system, configuration(system, given)

    @property
    def words(self) -> list[str]:
        """The options of this subject on a command line."""
        words = [self.name]
        if self.configuration != DEFAULT:
            words += ["--configuration", self.configuration]
        if self.sizes:
            words += ["--size", *self.sizes]
        if self.faults:
            words += ["--faults", self.faults]
        return words


@dataclass(frozen=True, slots=True)
class _SeedTask:
    """The run of one seed, in a form that can be sent to a worker."""

    subject: SimulatedSubject
    seed: int

    def __str__(self) -> str:
        return f"seed {self.seed}"


def run(arguments: argparse.Namespace) -> int:
    """Run the seeds up to the first one that fails; returns the exit status."""
    _refuse_options_of_nodes(arguments)
    subject = SimulatedSubject(arguments.system, arguments.configuration,
                      tuple(size for group in arguments.size for size in group),
                      arguments.faults or "")
    simulated = _simulated(subject)
    seeds = range(arguments.seeds) if arguments.seed is None else (arguments.seed,)
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
        told=(f"{sum(one.seconds for one in runs):,.0f} virtual seconds",),
        finding=simulated.cut_down(last) if failed else None,
        replay=shlex.join(["pdproto", "sim", *subject.words, "--seed", str(last.seed)]),
    )
    return report(sampled, arguments.json, arguments.html)


def _refuse_options_of_nodes(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an option that is about nodes of the hand-over."""
    usual = Shape()
    given = [name for name in OF_NODES if getattr(arguments, name) != getattr(usual, name)]
    given += [name for name in OF_SEEDS if getattr(arguments, name) is not None]
    for name in given:
        raise UsageError(f"--{name.replace('_', '-')} is about the nodes of the hand-over: leave "
                         f"it out, or leave out SYSTEM")


@cache
def _simulated(subject: SimulatedSubject) -> SimulatedSystem:
    system, chosen = subject.chosen()
    require_processes(system)
    with runnable(system):
        return SimulatedSystem(system, chosen, Random)


def _outcome(task: _SeedTask, _: Monitor) -> tuple[Run, Counter[str]]:
    fired = Counter[str]()
    found = _simulated(task.subject).run(
        task.seed, on_row=lambda _at, row: fired.update((row.row.name,)))
    return found, fired
