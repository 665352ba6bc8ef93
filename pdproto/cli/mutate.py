"""Measure the properties: change one thing in the tables at a time, and see whether any notices.

Systems that share tables are named together, and a part of the hand-over stands for all of its
variants; without SYSTEM every part is mutated. A mutant that no property notices points at one that
is missing. Exit status: 0 if none survived, 1 if one did or if the tables do not hold as they are,
2 if there is no such system, 3 if a search came to a limit or was interrupted.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from math import prod
from random import Random
from time import monotonic
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import Monitor, silent
from pdproto.check.mutate.edits import Mutant
from pdproto.check.mutate.trials import (
    BaseError,
    Judged,
    MutantOutcome,
    Search,
    Trials,
    measure,
    searches,
    trials_of,
)
from pdproto.check.report.terminal import render_trace
from pdproto.check.result import PropertyKind, Verdict
from pdproto.check.worker_pool import shared_out
from pdproto.cli.options import STANDARD_OUTPUT, check_targets, console, whole_number, write
from pdproto.cli.systems import load, subject
from pdproto.spec.catalogue import HANDOFF, SYSTEMS, Purpose
from pdproto.spec.language.properties import Always
from pdproto.spec.language.system import System

# Rows as another system has them, what is explored in deep runs only, and the parts once more,
# which are mutated by themselves.
APART: Final = frozenset({
    "optimistic-keeping", "transfer-two-sinks", "transfer-two-lives",
    *(name for name in HANDOFF if SYSTEMS[name].purpose is Purpose.COMPOSED),
})
TOLD_AFTER: Final = 10.0  # seconds between two lines of progress
WAYS: Final = {
    "safety": (PropertyKind.ALWAYS,),
    "deadlock": (PropertyKind.DEADLOCK,),
    "witness": (PropertyKind.SOMETIMES,),
    "liveness": (PropertyKind.LEADS_TO,),
}
SHOWN: Final = (
    MutantOutcome.LINT, MutantOutcome.LEMMA, MutantOutcome.EDGES, MutantOutcome.REFUSED,
    MutantOutcome.EQUIVALENT, MutantOutcome.UNDECIDED, MutantOutcome.SURVIVED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Campaign:
    """The mutants of systems that share tables, and what became of those that were tried."""

    names: tuple[str, ...]
    trials: Trials
    judged: tuple[Judged, ...]

    @property
    def counts(self) -> Counter[MutantOutcome]:
        return Counter(judged.outcome for judged in self.judged)

    def killed(self, way: str) -> int:
        """How many were killed by a property of that kind."""
        return sum(
            judged.outcome is MutantOutcome.KILLED and judged.kill is not None
            and judged.kill.kind in WAYS[way]
            for judged in self.judged
        )

    @property
    def score(self) -> float | None:
        """What is killed of what could be; None where there was nothing to kill."""
        counts = self.counts
        killed = counts[MutantOutcome.KILLED]
        left = counts[MutantOutcome.SURVIVED] + counts[MutantOutcome.UNDECIDED]
        return killed / (killed + left) if killed + left else None


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto mutate`."""
    parser.add_argument(
        "systems", metavar="SYSTEM", nargs="*",
        help="built-in names, module:attribute, or path/to/file.py:attribute; several share tables "
        "(default: every part of the hand-over)",
    )
    parser.add_argument(
        "--sample", metavar="N", type=whole_number, help="try N mutants, chosen by chance"
    )
    parser.add_argument(
        "--seed", metavar="S", type=int, default=0, help="of the sample (default: 0)"
    )
    parser.add_argument(
        "--workers", metavar="N", type=whole_number, default=os.cpu_count() or 1,
        help="processes (default: one a core); the answer is the same for any number",
    )
    parser.add_argument("--json", metavar="FILE|-", help="write every mutant's end as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Mutate systems; returns the exit status."""
    check_targets([arguments.json])
    teller = _Teller(quiet=arguments.quiet)
    try:
        every = list(_prepared(_families(arguments.systems), arguments.workers, teller))
    except _NotHeldError as found:
        teller.say(str(found.base))
        if arguments.json != STANDARD_OUTPUT:
            found.draw()
        return 1
    except KeyboardInterrupt:
        teller.say("interrupted before anything was mutated")
        return 3
    chosen = _chosen([trials for _, trials in every], arguments.sample, arguments.seed)
    campaigns = []
    for (names, trial), picked in zip(every, chosen, strict=True):
        judged = _all_judged(names, trial, picked, arguments.workers, teller)
        campaigns.append(Campaign(names, trial, judged))
        if teller.interrupted:
            break
    if arguments.json != STANDARD_OUTPUT:
        with console() as drawn:
            _show(campaigns, drawn)
    if arguments.json:
        write(json.dumps([_as_json(campaign) for campaign in campaigns], indent=2), arguments.json)
    return _status(campaigns, interrupted=teller.interrupted)


def _status(campaigns: Sequence[Campaign], *, interrupted: bool) -> int:
    counts = sum((campaign.counts for campaign in campaigns), Counter[MutantOutcome]())
    if counts[MutantOutcome.SURVIVED]:
        return 1
    return 3 if interrupted or counts[MutantOutcome.UNDECIDED] else 0


def _families(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The systems to mutate, those that share tables together."""
    parts = handover()
    if not names:
        return parts
    for part in parts:
        if set(names) <= set(part):
            return (part,)
    return (tuple(dict.fromkeys(names)),)


def handover() -> tuple[tuple[str, ...], ...]:
    """The systems of the hand-over: each part with its variants, which are named after it."""
    parts: dict[str, list[str]] = {}
    for name in (name for name in HANDOFF if name not in APART):
        part = next((first for first in parts if name.startswith(f"{first}-")), name)
        parts.setdefault(part, []).append(name)
    return tuple(map(tuple, parts.values()))


def _prepared(
    families: Sequence[tuple[str, ...]], workers: int, teller: "_Teller"
) -> Iterator[tuple[tuple[str, ...], Trials]]:
    """The trials of each family, once its originals have passed every search."""
    systems = {name: load(name) for names in families for name in names}
    tasks = [(name, search) for name in systems for search in searches(systems[name])]
    # What is violated as a rule shows soon: in safety before liveness, at small sizes first.
    tasks.sort(key=lambda task: _effort(systems[task[0]], task[1]))
    measured: dict[str, list[Search]] = {name: [] for name in systems}
    with closing(told for told in shared_out(tasks, _measure, workers, silent)) as all_told:
        for done, (number, told) in enumerate(all_told):
            if isinstance(told, BaseError):
                raise _NotHeldError(systems[tasks[number][0]], told)
            measured[tasks[number][0]].append(told)
            teller.now_and_then(f"{done + 1} of {len(tasks)} searches before anything is mutated")
    for names in families:
        found = (search for name in names for search in measured[name])
        yield names, trials_of([systems[name] for name in names], found, _lemmas(names))


class _NotHeldError(Exception):
    """A system that is to be mutated does not hold as it is."""

    def __init__(self, system: System, base: BaseError) -> None:
        super().__init__(str(base))
        self.system: Final = system
        self.base: Final = base

    def draw(self) -> None:
        """Print the trace of what is violated, if that is what is wrong."""
        if not self.base.property:
            return
        chosen = self.system.configurations[self.base.configuration]
        result = check(self.system, chosen, CheckSettings(properties=(self.base.property,)))
        with console() as drawn:
            for finding in result.findings:
                if finding.verdict is Verdict.VIOLATED:
                    render_trace(finding, drawn)


def _effort(system: System, search: Search) -> tuple[bool, int]:
    """What makes a search long, before it is known how long it is."""
    sizes = system.configurations[search.configuration].sizes
    return search.endless, prod(sizes.values())


def _lemmas(names: Sequence[str]) -> dict[str, tuple[Always, ...]]:
    """What the proofs of these systems rest on, by the systems' own names."""
    subjects = map(subject, names)
    return {one.system.name: one.lemmas for one in subjects if one.lemmas}


def _measure(task: tuple[str, Search], _: Monitor) -> Search | BaseError:
    """The search with its states, or what is wrong with the original."""
    name, search = task
    try:
        return measure(search, load(name))
    except BaseError as base:
        return base


def _chosen(every: Sequence[Trials], sample: int | None, seed: int) -> list[list[int]]:
    """For each campaign the numbers of its mutants to try, a fair share of the sample."""
    numbers = [(place, m.number) for place, trials in enumerate(every) for m in trials.mutants]
    if sample is not None and sample < len(numbers):
        numbers = Random(seed).sample(numbers, sample)  # noqa: S311 - no secret
    return [sorted(n for where, n in numbers if where == place) for place in range(len(every))]


class _Teller:
    """Lines on stderr: how far it is, now and then, and each survivor as it is found."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet: Final = quiet
        self._next = monotonic() + TOLD_AFTER
        self.interrupted = False

    def say(self, line: str) -> None:
        print(f"pdproto: {line}", file=sys.stderr, flush=True)  # noqa: T201 - beside the result

    def now_and_then(self, line: str) -> None:
        if not self._quiet and monotonic() >= self._next:
            self._next = monotonic() + TOLD_AFTER
            self.say(line)

    def judged(self, mutant: Mutant, judged: Judged, done: int, total: int) -> None:
        if not self._quiet and judged.outcome in (MutantOutcome.SURVIVED, MutantOutcome.UNDECIDED):
            self.say(f"{judged.outcome}: {mutant}")
        self.now_and_then(f"{done:,} of {total:,} mutants")


@dataclass(frozen=True, slots=True)
class _Task:
    """One mutant, in a form that can be sent to a worker: systems cannot."""

    names: tuple[str, ...]
    searches: tuple[Search, ...]
    number: int


def _all_judged(
    names: tuple[str, ...], trials: Trials, picked: Sequence[int], workers: int, teller: _Teller
) -> tuple[Judged, ...]:
    """The ends of the mutants with these numbers, in order; of as many as Ctrl-C allows."""
    tasks = [_Task(names, trials.searches, number) for number in picked]
    done: list[Judged] = []
    try:
        with closing(j for _, j in shared_out(tasks, _tried, workers, silent)) as ends:
            for judged in ends:
                done.append(judged)
                teller.judged(trials.mutants[judged.number], judged, len(done), len(picked))
    except KeyboardInterrupt:
        teller.interrupted = True
        teller.say(f"interrupted: {len(done):,} of {len(picked):,} mutants were tried")
    return tuple(sorted(done, key=lambda judged: judged.number))


@cache
def _trials(names: tuple[str, ...], searches: tuple[Search, ...]) -> Trials:
    """The trials again, in a worker: the originals have been checked already."""
    return trials_of([load(name) for name in names], searches, _lemmas(names))


def _tried(task: _Task, _: Monitor) -> Judged:
    trials = _trials(task.names, task.searches)
    return trials.judged(trials.mutants[task.number])


def _show(campaigns: Sequence[Campaign], drawn: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for campaign in campaigns:
        table.add_column(campaign.trials.systems[0].name, justify="right", overflow="fold")
    for cells in zip(_HEADS, *map(_cells, campaigns), strict=True):
        table.add_row(*cells)
    drawn.print(table)
    for campaign in campaigns:
        for judged in campaign.judged:
            if judged.outcome in (MutantOutcome.SURVIVED, MutantOutcome.UNDECIDED):
                mutant = campaign.trials.mutants[judged.number]
                told = Text.assemble((str(judged.outcome), "bold"), f"  {mutant}")
                drawn.print(told, soft_wrap=True)
                drawn.print(Text(f"    {judged.note}", style="dim"), soft_wrap=True)


_HEADS: Final = ("mutants", "killed", *(f"  by {way}" for way in WAYS), *map(str, SHOWN), "score")


def _cells(campaign: Campaign) -> Iterator[str]:
    """A column of the table, as _HEADS says."""
    counts = campaign.counts
    yield f"{len(campaign.judged):,}"
    yield f"{counts[MutantOutcome.KILLED]:,}"
    yield from (f"{campaign.killed(way):,}" for way in WAYS)
    yield from (f"{counts[outcome]:,}" for outcome in SHOWN)
    yield "" if campaign.score is None else f"{campaign.score:.1%}"


def _as_json(campaign: Campaign) -> dict[str, Any]:
    counts = campaign.counts
    return {
        "systems": [system.name for system in campaign.trials.systems],
        "searches": [asdict(search) for search in campaign.trials.searches],
        "mutants": len(campaign.judged),
        "killed": counts[MutantOutcome.KILLED],
        "killed_by": {way: campaign.killed(way) for way in WAYS},
        **{str(outcome).replace(" ", "_"): counts[outcome] for outcome in SHOWN},
        "score": campaign.score,
        "ends": [_end(campaign.trials.mutants[j.number], j) for j in campaign.judged],
    }


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
