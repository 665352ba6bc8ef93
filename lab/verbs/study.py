"""Measure the benefit or cost of a feature between real processes.

`optimistic`: the time to the first token with optimistic prefill and without, over arrival skew,
allocation delay and handshake latency, beside the simulator's numbers for the same requests. Each
server has two processes, with real sockets and forward passes that take time. Each setting is run
both ways at the same time, on the same requests. The study takes about five minutes, and at most
ten on a busy machine. `force-query`: the time to the first transfer if decode asks the registry for
every room, and if decode computes the rank by rule.

The result is a table in Markdown. `late` is the greatest delay, in milliseconds, of an action that
a process had to take at a set time. If it is not far below the measured times, other work of the
machine has disturbed the row. Exit status: 0 measured, 2 not.
"""

import argparse
import json
import sys
from dataclasses import replace
from time import monotonic
from typing import Any, Final

from lab.sim.study import Arm
from lab.study import plan, query
from lab.study.chart import chart
from lab.study.lanes import LATE_S, measure
from lab.study.plan import Cell, planned, simulated
from lab.study.report import StudyError, StudyRow, as_json, as_markdown, row
from pdproto.check.report.progress import Reporter
from pdproto.cli.numbers import natural
from pdproto.cli.options import (
    STANDARD_OUTPUT,
    UsageError,
    check_targets,
    standard_output,
    whole_number,
    write,
)
from pdproto.drill.children import ChildLostError, ended_in_order

STUDIES: Final = ("optimistic", "force-query")
REQUESTS: Final = 600
AT_ONCE: Final = 3


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `python -m lab study`."""
    parser.add_argument("study", choices=STUDIES, help="the feature to measure")
    parser.add_argument("--requests", type=whole_number, default=REQUESTS, metavar="N",
                        help=f"requests in each setting (default: {REQUESTS})")
    parser.add_argument("--at-once", type=whole_number, default=AT_ONCE, metavar="N",
                        help="settings of `optimistic` measured at the same time, each in four "
                             "processes; fewer take longer, but disturb each other less "
                             f"(default: {AT_ONCE})")
    parser.add_argument("--again", type=_count, default=1, metavar="N",
                        help="how often to repeat a setting in which a process was late by more "
                             f"than {LATE_S * 1e3:g} ms; the run with the least delay counts "
                             "(default: 1)")
    parser.add_argument("--only", metavar="NAME",
                        help="for `optimistic`: vary only this, by its name in the table, such as "
                             "`arrival skew`")
    parser.add_argument("--seed", type=natural, default=0, metavar="S",
                        help="seed of the requests and their delays (default: 0)")
    parser.add_argument("--plot", metavar="FILE", help="for `optimistic`: draw both halves as SVG")
    parser.add_argument("--json", metavar="FILE|-", help="write the numbers")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(arguments: argparse.Namespace) -> int:
    """Run the study, and print it; returns the exit status."""
    check_targets([arguments.json, arguments.plot])
    if arguments.study == "force-query" and (arguments.only or arguments.plot):
        raise UsageError("--only and --plot are for the study `optimistic`: leave them out")
    study = _optimistic if arguments.study == "optimistic" else _force_query
    try:
        with ended_in_order(), Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
            table, numbers = study(arguments, reporter)
    except (ChildLostError, TimeoutError, StudyError) as error:
        raise UsageError(str(error)) from error
    if arguments.json != STANDARD_OUTPUT:
        with standard_output() as stream:
            stream.write(table)
    if arguments.json is not None:
        write(json.dumps(numbers, indent=2), arguments.json)
    return 0


def _optimistic(arguments: argparse.Namespace, reporter: Reporter) -> tuple[str, Any]:
    rows = _rows(_cells(arguments.only), arguments, reporter)
    if arguments.plot is not None:
        write(chart(rows) + "\n", arguments.plot)
    return as_markdown(rows), as_json(rows, arguments.seed, arguments.requests)


def _force_query(arguments: argparse.Namespace, reporter: Reporter) -> tuple[str, Any]:
    began, count = monotonic(), len(query.SETTINGS)
    rows = query.rows(
        arguments.seed, arguments.requests, arguments.again,
        lambda done: reporter.line(f"{done} of {count} settings measured", monotonic() - began))
    return (query.as_markdown(rows),
            query.as_json(rows, arguments.seed, arguments.requests))


def _count(text: str) -> int:
    return 0 if text == "0" else whole_number(text)


def _cells(only: str | None) -> tuple[Cell, ...]:
    found = tuple(cell for cell in plan.CELLS if only in (None, cell.varied))
    if not found:
        names = ", ".join(dict.fromkeys(cell.varied for cell in plan.CELLS))
        raise UsageError(f"--only {only}: the study varies nothing of this name; choose one of: "
                         f"{names}")
    return found


def _rows(
    cells: tuple[Cell, ...], arguments: argparse.Namespace, reporter: Reporter
) -> list[StudyRow]:
    """The rows of the table. A setting that occurs in several rows is measured once."""
    seed, count, began = arguments.seed, arguments.requests, monotonic()
    different = list(dict.fromkeys(replace(cell, varied="", value="") for cell in cells))

    def show(done: int) -> None:
        reporter.line(f"{done} of {len(different)} settings measured", monotonic() - began)

    found = measure(different, seed, count, arguments.at_once, show, again=arguments.again)
    measured = dict(zip(different, found, strict=True))
    rows = []
    known: dict[Cell, tuple[Arm, Arm]] = {}
    for cell in cells:
        key = replace(cell, varied="", value="")
        known[key] = known.get(key) or simulated(cell, planned(cell.setting, seed, count), seed)
        rows.append(row(cell, known[key], measured[key], count))
        reporter.line(f"{len(rows)} of {len(cells)} settings simulated", monotonic() - began)
    return rows
