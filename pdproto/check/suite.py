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
from pdproto.check.checking import CheckSettings, check
from pdproto.check.executor_tasks import UnansweredError, unanswered
from pdproto.check.explore import INTERRUPTED, Monitor, Progress, SearchLimits, silent
from pdproto.check.load import load
from pdproto.check.questions import DEADLOCK
from pdproto.check.result import Checked, CheckResult, Suite, Task, Verdict, WrittenRow
from pdproto.check.worker_pool import Workers, run_tasks
from pdproto.spec.language.system import DEEP, DEFAULT, Configuration, System

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
    wanted: Sequence[Task], settings: CheckSettings, workers: Workers, monitor: Monitor,
    cache: Cache = NO_CACHE, *, whole: bool = True,
) -> Suite:
    """Run all tasks, then search for the rows that have not fired.

    settings: for each check; its monitor is not used. whole: the tasks are all; otherwise no rows
    are searched. After Ctrl-C it returns the results so far.
    """
    suite = Suite(tuple(wanted), ())
    done: dict[int, Checked] = {}
    try:
        for number, checked in _done(wanted, settings, cache, workers, monitor, "systems"):
            done[number] = checked
            if checked.result.stopped == INTERRUPTED:
                raise KeyboardInterrupt
        suite = replace(suite, checked=tuple(done[number] for number in range(len(wanted))))
        return covered(suite, settings, workers, monitor, cache) if whole else suite
    except KeyboardInterrupt:
        so_far = tuple(checked for _, checked in sorted(done.items()))
        return replace(suite, checked=so_far, stopped=INTERRUPTED)


def _done(
    wanted: Sequence[Task], settings: CheckSettings, cache: Cache, workers: Workers,
    monitor: Monitor, what: str,
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

    work, missing = partial(perform, settings), partial(without_answer, settings)
    tasks = [wanted[number] for number in left]
    for place, checked in run_tasks(tasks, work, workers, show, missing):
        count += 1
        cache.keep(*_question(settings, checked.task), checked.result)
        yield left[place], checked


def perform(settings: CheckSettings, task: Task, monitor: Monitor) -> Checked:
    """Check one system at one of its sizes."""
    system, configuration, asked, complete = _question(settings, task)
    asked = replace(asked, monitor=monitor)
    result = complete(system, configuration, asked, check(system, configuration, asked))
    return _checked(task, system, result)


def without_answer(settings: CheckSettings, task: Task, why: str) -> Checked:
    """The result of a task without an answer: a search that ends at its first state.

    No property holds by it. For a search for rows, which has no verdict, raises UnansweredError.
    """
    if task.all_rows:
        unanswered(task.title, why)
    one = replace(settings, limits=replace(settings.limits, states_max=1))
    checked = perform(one, task, silent)
    findings = tuple(
        replace(finding, verdict=Verdict.UNKNOWN) if finding.verdict is Verdict.HOLDS else finding
        for finding in checked.result.findings
    )
    return replace(checked, result=replace(
        checked.result, findings=findings, complete=False, stopped=why))


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


def covered(
    suite: Suite, settings: CheckSettings, workers: Workers, monitor: Monitor,
    cache: Cache = NO_CACHE,
) -> Suite:
    """The suite with the rows that fire nowhere; unchanged if some search ended early."""
    if suite.stopped or not all(checked.result.complete for checked in suite.checked):
        return suite
    written = frozenset[WrittenRow]().union(*(checked.written for checked in suite.checked))
    missing = written.difference(*(checked.fired for checked in suite.checked))
    again = [
        replace(checked.task, all_rows=True)
        for checked in suite.checked
        if checked.written & missing
    ]
    try:
        for _, checked in _done(again, settings, cache, workers, monitor, "systems looked through"):
            missing -= checked.fired
    except UnansweredError as error:
        return replace(suite, stopped=str(error))
    order = sorted(missing, key=lambda row: (row[1].path, row[1].line, row[0]))
    return replace(suite, rows=len(written), never_fired=tuple(order))
