"""The hand-over as one check: each of its systems at each named size, and the coverage of rows.

A row that fires in no system is an error of the tables or of the systems, so it fails the check. If
dead messages are cleared (--dead-bits), a row that ignores a late message may not fire. Such rows
are searched once more without clearing, among the first states of each system.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pdproto.check.answers import with_answers
from pdproto.check.cache import NO_CACHE, Cache, Completion, keep_result
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import INTERRUPTED, Monitor, Progress, SearchLimits
from pdproto.check.load import load
from pdproto.check.questions import DEADLOCK
from pdproto.check.result import Checked, CheckResult, Suite, Task, WrittenRow
from pdproto.check.worker_pool import run_tasks
from pdproto.spec.language.system import DEFAULT, Configuration, System

DEEP: Final = "deep"
STATES_FOR_COVERAGE: Final = 200_000  # of each system, breadth first; late messages occur early

def tasks(systems: Mapping[str, str], *, deep: bool) -> tuple[Task, ...]:
    """Each system at its named sizes. systems: name -> `module:attribute`.

    deep: also the size DEEP, if the system has it. It replaces the default size if it has all
    faults of the default.
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


def run(
    wanted: Sequence[Task], settings: CheckSettings, workers: int, monitor: Monitor,
    cache: Cache = NO_CACHE,
) -> Suite:
    """Run all tasks, then search for the rows that have not fired.

    settings: for each check; its monitor is not used. workers: processes. After Ctrl-C it returns
    the results so far.
    """
    suite = Suite(tuple(wanted), ())
    done: dict[int, Checked] = {}
    try:
        for number, checked in _done(wanted, settings, cache, workers, monitor, "systems"):
            done[number] = checked
            if checked.result.stopped == INTERRUPTED:
                raise KeyboardInterrupt
        in_order = tuple(done[number] for number in range(len(wanted)))
        return _covered(replace(suite, checked=in_order), settings, cache, workers, monitor)
    except KeyboardInterrupt:
        so_far = tuple(checked for _, checked in sorted(done.items()))
        return replace(suite, checked=so_far, stopped=INTERRUPTED)


def _done(
    wanted: Sequence[Task], settings: CheckSettings, cache: Cache, workers: int, monitor: Monitor,
    what: str,
) -> Iterator[tuple[int, Checked]]:
    """The finished tasks with their numbers: first those in the cache, then the others as they
    finish. The monitor also gets their number.
    """
    left: list[int] = []
    for number, task in enumerate(wanted):
        question = _question(settings, task)
        known = cache.recall(*question)
        if known is None:
            left.append(number)
        else:
            yield number, _checked(task, question[0], known)
    count = len(wanted) - len(left)

    def show(progress: Progress) -> None:
        monitor(replace(progress, what=f"{count} of {len(wanted)} {what}; {progress.what}"))

    work = partial(perform, settings, cache)
    for place, checked in run_tasks([wanted[number] for number in left], work, workers, show):
        count += 1
        yield left[place], checked


def perform(settings: CheckSettings, cache: Cache, task: Task, monitor: Monitor) -> Checked:
    """Check one system at one of its sizes."""
    system, configuration, asked, complete = _question(settings, task)
    result = cache.check(system, configuration, replace(asked, monitor=monitor), complete)
    return _checked(task, system, result)


def _question(
    settings: CheckSettings, task: Task
) -> tuple[System, Configuration, CheckSettings, Completion]:
    """The arguments of the check for a task."""
    system = load(task.target)
    configuration = system.configurations[task.configuration]
    if not task.all_rows:
        return system, configuration, settings, with_answers if task.answers else keep_result
    limits = SearchLimits(states_max=STATES_FOR_COVERAGE)
    rows_only = replace(settings, properties=(DEADLOCK,), limits=limits)
    return system, replace(configuration, dead_bits=False), rows_only, keep_result


def _checked(task: Task, system: System, result: CheckResult) -> Checked:
    written = {
        row.name: (row.name, row.place) for _, row in system.rows() if row.kind != "reject"
    }
    fired = frozenset(written[name] for name in result.rows_fired if name in written)
    return Checked(task, result, frozenset(written.values()), fired)


def _covered(
    suite: Suite, settings: CheckSettings, cache: Cache, workers: int, monitor: Monitor
) -> Suite:
    """The suite with the rows that fire nowhere; unchanged if some search ended early."""
    if not all(checked.result.complete for checked in suite.checked):
        return suite
    written = frozenset[WrittenRow]().union(*(checked.written for checked in suite.checked))
    missing = written.difference(*(checked.fired for checked in suite.checked))
    again = [
        replace(checked.task, all_rows=True)
        for checked in suite.checked
        if checked.written & missing
    ]
    for _, checked in _done(again, settings, cache, workers, monitor, "systems looked through"):
        missing -= checked.fired
    order = sorted(missing, key=lambda row: (row[1].path, row[1].line, row[0]))
    return replace(suite, rows=len(written), never_fired=tuple(order))
