"""The options --workers and --executor of verbs that spread their tasks."""

import argparse
import os
from typing import TYPE_CHECKING

from pdproto.check.executor_forms import FORMS, LOCAL
from pdproto.cli.options import UsageError, whole_number

if TYPE_CHECKING:  # the check of one system needs no workers, and does not import them
    from pdproto.check.executor_tasks import ExecutorMaker
    from pdproto.check.worker_pool import Workers


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


def executor(arguments: argparse.Namespace) -> "ExecutorMaker | None":
    """The executor that --executor names; None for `local`. Raises UsageError."""
    if arguments.executor == LOCAL:
        return None
    from pdproto.check.executor import maker_of  # noqa: PLC0415 - see above

    try:
        return maker_of(arguments.executor)
    except ValueError as error:
        raise UsageError(f"--executor: {error}") from None


def workers(arguments: argparse.Namespace) -> "Workers":
    """The workers that both options name. Raises UsageError."""
    return executor(arguments) or int(arguments.workers)
