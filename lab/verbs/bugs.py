"""Find every historical defect with the explorer, by its shortest trace.

A defect is an edit of the tables, or a table of another project's design. With ID, the trace of
that defect is drawn. Exit status: 0 if each defect violates the
property named in the catalogue, 1 if one does not, 2 if there is no such ID, 3 if the run was
interrupted, or if the search of a defect ended at a limit or lost its workers.
"""

import argparse
import json
import sys
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
    result: CheckResult


def run(arguments: argparse.Namespace) -> int:
    """Try the defects; returns the exit status."""
    if arguments.merge is not None:
        return merged_run(arguments, merge)
    check_targets([arguments.json])
    chosen, part = _chosen(arguments), shard(arguments)
    if part is not None:
        chosen = tuple(bug for bug in chosen if part.has(bug.id))
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        maker = executor(arguments)
        spread = None if maker is None else SpreadTrials(maker, find)
        trials = try_all(chosen, cache(arguments), reporter.show, spread)
        if trials.undecided:
            reporter.say(f"incomplete: {len(trials.decided)} of {len(chosen)} defects were tried")
    if part is not None:
        answers = [_Tried(one.defect.id, one.result) for one in trials.decided]
        return keep_answers(arguments, answers, trials.exit_status)
    return _report(trials, arguments)


def merge(arguments: argparse.Namespace, answers: Merged) -> int:
    """Report the answers of shards as one run; returns the exit status."""
    chosen = _chosen(arguments)
    known = {one.id: one.result for one in answers.answers(_Tried)}
    undecided = tuple(bug.id for bug in chosen if bug.id not in known)
    lacking = answers.lacking(undecided)
    if lacking:
        say(f"incomplete: {lacking}; {len(known)} of {len(chosen)} defects were tried")
    decided = tuple(Trial(bug, known[bug.id]) for bug in chosen if bug.id in known)
    return _report(DefectTrials(decided, undecided), arguments)


def _chosen(arguments: argparse.Namespace) -> tuple[Bug, ...]:
    return EVERY if arguments.id is None else (find(arguments.id),)


def _report(trials: DefectTrials, arguments: argparse.Namespace) -> int:
    drawn = arguments.id is not None
    if arguments.json != STANDARD_OUTPUT:
        with console() as page:
            if not drawn:
                report.show(trials, page)
            for trial in trials.decided if drawn else ():
                report.draw(trial, page)
    if arguments.json:
        values = [report.as_json(trial, traced=drawn) for trial in trials.decided]
        values += [{"id": name, "refuted": None} for name in trials.undecided]
        write(json.dumps(values, indent=2), arguments.json)
    return trials.exit_status


def find(name: str) -> Bug:
    """The defect of that name; workers call it, too. Raises UsageError if there is none."""
    for bug in EVERY:
        if bug.id == name:
            return bug
    hint = suggestion(name, [bug.id for bug in EVERY]) or "; `python -m lab bugs` lists them"
    raise UsageError(f"there is no defect {name!r}{hint}")
