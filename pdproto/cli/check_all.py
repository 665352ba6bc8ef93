"""`pdproto check` without SYSTEM: the whole hand-over, at each named size."""

import argparse
from time import monotonic

from pdproto.check import suite
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import silent
from pdproto.check.report import suite as suite_report
from pdproto.check.report.progress import Reporter
from pdproto.check.result import EXIT_STATUS, Checked, Suite, Task
from pdproto.check.shards import Merged
from pdproto.cli.limits import limits
from pdproto.cli.options import STANDARD_OUTPUT, UsageError, console, write
from pdproto.cli.recall import cache
from pdproto.cli.recording import record
from pdproto.cli.reports import GITHUB, REPORTS, targets
from pdproto.cli.sharding import keep_answers, shard
from pdproto.cli.systems import BUILT_IN, load
from pdproto.cli.workers import workers
from pdproto.spec.catalogue import HANDOFF, SYSTEMS
from pdproto.spec.language.system import DEEP, DEFAULT


def check_all(arguments: argparse.Namespace, reporter: Reporter) -> int:
    """Check every system of the hand-over, or a shard of them; returns the exit status."""
    _refuse_options_of_one_system(arguments)
    part = shard(arguments)
    began = monotonic()
    wanted = _wanted(arguments)
    if part is not None:
        wanted = tuple(task for task in wanted if part.has(task.title))
    found = suite.run(wanted, _settings(arguments), workers(arguments), reporter.show,
                      cache(arguments), whole=part is None)
    if part is not None:
        return keep_answers(arguments, found.checked, EXIT_STATUS[found.verdict])
    if arguments.record is not None:
        record(arguments.record, [(load(one.task.system), one.task.configuration, one.result)
                                  for one in found.checked], SYSTEMS)
    return _report(found, monotonic() - began, arguments)


def merge(arguments: argparse.Namespace, answers: Merged) -> int:
    """Report the answers of shards as one run; returns the exit status.

    If all are there, also search for the rows that have fired in no shard.
    """
    _refuse_options_of_one_system(arguments)
    began = monotonic()
    wanted = _wanted(arguments)
    known = {checked.task: checked for checked in answers.answers(Checked)}
    found = Suite(wanted, tuple(known[task] for task in wanted if task in known),
                  stopped=answers.lacking(task.title for task in wanted if task not in known))
    found = suite.covered(found, _settings(arguments), workers(arguments), silent,
                          cache(arguments))
    return _report(found, monotonic() - began, arguments)


def _wanted(arguments: argparse.Namespace) -> tuple[Task, ...]:
    return suite.tasks({name: BUILT_IN[name] for name in HANDOFF},
                       deep=arguments.configuration == DEEP)


def _settings(arguments: argparse.Namespace) -> CheckSettings:
    return CheckSettings(
        limits=limits(arguments, searches=arguments.workers),
        keep_going=bool(arguments.keep_going),
    )


def _report(found: Suite, seconds: float, arguments: argparse.Namespace) -> int:
    files = targets(arguments)
    if STANDARD_OUTPUT not in files.values():
        with console() as drawn:
            suite_report.draw(found, seconds, drawn)
        if arguments.format == GITHUB:
            lines = suite_report.of_github(found)
            write("".join(f"{line}\n" for line in lines), STANDARD_OUTPUT)
    for kind, target in files.items():
        write(suite_report.written(kind, found, seconds), target)
    return EXIT_STATUS[found.verdict]


def _refuse_options_of_one_system(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an option that needs SYSTEM."""
    one = {name: getattr(arguments, name)
           for name in ("size", "faults", "properties", "fairness", "coverage", "engine", "states",
                        "master")}
    one["property"] = one.pop("properties")
    one["configuration"] = arguments.configuration not in (DEFAULT, DEEP)
    switches = {name: getattr(arguments, name) for name in ("symmetry", "dead_bits")}
    one |= {f"{'' if on else 'no-'}{name}": on is not None for name, on in switches.items()}
    one |= {kind: getattr(arguments, kind) is not None
            for kind in REPORTS if kind not in suite_report.FORMATS}
    for name, given in one.items():
        if given:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} needs the name of a system, as in "
                             f"`pdproto check transfer --{option} ...`")
