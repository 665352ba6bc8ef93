"""The options --workers and --executor of verbs that spread their tasks."""

import argparse
import os

from pdproto.check.executor import FORMS, LOCAL, maker_of
from pdproto.check.executor_tasks import ExecutorMaker
from pdproto.check.worker_pool import Workers
from pdproto.cli.options import UsageError, whole_number


def add_workers(
    parser: argparse.ArgumentParser, told: str, default: int = os.cpu_count() or 1
) -> None:
    """Add --workers, with this text, and --executor."""
    parser.add_argument("--workers", metavar="N", type=whole_number, default=default, help=told)
    add_executor(parser)


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Add --executor, which `executor` reads."""
    parser.add_argument(
        "--executor", metavar="WHERE", default=LOCAL,
        help=f"where the tasks run: {FORMS}, a callable that returns a "
             f"concurrent.futures.Executor (default: {LOCAL}, in processes of this program)",
    )  # fmt: skip


def executor(arguments: argparse.Namespace) -> ExecutorMaker | None:
    """The executor that --executor names; None for `local`. Raises UsageError."""
    try:
        return maker_of(arguments.executor)
    except ValueError as error:
        raise UsageError(f"--executor: {error}") from None


def workers(arguments: argparse.Namespace) -> Workers:
    """The workers that both options name. Raises UsageError."""
    return executor(arguments) or int(arguments.workers)
