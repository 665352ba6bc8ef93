"""Run the nodes in a simulated cluster: one seed is one run, and every step is checked.

Each run checks the safety properties of the tables after every step. At the end it checks that all
memory was released. A failing run is shortened, drawn, and printed with the command that replays
it. Exit status: 0 no violation, 1 a violation, 2 usage.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, BinaryIO, Final

from rich.text import Text

from pdproto.check.report.progress import Reporter
from pdproto.check.report.terminal import render_trace
from pdproto.check.result import CheckResult
from pdproto.cli import sim_study
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    check_targets,
    console,
    whole_number,
    write,
)
from pdproto.sim.cluster import simulate
from pdproto.sim.defects import roles_of, runnable
from pdproto.sim.outcome import SHIPPED, Outcome, Roles
from pdproto.sim.picture import told
from pdproto.sim.plan import Kind, Plan, Shape, planned
from pdproto.sim.shrink import shrunk

SEEDS: Final = 10
ALL: Final = "all"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto sim`."""
    shape = Shape()
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", metavar="S", type=_seed, help="run this seed alone")
    seeds.add_argument("--seeds", metavar="N", type=whole_number, default=SEEDS,
                       help=f"run the seeds 0 to N - 1 (default: {SEEDS})")
    for name, about in (("prefill", "prefill servers"), ("decode", "decode servers"),
                        ("pp", "ranks of each prefill server"),
                        ("requests", "requests of a run")):
        default = getattr(shape, name)
        parser.add_argument(f"--{name}", metavar="N", type=whole_number, default=default,
                            help=f"{about} (default: {default})")
    parser.add_argument("--rate", metavar="R", type=float, default=shape.rate,
                        help=f"requests that arrive in a second (default: {shape.rate:g})")
    parser.add_argument("--faults", metavar="KIND,...", type=_kinds, default=(),
                        help=f"kinds of faults: {', '.join(Kind)}, or all (default: none)")
    parser.add_argument("--bug", metavar="ID", help="run the tables with this historical defect")
    parser.add_argument("--only-rooms", metavar="N,...", type=_numbers,
                        help="only these requests of a seed")
    parser.add_argument("--only-faults", metavar="N,...", type=_numbers,
                        help="only these faults of a seed")
    parser.add_argument("--trace", metavar="FOLDER", type=Path,
                        help="write a trace of every process; pdproto trace replays them")
    parser.add_argument("--json", metavar="FILE|-", help="write the outcome of every run")
    parser.add_argument("--html", metavar="FILE|-", help="write a page to step through a failure")
    sim_study.configure(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Run the seeds up to the first one that fails; returns the exit status."""
    check_targets([arguments.json, arguments.html, arguments.plot])
    if arguments.plot is not None and arguments.study is None:
        raise UsageError("--plot draws a study: give --study as well")
    logging.getLogger("pdproto").setLevel(logging.CRITICAL)  # faults here are intended
    if arguments.study is not None:
        return sim_study.run(arguments)
    shape, roles = _shape(arguments), _roles(arguments.bug)
    seeds = range(arguments.seeds) if arguments.seed is None else (arguments.seed,)
    outcomes: list[Outcome] = []
    began = monotonic()
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        for seed in seeds:
            plan = _narrowed(planned(seed, shape, Random), arguments)
            outcomes.append(_traced(plan, roles, arguments.trace))
            reporter.line(f"seed {seed}: {len(outcomes)} of {len(seeds)} runs",
                          monotonic() - began)
            if outcomes[-1].violation is not None:
                break
    failed = outcomes[-1].violation is not None
    result, command = None, ""
    if failed:
        small = shrunk(outcomes[-1], lambda plan: simulate(plan, Random, roles=roles))
        command = command_of(small.plan, arguments.bug)
        result = told(small, Random, roles, command)
    if STANDARD_OUTPUT not in (arguments.json, arguments.html):
        _show(outcomes, result, command)
    if arguments.json is not None:
        answers = [as_json(outcome) for outcome in outcomes]
        if failed:
            answers[-1]["replay"] = command
        write(json.dumps(answers, indent=2), arguments.json)
    if arguments.html is not None and result is not None:
        page = import_module("pdproto.check.report.html").render(result)
        write(str(page), arguments.html)
    return int(failed)


def command_of(plan: Plan, bug: str | None = None) -> str:
    """The command that runs this plan."""
    shape, usual = plan.shape, Shape()
    words = ["pdproto", "sim", "--seed", str(plan.seed)]
    for name in ("prefill", "decode", "pp", "requests"):
        if getattr(shape, name) != getattr(usual, name):
            words += [f"--{name}", str(getattr(shape, name))]
    if shape.rate != usual.rate:
        words += ["--rate", f"{shape.rate:g}"]
    if shape.faults:
        words += ["--faults", ",".join(shape.faults)]
    if bug is not None:
        words += ["--bug", bug]
    whole = planned(plan.seed, shape, Random)
    if plan.requests != whole.requests:
        words += ["--only-rooms", _listed(request.room for request in plan.requests)]
    if plan.faults != whole.faults:
        words += ["--only-faults", _listed(fault.number for fault in plan.faults)]
    return " ".join(words)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome of a run, as JSON values."""
    plan = outcome.plan
    return {
        "seed": plan.seed,
        "requests": len(plan.requests),
        "faults": [asdict(fault) for fault in plan.faults],
        "violation": None if outcome.violation is None else asdict(outcome.violation),
        "succeeded": outcome.succeeded,
        "failed": outcome.failed,
        "virtual_seconds": outcome.seconds,
        "steps": outcome.steps,
        "batches": outcome.batches,
        "batches_lost": outcome.lost,
        "writes_landed": outcome.landed,
        "counted": outcome.counted,
    }


def _shape(arguments: argparse.Namespace) -> Shape:
    try:
        return Shape(prefill=arguments.prefill, decode=arguments.decode, pp=arguments.pp,
                     requests=arguments.requests, faults=arguments.faults, rate=arguments.rate)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _roles(bug: str | None) -> Roles:
    if bug is None:
        return SHIPPED
    known = {one.id: one for one in runnable()}
    if bug not in known:
        raise UsageError(f"--bug {bug}: the tables of nodes have no such defect: choose one of "
                         f"{', '.join(known)}")
    return roles_of(known[bug].system)


def _narrowed(plan: Plan, arguments: argparse.Namespace) -> Plan:
    rooms, faults = arguments.only_rooms, arguments.only_faults
    if rooms is not None:
        plan = replace(plan, requests=tuple(r for r in plan.requests if r.room in rooms))
    if faults is not None:
        plan = replace(plan, faults=tuple(f for f in plan.faults if f.number in faults))
    return plan


def _traced(plan: Plan, roles: Roles, folder: Path | None) -> Outcome:
    if folder is None:
        return simulate(plan, Random, roles=roles)
    into = folder / f"seed-{plan.seed}"
    into.mkdir(parents=True, exist_ok=True)
    with ExitStack() as files:
        return simulate(plan, Random, roles=roles,
                        targets=lambda process: _File(into / f"{process}.jsonl", files))


class _File:
    """A file that the first line creates: a process without a step has no file."""

    def __init__(self, path: Path, files: ExitStack) -> None:
        self._path: Final = path
        self._files: Final = files
        self._file: BinaryIO | None = None

    def write(self, data: bytes) -> int:
        if self._file is None:
            self._file = self._files.enter_context(self._path.open("wb"))
        return self._file.write(data)


def _show(outcomes: Sequence[Outcome], result: CheckResult | None, command: str) -> None:
    requests = sum(outcome.succeeded + outcome.failed for outcome in outcomes)
    succeeded = sum(outcome.succeeded for outcome in outcomes)
    steps = sum(outcome.steps for outcome in outcomes)
    lost = sum(outcome.lost for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    verdict = ("HOLDS", "bold green") if result is None else ("VIOLATED", "bold red")
    with console() as out:
        out.print(Text.assemble(
            verdict, f"  {len(outcomes):,} runs, {seconds:,.0f} virtual seconds: {requests:,} "
            f"hand-overs, {succeeded:,} of them to Success; {steps:,} steps, each checked; "
            f"{lost:,} batches lost"))
        if result is not None:
            out.print(Text(f"replay: {command}"), soft_wrap=True)
            out.print()
            render_trace(result.findings[0], out)


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _seed(text: str) -> int:
    return _number(text, lambda number: number >= 0, "a seed of 0 or more")


def _numbers(text: str) -> frozenset[int]:
    return frozenset(_number(part, lambda number: number >= 0, "numbers, as in 3,17")
                     for part in text.split(",") if part)


def _number(text: str, fits: Callable[[int], bool], wanted: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not fits(number):
        raise argparse.ArgumentTypeError(f"want {wanted}, not {text[:40]!r}")
    return number


def _kinds(text: str) -> tuple[Kind, ...]:
    if text == ALL:
        return tuple(Kind)
    try:
        return tuple(dict.fromkeys(Kind(word) for word in text.split(",") if word))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"want kinds among {', '.join(Kind)}, not {text[:60]!r}") from None
