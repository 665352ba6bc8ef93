"""Results of runs for their reader: numbers, the command that replays a run, and JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from lab.sim.outcome import RunOutcome
from lab.sim.plan import Plan, Shape, planned
from pdproto.check.report.terminal import render_trace
from pdproto.check.result import CheckResult
from pdproto.cli.numbers import NONE
from pdproto.testing.chance import Seeded


def draw(
    outcomes: Sequence[RunOutcome], result: CheckResult | None, command: str, console: Console,
    unknown: str = "",
) -> None:
    """Print the numbers of all runs; then the command that replays the violation, and its trace.

    unknown: why other runs have no outcome.
    """
    requests = sum(outcome.succeeded + outcome.failed for outcome in outcomes)
    succeeded = sum(outcome.succeeded for outcome in outcomes)
    steps = sum(outcome.steps for outcome in outcomes)
    lost = sum(outcome.lost for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    verdict = ("UNKNOWN", "bold yellow") if unknown else ("HOLDS", "bold green")
    if result is not None:
        verdict = ("VIOLATED", "bold red")
    console.print(Text.assemble(
        verdict, f"  {len(outcomes):,} runs, {seconds:,.0f} virtual seconds: {requests:,} "
        f"hand-overs, {succeeded:,} of them to Success; {steps:,} steps, each checked; "
        f"{lost:,} batches lost"))
    if unknown:
        console.print(Text(f"incomplete: {unknown}", style="yellow"))
    if result is not None:
        console.print(Text(f"replay: {command}"), soft_wrap=True)
        console.print()
        render_trace(result.findings[0], console)


def command_of(plan: Plan, seeded: Seeded, bug: str | None = None) -> str:
    """The command that runs this plan. seeded: as of `planned`."""
    shape, usual = plan.shape, Shape()
    words = ["python", "-m", "lab", "cluster", "--seed", str(plan.seed)]
    for name in ("prefill", "decode", "pp", "requests"):
        if getattr(shape, name) != getattr(usual, name):
            words += [f"--{name}", str(getattr(shape, name))]
    if shape.rate != usual.rate:
        words += ["--rate", f"{shape.rate:g}"]
    if shape.faults:
        words += ["--faults", ",".join(shape.faults)]
    if bug is not None:
        words += ["--bug", bug]
    whole = planned(plan.seed, shape, seeded)
    if plan.requests != whole.requests:
        words += ["--only-rooms", _listed(request.room for request in plan.requests)]
    if plan.faults != whole.faults:
        words += ["--only-faults", _listed(fault.number for fault in plan.faults)]
    return " ".join(words)


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers)) or NONE


def as_json(outcome: RunOutcome) -> dict[str, Any]:
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
