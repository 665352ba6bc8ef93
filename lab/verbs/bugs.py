"""Find every historical defect with the explorer, by its shortest trace.

A defect is an edit of the tables, or a table of another project's design. With ID, the trace of
that defect is drawn, in every system that has it. Exit status: 0 if each defect violates the
property named in the catalogue, 1 if one does not, 2 if there is no such ID, 3 if the run was
interrupted, or if a defect has lost its workers.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from lab.defect_trials import SpreadTrials, try_all
from lab.defects import DefectTrials, Trial
from lab.designs import EVERY
from lab.reports import defects as report
from pdproto.check.report.progress import Reporter
from pdproto.check.result import CheckResult
from pdproto.check.shards import Merged
from pdproto.cli.options import STANDARD_OUTPUT, UsageError, check_targets, console, write
from pdproto.cli.recall import add_no_cache, cache
from pdproto.cli.reports import say
from pdproto.cli.sharding import add_shard, keep_answers, merged_run, shard
from pdproto.cli.workers import add_executor, executor
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.language.kinds import suggestion


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `python -m lab bugs`."""
    parser.add_argument("id", metavar="ID", nargs="?", help="draw the trace of this defect")
    parser.add_argument("--json", metavar="FILE|-", help="write the results as JSON")
    add_executor(parser)
    add_shard(parser)
    add_no_cache(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


@dataclass(frozen=True, slots=True)
class _Tried:
    """The answer of a shard about one defect."""

    id: str
    system: str
    result: CheckResult


def run(arguments: argparse.Namespace) -> int:
    """Try the defects; returns the exit status."""
    if arguments.merge is not None:
        return merged_run(arguments, merge)
    check_targets([arguments.json])
    chosen, part = _chosen(arguments), shard(arguments)
    if part is not None:
        chosen = tuple(bug for bug in chosen if part.has(_task(bug)))
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        maker = executor(arguments)
        spread = None if maker is None else SpreadTrials(maker, find)
        trials = try_all(chosen, cache(arguments), reporter.show, spread)
        if trials.interrupted:
            reporter.say(f"incomplete: {len(trials.decided)} of {len(chosen)} defects were tried")
    if part is not None:
        answers = [_Tried(one.defect.id, one.defect.system.name, one.result)
                   for one in trials.decided]
        return keep_answers(arguments, answers, trials.exit_status)
    return _report(trials, arguments)


def merge(arguments: argparse.Namespace, answers: Merged) -> int:
    """Report the answers of shards as one run; returns the exit status."""
    chosen = _chosen(arguments)
    known = {(one.id, one.system): one.result for one in answers.answers(_Tried)}
    named = {(bug.id, bug.system.name): bug for bug in chosen}
    lacking = answers.lacking(_task(bug) for name, bug in named.items() if name not in known)
    if lacking:
        say(f"incomplete: {lacking}; {len(known)} of {len(chosen)} defects were tried")
    decided = tuple(Trial(bug, known[name]) for name, bug in named.items() if name in known)
    return _report(DefectTrials(decided, interrupted=bool(lacking)), arguments)


def _chosen(arguments: argparse.Namespace) -> tuple[Bug, ...]:
    return EVERY if arguments.id is None else _named(arguments.id, EVERY)


def _task(bug: Bug) -> str:
    return f"{bug.id} {bug.system.name}"


def _report(trials: DefectTrials, arguments: argparse.Namespace) -> int:
    drawn = arguments.id is not None
    if arguments.json != STANDARD_OUTPUT:
        with console() as page:
            if not drawn:
                report.show(trials.decided, page)
            for trial in trials.decided if drawn else ():
                report.draw(trial, page)
    if arguments.json:
        values = [report.as_json(trial, traced=drawn) for trial in trials.decided]
        write(json.dumps(values, indent=2), arguments.json)
    return trials.exit_status


def find(name: str, system: str) -> Bug:
    """The defect of that name in the system of that name. Workers call it."""
    return next(bug for bug in EVERY if (bug.id, bug.system.name) == (name, system))


def _named(name: str, bugs: Sequence[Bug]) -> tuple[Bug, ...]:
    """The defect of that name, in each system that has it. Raises UsageError if none does."""
    named = tuple(bug for bug in bugs if bug.id == name)
    if named:
        return named
    hint = suggestion(name, [bug.id for bug in bugs]) or "; `python -m lab bugs` lists them"
    raise UsageError(f"there is no defect {name!r}{hint}")
