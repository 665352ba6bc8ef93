"""Measure the properties: make one change to the tables at a time, and see whether one detects it.

Name systems that share tables together. A part of the hand-over includes all its variants. Of a
composed system only those rows are mutated that none of its parts has. Without SYSTEM every part
and every composed system is mutated. Rows of the environment are left out, and the answer names
them. If no property detects a mutant, a property may be missing. Exit status: 0 if no mutant
survived, 1 if one did or if the unchanged tables violate a property, 2 if there is no such system,
3 if a search reached a limit or was interrupted, or if no mutant changes a run.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from time import monotonic
from typing import Final

from pdproto.check.mutate.campaign import Campaign, verdict
from pdproto.check.mutate.edits import EditKind, Mutant
from pdproto.check.mutate.own_rows import own_mutants
from pdproto.check.mutate.processes import (
    NO_STORE,
    Names,
    NotHeldError,
    chosen,
    judged,
    known_trials,
    prepared,
)
from pdproto.check.mutate.recalled import Recalled
from pdproto.check.mutate.trials import Judged, Search, Trials
from pdproto.check.report.mutants import LEFT, as_json, draw, nothing_mutated
from pdproto.check.report.terminal import render_trace
from pdproto.check.result import EXIT_STATUS, Verdict
from pdproto.check.shards import Merged
from pdproto.check.store import Store
from pdproto.check.user_cache import MUTANTS, user_cache
from pdproto.check.worker_pool import Workers
from pdproto.cli.numbers import natural
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    check_targets,
    console,
    whole_number,
    write,
)
from pdproto.cli.recall import add_no_cache
from pdproto.cli.reports import say
from pdproto.cli.sharding import add_shard, keep_answers, merged_run, shard
from pdproto.cli.systems import as_written, families, parts_of
from pdproto.cli.workers import add_workers, workers

TOLD_AFTER: Final = 10.0  # seconds between two lines of progress


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto mutate`."""
    parser.add_argument(
        "systems", metavar="SYSTEM", nargs="*",
        help="built-in names, module:attribute, or path/to/file.py:attribute; several share tables "
        "(default: the whole hand-over)",
    )
    parser.add_argument(
        "--row", metavar="ROW", action="append", default=[],
        help="mutate this row alone; may be given several times (default: every row)"
    )
    parser.add_argument(
        "--change", action="append", default=[], choices=[kind.value for kind in EditKind],
        metavar="KIND", help="make changes of this kind alone, such as 'drop conjunct'; may be "
        "given several times (default: every kind)"
    )
    parser.add_argument(
        "--sample", metavar="N", type=whole_number, help="try N mutants, chosen at random"
    )
    parser.add_argument(
        "--seed", metavar="S", type=natural, default=0, help="seed of the sample (default: 0)"
    )
    add_workers(
        parser, "processes (default: one for each core); the result is the same for any number")
    parser.add_argument("--json", metavar="FILE|-", help="write the result of every mutant as JSON")
    add_shard(parser)
    add_no_cache(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Mutate systems; returns the exit status."""
    if arguments.merge is not None:
        return merged_run(arguments, merge)
    check_targets([arguments.json])
    part = shard(arguments)
    progress = _ProgressLines(quiet=arguments.quiet)
    together = families(arguments.systems)
    store = Store(None if arguments.no_cache else user_cache(MUTANTS))
    spread = workers(arguments)
    try:
        every = prepared(together, as_written, spread, progress.say_sometimes, store)
    except NotHeldError as found:
        if arguments.json != STANDARD_OUTPUT:
            with console() as drawn:
                for finding in found.findings():
                    render_trace(finding, drawn)
        return _nothing_mutated(
            Verdict.UNKNOWN if found.is_undecided else Verdict.VIOLATED, str(found), arguments)
    except KeyboardInterrupt:
        return _nothing_mutated(
            Verdict.UNKNOWN, "interrupted before anything was mutated", arguments)
    campaigns = []
    may_be_tried = _may_be_tried(together, every)
    for names, trials, may, numbers in zip(
            together, every, may_be_tried, _picked(may_be_tried, arguments), strict=True):
        mine = [n for n in numbers if part is None or part.has(_task(names, n))]
        ends = (() if progress.interrupted
                else _judged(names, trials, mine, spread, progress, store))
        stopped = "" if len(ends) == len(mine) else (
            f"interrupted: {len(ends):,} of {len(mine):,} mutants were tried")
        campaigns.append(Campaign(names, trials, ends, _rows_of_parts(trials, may), stopped))
    if part is not None:
        answers = [_Tried(one.names, one.trials.searches, one.judged) for one in campaigns]
        some = [one for one in campaigns if one.verdict is not None]  # a part may have no mutant
        return keep_answers(arguments, answers, EXIT_STATUS[verdict(some)] if some else 0,
                            tables=_tables(every))
    return _report(campaigns, arguments)


def _nothing_mutated(told: Verdict, why: str, arguments: argparse.Namespace) -> int:
    """Report that the unchanged systems have this verdict; returns the exit status."""
    say(why)
    if arguments.json:
        write(json.dumps([nothing_mutated(told, why)], indent=2), arguments.json)
    return EXIT_STATUS[told]


@dataclass(frozen=True, slots=True)
class _Tried:
    """The answer of a shard about systems that share tables. names: see Campaign."""

    names: Names
    searches: tuple[Search, ...]
    judged: tuple[Judged, ...]


def merge(arguments: argparse.Namespace, answers: Merged) -> int:
    """Report the answers of shards as one run; returns the exit status."""
    families_tried: dict[Names, list[_Tried]] = {}
    for one in answers.answers(_Tried):
        families_tried.setdefault(one.names, []).append(one)
    every = [known_trials(as_written, names, tried[0].searches, None)
             for names, tried in families_tried.items()]
    answers.require_tables(_tables(every))
    campaigns = []
    may_be_tried = _may_be_tried(tuple(families_tried), every)
    for (names, tried), trials, may, numbers in zip(
            families_tried.items(), every, may_be_tried, _picked(may_be_tried, arguments),
            strict=True):
        ends = {end.number: end for one in tried for end in one.judged}
        lacking = [_task(names, n) for n in numbers if n not in ends]
        stopped = "" if not lacking else (
            f"{answers.lacking(lacking)}; {len(lacking):,} mutants were not tried")
        campaigns.append(Campaign(
            names, trials, tuple(end for _, end in sorted(ends.items())),
            _rows_of_parts(trials, may), stopped))
    return _report(campaigns, arguments)


def _may_be_tried(
    together: Sequence[Names], every: Sequence[Trials]
) -> list[Sequence[Mutant]]:
    return [own_mutants(trials.mutants, trials.systems, parts_of(names))
            for names, trials in zip(together, every, strict=True)]


def _rows_of_parts(trials: Trials, may: Sequence[Mutant]) -> int:
    """The number of rows that are mutated in the parts, and not here."""
    every, here = ({(m.row.name, m.place) for m in mutants} for mutants in (trials.mutants, may))
    return len(every - here)


def _picked(
    every: Sequence[Sequence[Mutant]], arguments: argparse.Namespace
) -> list[list[int]]:
    known = {mutant.row.name for mutants in every for mutant in mutants}
    for row in arguments.row:
        if row not in known:
            raise UsageError(f"--row {row}: no table that is mutated has such a row")
    return chosen(every, arguments.sample, arguments.seed, arguments.row, arguments.change)


def _task(names: Names, number: int) -> str:
    return f"{' '.join(names)} {number}"


def _tables(every: Sequence[Trials]) -> str:
    """A digest of all systems, and of the searches in them."""
    found = [str(Recalled(NO_STORE, trials).unchanged) for trials in every]
    return blake2b(" ".join(found).encode(), digest_size=16).hexdigest()


def _report(campaigns: Sequence[Campaign], arguments: argparse.Namespace) -> int:
    for campaign in campaigns:
        if campaign.stopped:
            say(f"incomplete: {campaign.stopped}")
    if arguments.json != STANDARD_OUTPUT:
        with console() as drawn:
            draw(campaigns, drawn)
    if arguments.json:
        write(json.dumps([as_json(campaign) for campaign in campaigns], indent=2), arguments.json)
    if all(campaign.verdict is None for campaign in campaigns):
        tried = sum(len(campaign.judged) for campaign in campaigns)
        say(f"unknown: nothing was tested, for no mutant (of {tried:,}) changes a run")
    return EXIT_STATUS[verdict(campaigns)]


class _ProgressLines:
    """Lines on stderr: the progress every TOLD_AFTER seconds, and each survivor at once."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet: Final = quiet
        self._next = monotonic() + TOLD_AFTER
        self.interrupted = False

    def say(self, line: str) -> None:
        print(f"pdproto: {line}", file=sys.stderr, flush=True)  # noqa: T201 - beside the result

    def say_sometimes(self, line: str) -> None:
        if not self.quiet and monotonic() >= self._next:
            self._next = monotonic() + TOLD_AFTER
            self.say(line)


def _judged(
    names: Names, trials: Trials, picked: Sequence[int], spread: Workers,
    progress: _ProgressLines, store: Store,
) -> tuple[Judged, ...]:
    """The results of the mutants with these numbers, in order; after Ctrl-C those so far."""
    done: list[Judged] = []
    try:
        with closing(judged(names, trials, picked, as_written, spread, store)) as ends:
            for end in ends:
                done.append(end)
                if end.outcome in LEFT and not progress.quiet:
                    progress.say(f"{end.outcome}: {trials.mutants[end.number]}")
                progress.say_sometimes(f"{len(done):,} of {len(picked):,} mutants")
    except KeyboardInterrupt:
        progress.interrupted = True
    return tuple(sorted(done, key=lambda end: end.number))
