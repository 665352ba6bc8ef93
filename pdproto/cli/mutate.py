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
from collections.abc import Sequence
from contextlib import closing
from time import monotonic
from typing import Final

from pdproto.check.mutate.campaign import Campaign
from pdproto.check.mutate.processes import Names, NotHeldError, chosen, judged, prepared
from pdproto.check.mutate.trials import Judged, MutantOutcome, Trials
from pdproto.check.report.mutants import LEFT, as_json, draw
from pdproto.check.report.terminal import render_trace
from pdproto.cli.options import STANDARD_OUTPUT, check_targets, console, whole_number, write
from pdproto.cli.systems import families, subject

TOLD_AFTER: Final = 10.0  # seconds between two lines of progress


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
    together = families(arguments.systems)
    try:
        every = prepared(together, subject, arguments.workers, teller.now_and_then)
    except NotHeldError as found:
        teller.say(str(found))
        if arguments.json != STANDARD_OUTPUT:
            with console() as drawn:
                for finding in found.findings():
                    render_trace(finding, drawn)
        return 1
    except KeyboardInterrupt:
        teller.say("interrupted before anything was mutated")
        return 3
    picked = chosen(every, arguments.sample, arguments.seed)
    campaigns = []
    for names, trials, numbers in zip(together, every, picked, strict=True):
        ends = _judged(names, trials, numbers, arguments.workers, teller)
        campaigns.append(Campaign(names, trials, ends))
        if teller.interrupted:
            break
    if arguments.json != STANDARD_OUTPUT:
        with console() as drawn:
            draw(campaigns, drawn)
    if arguments.json:
        write(json.dumps([as_json(campaign) for campaign in campaigns], indent=2), arguments.json)
    return _status(campaigns, interrupted=teller.interrupted)


def _status(campaigns: Sequence[Campaign], *, interrupted: bool) -> int:
    counts = sum((campaign.counts for campaign in campaigns), Counter[MutantOutcome]())
    if counts[MutantOutcome.SURVIVED]:
        return 1
    return 3 if interrupted or counts[MutantOutcome.UNDECIDED] else 0


class _Teller:
    """Lines on stderr: how far it is, now and then, and each survivor as it is found."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet: Final = quiet
        self._next = monotonic() + TOLD_AFTER
        self.interrupted = False

    def say(self, line: str) -> None:
        print(f"pdproto: {line}", file=sys.stderr, flush=True)  # noqa: T201 - beside the result

    def now_and_then(self, line: str) -> None:
        if not self.quiet and monotonic() >= self._next:
            self._next = monotonic() + TOLD_AFTER
            self.say(line)


def _judged(
    names: Names, trials: Trials, picked: Sequence[int], workers: int, teller: _Teller
) -> tuple[Judged, ...]:
    """The ends of the mutants with these numbers, in order; of as many as Ctrl-C allows."""
    done: list[Judged] = []
    try:
        with closing(judged(names, trials, picked, subject, workers)) as ends:
            for end in ends:
                done.append(end)
                if end.outcome in LEFT and not teller.quiet:
                    teller.say(f"{end.outcome}: {trials.mutants[end.number]}")
                teller.now_and_then(f"{len(done):,} of {len(picked):,} mutants")
    except KeyboardInterrupt:
        teller.interrupted = True
        teller.say(f"interrupted: {len(done):,} of {len(picked):,} mutants were tried")
    return tuple(sorted(done, key=lambda end: end.number))
