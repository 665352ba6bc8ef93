"""Explore every state of a system and check its properties. Counterexamples are the shortest ones.

Without SYSTEM, all systems of the hand-over are checked at each of their named sizes, with loss and
crashes; with --configuration deep at a size more, which takes many minutes. Then every row of their
tables must also fire in some state.

It is a violation too if a state is reached in which a message or a completion has come, and no row
answers it. (`pdproto lint` tells of each state of a machine without a row, reachable or not.)
"""

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from pdproto.check import native
from pdproto.check.answers import with_answers
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import INTERRUPTED
from pdproto.check.prove.assurance import cache_folder, with_assurance
from pdproto.check.report.progress import Reporter
from pdproto.check.result import EXIT_STATUS, Verdict
from pdproto.cli.engines import add_engine, checked, engine
from pdproto.cli.limits import add_limits, limits
from pdproto.cli.options import (
    UsageError,
    add_sizes,
    add_system,
    check_targets,
    chosen_properties,
    configuration,
)
from pdproto.cli.recall import add_no_cache, cache
from pdproto.cli.recording import record
from pdproto.cli.reports import add_reports, report, say, targets
from pdproto.cli.sharding import add_shard, merged_run
from pdproto.cli.systems import load
from pdproto.cli.watch import watched
from pdproto.cli.workers import add_workers, executor
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.system import System

if TYPE_CHECKING:  # the check of one system does not import shards and workers: it answers at once
    from pdproto.check.shards import Merged


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto check`."""
    add_system(parser, left_out="the whole hand-over")
    add_sizes(parser)
    parser.add_argument(
        "--property", metavar="NAME", action="append", nargs="+", default=[], dest="properties",
        help="look at these properties only",
    )
    for flag, what in (
        ("symmetry", "merge states that differ only in the names of interchangeable elements"),
        ("dead-bits", "clear bits that no row will read before they are written again"),
    ):
        parser.add_argument(f"--{flag}", action=argparse.BooleanOptionalAction, help=what)
    parser.add_argument(
        "--fairness", choices=[f.option for f in Fairness],
        action="append", default=[], help="assume this of the environment (leads_to only)",
    )
    add_engine(parser)
    add_workers(
        parser, "threads (default: one for each core); the result is the same for any number")
    add_shard(parser)
    add_no_cache(parser)
    parser.add_argument(
        "--keep-going", action=argparse.BooleanOptionalAction,
        help="continue after a violation (default: only if the system is an edit of another)",
    )
    add_limits(parser)
    add_reports(parser)
    parser.add_argument("--coverage", action="store_true",
                        help="print in how many states each row can fire")
    parser.add_argument("--record", metavar="FILE",
                        help="write the counts of each configuration that is explored into this "
                             "file, beside those that it has: `git diff` then shows what changed")
    parser.add_argument("--watch", action="store_true",
                        help="check again whenever a file of the system is saved, until Ctrl-C")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Check one system, or all of the hand-over; returns the exit status."""
    if arguments.merge is not None:
        return merged_run(arguments, merge)
    check_targets([*targets(arguments).values(), arguments.record])
    if arguments.record is not None:
        _require_named_size(arguments)
    if arguments.watch and arguments.run_once is not None:
        return watched(arguments.run_once, arguments.system)
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        if not native.available():
            reporter.say("no C compiler was found at installation: the portable engine is slow")
        if arguments.system is None:
            from pdproto.cli.check_all import check_all  # noqa: PLC0415 - see above

            return check_all(arguments, reporter)
        if executor(arguments) is not None:
            raise UsageError("--executor spreads the systems of the hand-over over workers: one "
                             "SYSTEM is explored in this process")
        if arguments.shard is not None:
            raise UsageError("--shard divides the systems of the hand-over: the search of one "
                             "SYSTEM is not divided")
        return _check_one(arguments, reporter)


def merge(arguments: argparse.Namespace, answers: "Merged") -> int:
    """Report the answers of shards as one run; returns the exit status."""
    from pdproto.cli import check_all  # noqa: PLC0415 - see above

    return check_all.merge(arguments, answers)


def _check_one(arguments: argparse.Namespace, reporter: Reporter) -> int:
    system = load(arguments.system)
    chosen = configuration(system, arguments)
    for field in ("symmetry", "dead_bits"):
        if getattr(arguments, field) is not None:
            chosen = replace(chosen, **{field: getattr(arguments, field)})
    settings = _settings(system, arguments, reporter)
    result = with_assurance(
        cache_folder(), system, checked(system, chosen, settings, arguments))
    if not arguments.properties and result.stopped != INTERRUPTED:
        result = with_answers(system, chosen, settings, result, cache(arguments).check)
    report(result, targets(arguments), arguments.format, rows=arguments.coverage)
    if arguments.record is not None:
        record(arguments.record, [(system, arguments.configuration, result)])
    if result.stopped == INTERRUPTED and result.verdict is not Verdict.VIOLATED:
        say("interrupted: the answer is incomplete")
    return EXIT_STATUS[result.verdict]


def _require_named_size(arguments: argparse.Namespace) -> None:
    """Raise UsageError if counts would not be those of a configuration as it is declared."""
    changed = {name: getattr(arguments, name) for name in (
        "size", "faults", "properties", "fairness", "symmetry", "dead_bits", "shard", "engine")}
    for name, given in changed.items():
        if given not in (None, []):
            option = {"properties": "property"}.get(name, name).replace("_", "-")
            raise UsageError(f"--record writes counts of a named configuration, with every "
                             f"property: leave out --{option}")


def _settings(system: System, arguments: argparse.Namespace, reporter: Reporter) -> CheckSettings:
    return CheckSettings(
        properties=chosen_properties(system, arguments.properties),
        limits=limits(arguments),
        workers=arguments.workers,
        keep_going=_keeps_going(system, arguments),
        fairness=tuple(f for f in Fairness if f.option in arguments.fairness),
        monitor=reporter.show,
        engine=engine(arguments),
    )


def _keeps_going(system: System, arguments: argparse.Namespace) -> bool:
    """Whether to continue after a violation.

    In an edited system the first violation is often one of bookkeeping. All violations together
    show the effect of the edit.
    """
    asked: bool | None = arguments.keep_going
    return system.base is not None if asked is None else asked
