"""Fuzz the processes of a system: Hypothesis lets events happen in any order the tables allow.

The runtime runs each machine by its table, and each step is compared with the tables. Rows that
seldom can fire are preferred, and half of the runs begin where one of them can. A failing run is
shortened, drawn, and printed with the command that replays it. It is a search for mistakes, and
proves nothing. Exit status: 0 no violation was seen, 1 one was, 3 no step was
taken, or no run judges the properties of --property.
"""

import argparse
import shlex
from typing import Final

from hypothesis import Verbosity, settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.errors import DidNotReproduce, HypothesisException

from pdproto.check.user_cache import HYPOTHESIS, user_cache
from pdproto.cli.numbers import natural
from pdproto.cli.options import (
    UsageError,
    add_sizes,
    add_system,
    check_targets,
    chosen_properties,
    configuration,
    whole_number,
)
from pdproto.cli.sampled import (
    Sampled,
    add_outputs,
    report,
    require_processes,
    runnable,
    subject_words,
)
from pdproto.cli.systems import load
from pdproto.testing.machine import RUN, Fuzzer
from pdproto.testing.property_checker import ViolationError

RUNS: Final = 100
# The seed alone decides: no run is taken from a database.
SILENT: Final = settings(RUN, database=None, derandomize=False, verbosity=Verbosity.quiet)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto fuzz`."""
    add_system(parser)
    add_sizes(parser)
    parser.add_argument("--property", metavar="NAME", action="append", nargs="+", default=[],
                        dest="properties", help="look at these properties only")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--seed", metavar="N", type=natural, default=0,
                     help="runs of another seed are others (default: 0)")
    how.add_argument("--replay", metavar="BLOB", help="run a failing run again, as printed with it")
    parser.add_argument("--runs", metavar="N", type=whole_number, default=RUNS,
                        help=f"how many runs (default: {RUNS})")
    parser.add_argument("--steps", metavar="N", type=whole_number,
                        default=RUN.stateful_step_count,
                        help="the most choices of a run, each of up to four rows (default: "
                             f"{RUN.stateful_step_count})")
    add_outputs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fuzz and report; returns the exit status."""
    check_targets([arguments.json, arguments.html])
    system = load(arguments.system)
    chosen = configuration(system, arguments)
    require_processes(system)
    wanted = chosen_properties(system, arguments.properties)
    with runnable(system):
        fuzzer = Fuzzer(system, chosen, properties=frozenset(wanted))
    finding, replay = None, ""
    set_hypothesis_home_dir(user_cache(HYPOTHESIS))
    try:
        if arguments.replay is not None:
            _replay(fuzzer, arguments.replay)
        else:
            fuzzer.run(settings(SILENT, max_examples=arguments.runs,
                                stateful_step_count=arguments.steps), seed=arguments.seed)
    except ViolationError as error:
        finding = error.finding
        replay = _command(arguments, error.blob or arguments.replay)
    finally:
        set_hypothesis_home_dir(None)
    counts = fuzzer.report()
    return report(Sampled(system, chosen, counts.runs, counts.steps, counts.fired,
                          frozenset(fuzzer.assumed), wanted, finding=finding, replay=replay),
                  arguments.json, arguments.html)


def _replay(fuzzer: Fuzzer, blob: str) -> None:
    try:
        fuzzer.replay(blob, SILENT)
    except (DidNotReproduce, HypothesisException) as error:
        raise UsageError(f"--replay {blob[:20]}: no run of this system at these sizes; the tables, "
                         f"pdproto or Hypothesis have changed since it was printed") from error


def _command(arguments: argparse.Namespace, blob: str) -> str:
    """The command that runs the failing run again."""
    words = subject_words("fuzz", arguments)
    wanted = [name for group in arguments.properties for name in group]
    return shlex.join([*words, *(["--property", *wanted] if wanted else []), "--replay", blob])
