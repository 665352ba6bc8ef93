"""Try defects: explore the system of each up to the first violation of the defect's property."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from lab.defects import Defect, DefectTrials, Trial
from pdproto.check.cache import Cache, keep_result
from pdproto.check.checking import CheckSettings, check
from pdproto.check.executor_tasks import ExecutorMaker
from pdproto.check.explore import Monitor, silent
from pdproto.check.result import CheckResult
from pdproto.check.worker_pool import run_tasks

# A function of a module, which workers import: from a defect's id to the defect.
Find: TypeAlias = Callable[[str], Defect]


@dataclass(frozen=True, slots=True)
class SpreadTrials:
    """An executor that tries defects, and the function by which its workers find them."""

    executor: ExecutorMaker
    find: Find


def try_all(
    defects: Sequence[Defect], kept: Cache, monitor: Monitor, spread: SpreadTrials | None = None
) -> DefectTrials:
    """Try each defect, with all cores, or in an executor. monitor: told of the progress of each
    search, if it runs here. A defect whose workers were lost is not decided, nor one whose search
    ended at a limit.
    """
    decided: list[Trial] = []
    trials = _tried(defects, kept, monitor) if spread is None else _spread(defects, kept, spread)
    with suppress(KeyboardInterrupt):
        for trial in trials:
            if trial.is_interrupted:
                break
            if trial.is_decided:
                decided.append(trial)
    known = {one.defect.id for one in decided}
    return DefectTrials(tuple(decided), tuple(
        one.id for one in defects if one.id not in known))


def _tried(
    defects: Sequence[Defect], kept: Cache, monitor: Monitor
) -> Iterator[Trial]:
    for defect in defects:
        settings = replace(_settings(defect), workers=os.cpu_count() or 1, monitor=monitor)
        yield Trial(defect, kept.check(defect.system, defect.configuration, settings))


def _spread(defects: Sequence[Defect], kept: Cache, spread: SpreadTrials) -> Iterator[Trial]:
    """The trials in the order of the defects, after the last one has ended."""
    found: dict[int, CheckResult] = {}
    for number, defect in enumerate(defects):
        known = kept.recall(defect.system, defect.configuration, _settings(defect))
        if known is not None:
            found[number] = known
    left = [number for number in range(len(defects)) if number not in found]
    tasks = [(spread.find, defects[n].id) for n in left]
    for place, result in run_tasks(tasks, _checked, spread.executor, silent, _no_result):
        if result is not None:
            defect = defects[left[place]]
            kept.keep(defect.system, defect.configuration, _settings(defect), keep_result, result)
            found[left[place]] = result
    for number, result in sorted(found.items()):
        yield Trial(defects[number], result)


def _settings(defect: Defect) -> CheckSettings:
    return CheckSettings(properties=(defect.violates,))


def _checked(task: tuple[Find, str], _: Monitor) -> CheckResult | None:
    find, name = task
    defect = find(name)
    return check(defect.system, defect.configuration, _settings(defect))


def _no_result(_: object, __: str) -> CheckResult | None:
    return None
