"""The file of --record of `pdproto check`."""

from collections.abc import Iterable
from pathlib import Path

from pdproto.check import counts
from pdproto.check.result import CheckResult
from pdproto.check.store import alone
from pdproto.cli.options import write
from pdproto.cli.reports import say
from pdproto.spec.language.system import System


def record(
    target: str, results: Iterable[tuple[System, str, CheckResult]], systems: Iterable[str] = ()
) -> None:
    """Write the counts of these results into the file, each with its system and configuration.

    Names the other counts of these systems in the file that may be of other tables. systems: see
    `counts.with_results`. Several processes may do so at one time. Raises the errors of `counts`,
    and UsageError.
    """
    found = tuple(results)
    with alone(Path(target).resolve().parent):
        known = counts.read(Path(target)) if Path(target).is_file() else counts.NONE
        new = counts.with_results(known, found, systems)
        write(counts.written(new), target)
    for system in {one.name: one for one, _, _ in found}.values():
        for name in counts.unconfirmed(new, system):
            say(f"{target}: the counts of {system.name} {name} may be of other tables: "
                f"count again with --configuration {name} --record {target}")
