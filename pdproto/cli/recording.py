"""The file of --record of `pdproto check`."""

from collections.abc import Iterable
from pathlib import Path

from pdproto.check import counts
from pdproto.check.result import CheckResult
from pdproto.check.store import alone
from pdproto.cli.options import write


def record(
    target: str, results: Iterable[tuple[str, CheckResult]], systems: Iterable[str] = ()
) -> None:
    """Write the counts of these results into the file, each with its configuration.

    systems: see `counts.with_results`. Several processes may do so at one time. Raises the errors
    of `counts`, and UsageError.
    """
    with alone(Path(target).resolve().parent):
        known = counts.read(Path(target)) if Path(target).is_file() else counts.NONE
        write(counts.written(counts.with_results(known, results, systems)), target)
