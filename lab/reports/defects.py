"""The trials of defects: a table of all, the trace of each, and the same as JSON."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.defects import DefectTrials, Trial
from pdproto.check.report.as_json import to_json
from pdproto.check.report.terminal import render_trace


def as_json(trial: Trial, *, traced: bool) -> dict[str, Any]:
    """Return one trial as JSON values. traced: add the whole result with its trace."""
    found = trial.violated
    plain = {
        "id": trial.defect.id,
        "source": trial.defect.source,
        "symptom": trial.defect.symptom,
        "note": trial.defect.note,
        "system": trial.defect.system.name,
        "property": trial.defect.violates,
        "refuted": found is not None,
        "steps": None if found is None else found.trace_length,
        "states": trial.result.states,
        "seconds": trial.result.seconds,
    }
    return plain | ({"result": to_json(trial.result)} if traced else {})


def draw(trial: Trial, page: Console) -> None:
    """Print one defect with the trace that shows it."""
    defect, found = trial.defect, trial.violated
    page.print(Text.assemble((defect.id, "bold"), f"  {defect.source}\n{defect.symptom}"))
    if defect.note:
        page.print(Text(defect.note, style="dim"))
    page.print()
    if found is None:
        page.print(Text(f"{defect.violates} was not found violated", style="bold red"))
    else:
        render_trace(found, page)


def show(found: DefectTrials, page: Console) -> None:
    """Print a line for each decided defect, and which of all were not found or not decided."""
    page.print(_table(found.decided))
    missed = [trial.defect.id for trial in found.decided if trial.violated is None]
    every = len(found.decided) + len(found.undecided)
    told = f"{len(found.decided) - len(missed)} of {every} defects found"
    for word, names in (("not found", missed), ("not decided", found.undecided)):
        told += f"; {word}: {', '.join(names)}" if names else ""
    page.print(Text(told))


def _table(trials: Sequence[Trial]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("defect", no_wrap=True)
    table.add_column("source", overflow="fold", ratio=2)
    table.add_column("symptom", overflow="fold", ratio=4)
    table.add_column("violates", overflow="fold", ratio=3)
    table.add_column("steps", justify="right", no_wrap=True)
    for trial in trials:
        found = trial.violated
        table.add_row(
            Text(trial.defect.id, style="bold"),
            Text(trial.defect.source),
            Text(trial.defect.symptom),
            Text("not found", style="bold red") if found is None else Text(found.name),
            "" if found is None else f"{found.trace_length:,}",
        )
    return table
