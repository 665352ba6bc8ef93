"""Ask several checkers the same questions of a system: our engines, DuckDB, Spark and TLC.

Without SYSTEM: of every example, and of each part of the hand-over that is small. All must find the
same states and refute the same properties. Each system is printed when all have answered. Exit
status: 0 they agree, 1 they differ, 3 a checker that was asked for is not on this machine or gave
no answer, or Ctrl-C ended the comparison.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Final, TypeAlias

from lab.compare import CHECKERS, Compared, compare
from lab.reports import compared
from pdproto.check.report.progress import Reporter
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    add_element_counts,
    check_targets,
    configuration,
    standard_output,
    whole_number,
    without,
    write,
)
from pdproto.cli.systems import expected, load
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.entry import Purpose
from pdproto.spec.language.system import DEFAULT, Configuration, System

Asked: TypeAlias = tuple[System, str, Configuration]  # with the name of the configuration

AGREED, DIFFER, MISSING = 0, 1, 3
SMALL: Final = 250  # pinned states of a part, so that the slowest checker takes seconds


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `python -m lab compare`."""
    parser.add_argument("systems", metavar="SYSTEM", nargs="*",
                        help="a built-in name, module:attribute, or path/to/file.py:attribute "
                             f"(default: all examples, and parts of up to {SMALL} states)")
    add_element_counts(parser)
    parser.add_argument("--with", metavar="CHECKER", nargs="+", choices=CHECKERS, dest="checkers",
                        default=list(CHECKERS), help=f"of {', '.join(CHECKERS)} (default: all)")
    parser.add_argument("--workers", metavar="N", type=whole_number, default=1,
                        help="threads of our native engine, of DuckDB, of Spark on this machine "
                             "and of TLC (default: 1)")
    parser.add_argument("--record", metavar="FILE|-",
                        help="write the answers as a Markdown page, a row for each system")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Compare; returns the exit status."""
    arguments.faults = []
    check_targets([arguments.record])
    if _checkers(arguments) == ["native"]:
        raise UsageError("--with native: nothing is compared with it: name another checker, as in "
                         "--with portable")
    every = _asked(arguments)
    told: list[Compared] = []
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        try:
            told.extend(_answers(every, arguments, reporter))
        except KeyboardInterrupt:
            reporter.say(f"interrupted: {len(told)} of {len(every)} systems were compared")
    _print(arguments, compared.reasons(told))
    if arguments.record is not None:
        command = " ".join(["python -m lab", *without(arguments.given, ("--record",))])
        write(compared.page(told, _checkers(arguments), command), arguments.record)
    if any(one.differences for one in told):
        return DIFFER
    return MISSING if len(told) < len(every) or any(one.missing for one in told) else AGREED


def _answers(
    every: Sequence[Asked], arguments: argparse.Namespace, reporter: Reporter
) -> Iterator[Compared]:
    """The answers on each system, shown as soon as all checkers have given them."""
    width = max(len(compared.title(system.name, name)) for system, name, _ in every)
    began = monotonic()
    _print(arguments, [compared.heading(width)])
    for number, (system, name, chosen) in enumerate(every, 1):
        where = f"{number} of {len(every)}, {system.name}"
        one = compare(system, name, chosen, _checkers(arguments),
                      workers=arguments.workers,
                      announce=partial(_announce, reporter, began, where))
        reporter.clear()
        _print(arguments, compared.lines(one, width))
        yield one


def _announce(reporter: Reporter, began: float, where: str, checker: str) -> None:
    """Report the checker that is asked next. began: of the comparison, as `monotonic` gave it."""
    reporter.line(f"{where}: {checker}", monotonic() - began)


def _checkers(arguments: argparse.Namespace) -> list[str]:
    """The checkers that are asked, the native engine first."""
    return list(dict.fromkeys(("native", *arguments.checkers)))


def _print(arguments: argparse.Namespace, lines: Iterable[str]) -> None:
    """Print these lines, unless the page is what standard output is for."""
    if arguments.record == STANDARD_OUTPUT:
        return
    with standard_output() as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _asked(arguments: argparse.Namespace) -> list[Asked]:
    """The systems to ask of, each at a size with a name. Raises UsageError."""
    if arguments.systems:
        systems = map(load, arguments.systems)
        return [(system, arguments.configuration or DEFAULT, configuration(system, arguments))
                for system in systems]
    if arguments.configuration != DEFAULT or arguments.size:
        raise UsageError("--configuration and --size are of one SYSTEM: name it")
    every = []
    for entry in CATALOGUE:
        system = load(entry.name)
        sizes = [DEFAULT] if entry.purpose is Purpose.EXAMPLE else [
            size for (name, size), counts in expected().items()
            if name == entry.name and counts.states <= SMALL]
        every += [(system, size, system.configurations[size]) for size in sizes]
    return every
