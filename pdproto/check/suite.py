"""The hand-over as one check: every system of it, at each of its named sizes, and its coverage.

A row that fires in no system is a mistake of the tables or of the systems, so it fails the check.
What only ignores a late message may be out of sight where dead messages are cleared (--dead-bits);
such rows are looked for once more without that, among the first states of each system.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pdproto.check.answers import with_answers
from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import INTERRUPTED, Monitor, Progress, SearchLimits
from pdproto.check.load import load
from pdproto.check.questions import DEADLOCK
from pdproto.check.result import Checked, Suite, Task, WrittenRow
from pdproto.check.worker_pool import shared_out
from pdproto.spec.language.system import DEFAULT, System

DEEP: Final = "deep"
STATES_FOR_COVERAGE: Final = 200_000  # of each system, breadth first: late messages come early

def tasks(systems: Mapping[str, str], *, deep: bool) -> tuple[Task, ...]:
    """Each system at its named sizes. systems: by name, where it is, `module:attribute`.

    deep: also the largest size, where the system has one. That replaces the default if it has all
    of the faults of the default.
    """
    return tuple(
        Task(name, target, size, answers=number == 0)
        for name, target in systems.items()
        for number, size in enumerate(_sizes(load(target), deep=deep))
    )


def _sizes(system: System, *, deep: bool) -> list[str]:
    sizes = system.configurations
    if not deep:
        return [name for name in sizes if name != DEEP]
    if {DEFAULT, DEEP} <= sizes.keys() and {*sizes[DEFAULT].faults} <= {*sizes[DEEP].faults}:
        return [name for name in sizes if name != DEFAULT]
    return list(sizes)


def run(wanted: Sequence[Task], settings: CheckSettings, workers: int, monitor: Monitor) -> Suite:
    """Check them all, then look for the rows that have not fired.

    settings: of each check, but for its monitor. Ctrl-C ends it with the results so far.
    """
    suite = Suite(tuple(wanted), ())
    done: dict[int, Checked] = {}
    try:
        for number, checked in _done(wanted, settings, workers, monitor, "systems"):
            done[number] = checked
            if checked.result.stopped == INTERRUPTED:
                raise KeyboardInterrupt
        in_order = tuple(done[number] for number in range(len(wanted)))
        return _covered(replace(suite, checked=in_order), settings, workers, monitor)
    except KeyboardInterrupt:
        so_far = tuple(checked for _, checked in sorted(done.items()))
        return replace(suite, checked=so_far, stopped=INTERRUPTED)


def _done(
    wanted: Sequence[Task], settings: CheckSettings, workers: int, monitor: Monitor, what: str
) -> Iterator[tuple[int, Checked]]:
    """The tasks as they come back. The monitor is told how many have."""
    count = 0

    def show(progress: Progress) -> None:
        monitor(replace(progress, what=f"{count} of {len(wanted)} {what}; {progress.what}"))

    for number, checked in shared_out(wanted, partial(perform, settings), workers, show):
        count += 1
        yield number, checked


def perform(settings: CheckSettings, task: Task, monitor: Monitor) -> Checked:
    """Check one system at one of its sizes."""
    system = load(task.target)
    configuration = system.configurations[task.configuration]
    settings = replace(settings, monitor=monitor)
    if task.all_rows:
        configuration = replace(configuration, dead_bits=False)
        settings = replace(
            settings, properties=(DEADLOCK,), limits=SearchLimits(states_max=STATES_FOR_COVERAGE)
        )
    result = check(system, configuration, settings)
    if task.answers and not task.all_rows:
        result = with_answers(system, result)
    written = {
        row.name: (row.name, row.place) for _, row in system.rows() if row.kind != "reject"
    }
    fired = frozenset(written[name] for name in result.rows_fired if name in written)
    return Checked(task, result, frozenset(written.values()), fired)


def _covered(suite: Suite, settings: CheckSettings, workers: int, monitor: Monitor) -> Suite:
    """The suite with the rows that fire nowhere; as it is if some search ended early."""
    if not all(checked.result.complete for checked in suite.checked):
        return suite
    written = frozenset[WrittenRow]().union(*(checked.written for checked in suite.checked))
    missing = written.difference(*(checked.fired for checked in suite.checked))
    again = [
        replace(checked.task, all_rows=True)
        for checked in suite.checked
        if checked.written & missing
    ]
    for _, checked in _done(again, settings, workers, monitor, "systems looked through"):
        missing -= checked.fired
    order = sorted(missing, key=lambda row: (row[1].path, row[1].line, row[0]))
    return replace(suite, rows=len(written), never_fired=tuple(order))
