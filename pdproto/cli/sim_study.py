"""`pdproto sim --study optimistic`: the benefit of optimistic prefill, as a table and a picture."""

import argparse
import json
import sys
from dataclasses import asdict
from random import Random
from time import monotonic
from typing import Final

from pdproto.check.report.progress import Reporter
from pdproto.cli.options import STANDARD_OUTPUT, standard_output, write
from pdproto.sim import study
from pdproto.sim.chart import chart
from pdproto.sim.study import Pair, as_markdown, pairs

STUDIES: Final = ("optimistic",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a study."""
    parser.add_argument("--study", choices=STUDIES,
                        help="instead of runs with faults: the time to the first token with "
                             f"optimistic prefill and without, of {study.REQUESTS:,} requests for "
                             "each setting, as a table in Markdown")
    parser.add_argument("--plot", metavar="FILE", help="draw the study as SVG")


def run(arguments: argparse.Namespace) -> int:
    """Run the study, and print it; returns the exit status."""
    count = sum(map(len, study.VARIED.values()))
    found: list[Pair] = []
    began = monotonic()
    with Reporter(sys.stderr, quiet=arguments.quiet) as reporter:
        for pair in pairs(arguments.seed or 0, Random, study.REQUESTS):
            found.append(pair)
            reporter.line(f"{len(found)} of {count} settings", monotonic() - began)
    if arguments.json != STANDARD_OUTPUT:
        with standard_output() as stream:
            stream.write(as_markdown(found))
    if arguments.json is not None:
        write(json.dumps([asdict(pair) for pair in found], indent=2), arguments.json)
    if arguments.plot is not None:
        write(chart(found) + "\n", arguments.plot)
    return 0
