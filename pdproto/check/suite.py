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
from pdproto.check.cache import NO_CACHE, Cache, Completion, nothing_more
from pdproto.check.checking import CheckSettings
from pdproto.check.explore import INTERRUPTED, Monitor, Progress, SearchLimits
from pdproto.check.load import load
from pdproto.check.questions import DEADLOCK
from pdproto.check.result import Checked, CheckResult, Suite, Task, WrittenRow
from pdproto.check.worker_pool import shared_out
from pdproto.spec.language.system import DEFAULT, Configuration, System

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


def run(
    wanted: Sequence[Task], settings: CheckSettings, workers: int, monitor: Monitor,
    cache: Cache = NO_CACHE,
) -> Suite:
    """Check them all, then look for the rows that have not fired.

    settings: of each check, but for its monitor. Ctrl-C ends it with the results so far.
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
    """The tasks that the cache knows, then the others as they come back. The monitor is told how
    many have.
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
    for place, checked in shared_out([wanted[number] for number in left], work, workers, show):
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
    """The arguments of the check that a task is."""
    system = load(task.target)
    configuration = system.configurations[task.configuration]
    if not task.all_rows:
        return system, configuration, settings, with_answers if task.answers else nothing_more
    limits = SearchLimits(states_max=STATES_FOR_COVERAGE)
    rows_only = replace(settings, properties=(DEADLOCK,), limits=limits)
    return system, replace(configuration, dead_bits=False), rows_only, nothing_more


def _checked(task: Task, system: System, result: CheckResult) -> Checked:
    written = {
        row.name: (row.name, row.place) for _, row in system.rows() if row.kind != "reject"
    }
    fired = frozenset(written[name] for name in result.rows_fired if name in written)
    return Checked(task, result, frozenset(written.values()), fired)


def _covered(
    suite: Suite, settings: CheckSettings, cache: Cache, workers: int, monitor: Monitor
) -> Suite:
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
    for _, checked in _done(again, settings, cache, workers, monitor, "systems looked through"):
        missing -= checked.fired
    order = sorted(missing, key=lambda row: (row[1].path, row[1].line, row[0]))
    return replace(suite, rows=len(written), never_fired=tuple(order))
