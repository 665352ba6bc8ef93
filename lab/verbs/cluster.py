"""Run a cluster of nodes of the hand-over in virtual time: one seed is one run.

The seed decides how long each message, clock, device and client takes, and which faults come.
Safety is checked after every step; at the end the run is brought to rest, liveness is checked, and
all memory must have been released. A failing run is shortened, drawn, and printed with the command
that replays it. `pdproto sim SYSTEM` runs any system of tables so. Exit status: 0 no violation, 1 a
violation, 2 usage, 3 a seed without an answer, or no hand-over in any run.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final

from lab.sim.cluster import simulate
from lab.sim.defects import roles_of, runnable
from lab.sim.outcome import SHIPPED, Roles, RunOutcome
from lab.sim.picture import told
from lab.sim.plan import Kind, Shape, planned
from lab.sim.report import as_json, command_of, draw
from lab.sim.shrink import shrunk
from lab.sim.traces import traced
from lab.verbs import cluster_study
from pdproto.check.explore import Monitor, silent
from pdproto.check.report.progress import Reporter
from pdproto.check.shards import Merged
from pdproto.check.worker_pool import in_order, run_tasks
from pdproto.cli.numbers import natural, naturals, positive
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    check_folder,
    check_targets,
    console,
    whole_number,
    write,
)
from pdproto.cli.sharding import add_shard, keep_answers, merged_run, shard
from pdproto.cli.workers import add_workers, workers

SEEDS: Final = 10
ALL: Final = "all"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `python -m lab cluster`."""
    shape = Shape()
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", metavar="S", type=natural, help="run this seed alone")
    seeds.add_argument("--seeds", metavar="N", type=whole_number, default=SEEDS,
                       help=f"run the seeds 0 to N - 1 (default: {SEEDS})")
    for name, about in (("prefill", "prefill servers"), ("decode", "decode servers"),
                        ("pp", "ranks of each prefill server"),
                        ("requests", "requests of a run")):
        default = getattr(shape, name)
        parser.add_argument(f"--{name}", metavar="N", type=whole_number, default=default,
                            help=f"{about} (default: {default})")
    parser.add_argument("--rate", metavar="R", type=positive, default=shape.rate,
                        help=f"requests that arrive in a second (default: {shape.rate:g})")
    parser.add_argument("--faults", metavar="KIND,...", default="",
                        help=f"kinds of faults: {', '.join(Kind)}, or all (default: none)")
    parser.add_argument("--bug", metavar="ID", help="run the tables with this historical defect")
    parser.add_argument("--only-rooms", metavar="N,...", type=naturals,
                        help="only these requests of a seed")
    parser.add_argument("--only-faults", metavar="N,...", type=naturals,
                        help="only these faults of a seed")
    parser.add_argument("--trace", metavar="FOLDER", type=Path,
                        help="write a trace of every process; pdproto trace replays them")
    parser.add_argument("--json", metavar="FILE|-", help="write the outcome of every run")
    parser.add_argument("--html", metavar="FILE|-", help="write a page to step through a failure")
    cluster_study.configure(parser)
    add_workers(parser, "processes that share the seeds (default: 1)", default=1)
    add_shard(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Run the seeds up to the first one that fails; returns the exit status."""
    if arguments.merge is not None:
        return merged_run(arguments, merge)
    check_targets([arguments.json, arguments.html, arguments.plot])
    check_folder(arguments.trace)
    if arguments.plot is not None and arguments.study is None:
        raise UsageError("--plot draws a study: give --study as well")
    logging.getLogger("pdproto").setLevel(logging.CRITICAL)  # faults here are intended
    part = shard(arguments)
    if arguments.study is not None:
        if part is not None:
            raise UsageError("--shard divides seeds, and a study is one run")
        return cluster_study.run(arguments)
    runs = [one for one in _runs(arguments) if part is None or part.has(str(one))]
    outcomes: list[RunOutcome] = []
    began = monotonic()
    with (Reporter(sys.stderr, quiet=arguments.quiet) as reporter,
          closing(run_tasks(runs, _outcome, workers(arguments), silent)) as found):
        for outcome in in_order(found):
            outcomes.append(outcome)
            reporter.line(f"seed {outcome.plan.seed}: {len(outcomes)} of {len(runs)} runs",
                          monotonic() - began)
            if outcome.violation is not None:
                break
    if part is not None:
        return keep_answers(arguments, outcomes, int(_has_failed(outcomes)))
    return _report(outcomes, "", arguments)


def merge(arguments: argparse.Namespace, answers: Merged) -> int:
    """Report the outcomes of shards up to the first seed that fails; returns the exit status."""
    known = {outcome.plan.seed: outcome for outcome in answers.answers(RunOutcome)}
    outcomes: list[RunOutcome] = []
    lacking = []
    for one in _runs(arguments):
        if one.seed in known:
            outcomes.append(known[one.seed])
        else:
            lacking.append(str(one))
        if _has_failed(outcomes):
            break
    logging.getLogger("pdproto").setLevel(logging.CRITICAL)  # faults here are intended
    return _report(outcomes, answers.lacking(lacking), arguments)


def _has_failed(outcomes: Sequence[RunOutcome]) -> bool:
    return bool(outcomes) and outcomes[-1].violation is not None


def _runs(arguments: argparse.Namespace) -> list["_Run"]:
    """The run of each seed. Raises UsageError."""
    shape = _shape(arguments)
    _roles(arguments.bug)
    seeds = range(arguments.seeds) if arguments.seed is None else (arguments.seed,)
    return [_Run(seed, shape, arguments.bug, arguments.only_rooms, arguments.only_faults,
                 arguments.trace) for seed in seeds]


def _report(outcomes: Sequence[RunOutcome], unknown: str, arguments: argparse.Namespace) -> int:
    """Report the runs; returns the exit status. unknown: why some have no outcome."""
    failed, roles = _has_failed(outcomes), _roles(arguments.bug)
    if arguments.bug is not None and not failed and not unknown:
        unknown = (f"no run has shown {arguments.bug}: seeds arrange no race, and `python -m lab "
                   f"race {arguments.bug}` does")
    if not (unknown or failed or any(outcome.succeeded + outcome.failed for outcome in outcomes)):
        unknown = "no run has a hand-over, so nothing was checked"
    result, command = None, ""
    if failed:
        small = shrunk(outcomes[-1], lambda plan: simulate(plan, Random, roles=roles))
        command = command_of(small.plan, Random, arguments.bug)
        result = told(small, Random, roles, command)
    if STANDARD_OUTPUT not in (arguments.json, arguments.html):
        with console() as drawn:
            draw(outcomes, result, command, drawn, unknown)
    if arguments.json is not None:
        answers = [as_json(outcome) for outcome in outcomes]
        if failed:
            answers[-1]["replay"] = command
        write(json.dumps(answers, indent=2), arguments.json)
    if arguments.html is not None and result is not None:
        page = import_module("pdproto.check.report.html").render(result)
        write(str(page), arguments.html)
    return 1 if failed else 3 if unknown else 0


@dataclass(frozen=True, slots=True)
class _Run:
    """One run, in a form that can be sent to a worker: the arguments of the verb for its seed."""

    seed: int
    shape: Shape
    bug: str | None
    only_rooms: frozenset[int] | None
    only_faults: frozenset[int] | None
    trace: Path | None

    def __str__(self) -> str:
        return f"seed {self.seed}"


def _outcome(run: _Run, _: Monitor) -> RunOutcome:
    logging.getLogger("pdproto").setLevel(logging.CRITICAL)  # faults here are intended
    plan = planned(run.seed, run.shape, Random).only(run.only_rooms, run.only_faults)
    return traced(plan, Random, _roles(run.bug), run.trace)


def _shape(arguments: argparse.Namespace) -> Shape:
    try:
        return Shape(prefill=arguments.prefill, decode=arguments.decode, pp=arguments.pp,
                     requests=arguments.requests, faults=_kinds(arguments.faults),
                     rate=arguments.rate)
    except ValueError as error:
        raise UsageError(str(error)) from error


@cache
def _roles(bug: str | None) -> Roles:
    if bug is None:
        return SHIPPED
    known = {one.id: one for one in runnable()}
    if bug not in known:
        raise UsageError(f"--bug {bug}: the tables of nodes have no such defect: choose one of "
                         f"{', '.join(known)}")
    return roles_of(known[bug].system)


def _kinds(text: str) -> tuple[Kind, ...]:
    if text == ALL:
        return tuple(Kind)
    try:
        return tuple(dict.fromkeys(Kind(word) for word in text.split(",") if word))
    except ValueError:
        raise UsageError(
            f"--faults: want kinds among {', '.join(Kind)}, not {text[:60]!r}") from None
