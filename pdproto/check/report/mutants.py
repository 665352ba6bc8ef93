"""Results of mutants: a table with the survivors, and the same as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdproto.check.mutate.campaign import WAYS, Campaign
from pdproto.check.mutate.edits import Mutant
from pdproto.check.mutate.own_rows import environment
from pdproto.check.mutate.trials import Judged, MutantOutcome
from pdproto.check.result import Verdict

SHOWN: Final = (
    MutantOutcome.LINT, MutantOutcome.LEMMA, MutantOutcome.EDGES, MutantOutcome.REFUSED,
    MutantOutcome.EQUIVALENT, MutantOutcome.UNDECIDED, MutantOutcome.SURVIVED,
)  # fmt: skip
LEFT: Final = (MutantOutcome.SURVIVED, MutantOutcome.UNDECIDED)


def draw(campaigns: Sequence[Campaign], console: Console) -> None:
    """Print a column for each campaign, each mutant that survived or is undecided, and which rows
    are left out.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for campaign in campaigns:
        table.add_column(campaign.trials.systems[0].name, justify="right", overflow="fold")
    for cells in zip(_HEADS, *map(_cells, campaigns), strict=True):
        table.add_row(*cells)
    console.print(table)
    for campaign in campaigns:
        if campaign.stopped:
            console.print(Text(f"incomplete: {campaign.stopped}", style="bold yellow"),
                          soft_wrap=True)
        for judged in campaign.judged:
            if judged.outcome in LEFT:
                mutant = campaign.trials.mutants[judged.number]
                told = Text.assemble((str(judged.outcome), "bold"), f"  {mutant}")
                console.print(told, soft_wrap=True)
                console.print(Text(f"    {judged.note}", style="dim"), soft_wrap=True)
    for campaign in campaigns:
        for line in _left_out(campaign):
            console.print(Text(line, style="dim"), soft_wrap=True)


def _left_out(campaign: Campaign) -> Iterator[str]:
    """Which rows are not mutated, and why."""
    name = campaign.trials.systems[0].name
    for machine, rows in environment(campaign.trials.systems).items():
        yield f"left out of {name}: {machine} is the environment: {', '.join(rows)}"
    if campaign.rows_of_parts:
        yield f"left out of {name}: {campaign.rows_of_parts:,} rows that its parts have"


_HEADS: Final = ("mutants", "killed", *(f"  by {way}" for way in WAYS), *map(str, SHOWN), "score")


def _cells(campaign: Campaign) -> Iterator[str]:
    """A column of the table, in the order of _HEADS."""
    counts = campaign.counts
    yield f"{len(campaign.judged):,}"
    yield f"{counts[MutantOutcome.KILLED]:,}"
    yield from (f"{campaign.killed(way):,}" for way in WAYS)
    yield from (f"{counts[outcome]:,}" for outcome in SHOWN)
    yield "" if campaign.score is None else f"{campaign.score:.1%}"


def as_json(campaign: Campaign) -> dict[str, Any]:
    """The campaign as JSON values, with the result of each mutant."""
    counts = campaign.counts
    return {
        "systems": [system.name for system in campaign.trials.systems],
        "verdict": campaign.verdict,
        "stopped": campaign.stopped,
        "searches": [asdict(search) for search in campaign.trials.searches],
        "left_out": {
            "environment": dict(environment(campaign.trials.systems)),
            "rows_of_parts": campaign.rows_of_parts,
        },
        "mutants": len(campaign.judged),
        "killed": counts[MutantOutcome.KILLED],
        "killed_by": {way: campaign.killed(way) for way in WAYS},
        **{str(outcome).replace(" ", "_"): counts[outcome] for outcome in SHOWN},
        "score": campaign.score,
        "ends": [_end(campaign.trials.mutants[j.number], j) for j in campaign.judged],
    }


def nothing_mutated(verdict: Verdict, why: str) -> dict[str, Any]:
    """The same, where the unchanged systems have this verdict, so that no mutant was tried."""
    return {"systems": [], "verdict": verdict, "stopped": why, "mutants": 0, "ends": []}


def _end(mutant: Mutant, judged: Judged) -> dict[str, Any]:
    return {
        "number": mutant.number,
        "place": str(mutant.place),
        "row": mutant.row.name,
        "change": mutant.change,
        "edit": mutant.words,
        "outcome": judged.outcome,
        "by": None if judged.kill is None else asdict(judged.kill),
        "note": judged.note,
        "seconds": round(judged.seconds, 3),
    }
