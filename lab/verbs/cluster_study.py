"""A study of simulated nodes: the gain of optimistic prefill, and the cost of a release at once."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from random import Random
from time import monotonic
from typing import Final, TypeVar

from lab.sim import study, study_release
from lab.sim.chart import chart
from lab.sim.study import Pair
from pdproto.check.report.progress import Reporter
from pdproto.cli.options import STANDARD_OUTPUT, UsageError, standard_output, write
from pdproto.cli.workers import workers

AnyPair = TypeVar("AnyPair", bound=Pair)
OPTIMISTIC: Final = "optimistic"
RELEASE: Final = "release-at-once"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a study."""
    parser.add_argument("--study", choices=(OPTIMISTIC, RELEASE),
                        help="instead of runs with faults: the time to the first token with "
                             f"optimistic prefill and without, of {study.REQUESTS:,} requests for "
                             "each setting, as a table in Markdown; or also with a pass that is "
                             "released as soon as it has ended without its bootstrap")
    parser.add_argument("--plot", metavar="FILE", help="draw the study of optimistic prefill as "
                                                       "SVG")


def run(arguments: argparse.Namespace) -> int:
    """Run the study, and print it; returns the exit status."""
    asked = arguments.seed or 0, Random, study.REQUESTS, workers(arguments)
    if arguments.study == RELEASE:
        if arguments.plot is not None:
            raise UsageError(f"--plot draws --study {OPTIMISTIC} only")
        releases = list(_counted(study_release.releases(*asked), study_release.VARIED,
                                 arguments.quiet))
        _print(arguments.json, study_release.as_markdown(releases), releases)
        return 0
    pairs = list(_counted(study.pairs(*asked), tuple(study.VARIED), arguments.quiet))
    _print(arguments.json, study.as_markdown(pairs), pairs)
    if arguments.plot is not None:
        write(chart(pairs) + "\n", arguments.plot)
    return 0


def _counted(
    results: Iterator[AnyPair], varied: tuple[str, ...], quiet: bool
) -> Iterator[AnyPair]:
    """The results, each with a line of progress when it comes."""
    count = sum(len(study.VARIED[name]) for name in varied)
    began = monotonic()
    with Reporter(sys.stderr, quiet=quiet) as reporter:
        for number, result in enumerate(results, 1):
            reporter.line(f"{number} of {count} settings", monotonic() - began)
            yield result


def _print(file: str | None, table: str, results: Sequence[Pair]) -> None:
    if file != STANDARD_OUTPUT:
        with standard_output() as stream:
            stream.write(table)
    if file is not None:
        write(json.dumps([asdict(result) for result in results], indent=2), file)
