"""Tries mutants in several processes.

A system cannot be sent to a worker, but its name can: each worker loads the system itself.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from math import prod
from random import Random
from typing import Final, NoReturn, TypeAlias

from pdproto.check.checking import CheckSettings, check
from pdproto.check.executor_tasks import ExecutorMaker, unanswered
from pdproto.check.explore import Monitor, silent
from pdproto.check.load import LoadError
from pdproto.check.mutate.edits import Mutant
from pdproto.check.mutate.recalled import Recalled, search_name
from pdproto.check.mutate.trials import (
    BaseError,
    Judged,
    MutantOutcome,
    Search,
    Trials,
    measure,
    searches,
    trials_of,
)
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.result import Finding, Verdict
from pdproto.check.store import Store
from pdproto.check.worker_pool import Workers, run_tasks
from pdproto.spec.language.properties import Always
from pdproto.spec.language.system import System

# A function of a module, which workers import: from a name to the system with its lemmas.
Load: TypeAlias = Callable[[str], ProofSubject]
Names: TypeAlias = tuple[str, ...]

NO_STORE: Final = Store(None)


class NotHeldError(Exception):
    """A system violates a property before it is mutated, or its search reached a limit."""

    def __init__(self, system: System, base: BaseError) -> None:
        super().__init__(str(base))
        self._system: Final = system
        self._base: Final = base

    @property
    def is_undecided(self) -> bool:
        """Whether a search reached a limit, and found no violation."""
        return not self._base.property

    def findings(self) -> tuple[Finding, ...]:
        """The violation with its trace; empty if a search reached a limit instead."""
        if self.is_undecided:
            return ()
        chosen = self._system.configurations[self._base.configuration]
        result = check(self._system, chosen, CheckSettings(properties=(self._base.property,)))
        return tuple(one for one in result.findings if one.verdict is Verdict.VIOLATED)


def prepared(
    families: Sequence[Names], load: Load, workers: Workers, tell: Callable[[str], None],
    store: Store = NO_STORE,
) -> tuple[Trials, ...]:
    """The trials of each family, after all searches of the unchanged systems.

    tell: is called with lines of progress. store: of the searches of earlier runs. Raises
    NotHeldError, and the errors of `load`.
    """
    subjects = {name: load(name) for names in families for name in names}
    systems = {name: one.system for name, one in subjects.items()}
    tasks = [(load, name, search) for name in systems for search in searches(systems[name])]
    # Most violations are found early: safety before liveness, small sizes first.
    tasks.sort(key=lambda task: _effort(systems[task[1]], task[2]))
    measured: dict[str, list[Search]] = {name: [] for name in systems}
    missing = []
    for task in tasks:
        kept_as = search_name(task[2], systems[task[1]])
        known = store.read(kept_as, Search)
        if known is None:
            missing.append((task, kept_as))
        else:
            measured[task[1]].append(known)
    tasks = [task for task, _ in missing]
    with closing(found for found in run_tasks(
            tasks, _measured, workers, silent, _unmeasured)) as all_found:
        for done, (number, found) in enumerate(all_found):
            name = tasks[number][1]
            if isinstance(found, BaseError):
                raise NotHeldError(systems[name], found)
            measured[name].append(found)
            store.keep(missing[number][1], found)
            tell(f"{done + 1} of {len(tasks)} searches before anything is mutated")
    return tuple(
        _trials_of([subjects[name] for name in names], [
            search for name in names for search in measured[name]
        ])
        for names in families
    )


def _effort(system: System, search: Search) -> tuple[bool, int]:
    """A key that sorts short searches first: an estimate before they are measured."""
    sizes = system.configurations[search.configuration].sizes
    return search.endless, prod(sizes.values())


def _measured(task: tuple[Load, str, Search], _: Monitor) -> Search | BaseError:
    """The search with its number of states, or the error of the unchanged system."""
    load, name, search = task
    try:
        return measure(search, load(name).system)
    except BaseError as base:
        return base


def _unmeasured(task: tuple[Load, str, Search], why: str) -> NoReturn:
    _, name, search = task
    unanswered(f"{name} at {search.configuration}", why)


def _trials_of(subjects: Sequence[ProofSubject], measured: Sequence[Search]) -> Trials:
    lemmas: dict[str, tuple[Always, ...]] = {
        one.system.name: one.lemmas for one in subjects if one.lemmas
    }
    return trials_of([one.system for one in subjects], measured, lemmas)


def chosen(every: Sequence[Sequence[Mutant]], sample: int | None, seed: int,
           rows: Collection[str] = (), changes: Collection[str] = ()) -> list[list[int]]:
    """For each family, the numbers of the mutants to try, of those that may be tried.

    sample: how many in all families together; None for all. rows, changes: those of these rows, and
    of these kinds, alone; empty for all.
    """
    numbers = [(place, m.number) for place, mutants in enumerate(every) for m in mutants
               if (not rows or m.row.name in rows) and (not changes or m.change in changes)]
    if sample is not None and sample < len(numbers):
        numbers = Random(seed).sample(numbers, sample)  # noqa: S311 - no secret
    return [sorted(n for where, n in numbers if where == place) for place in range(len(every))]


@dataclass(frozen=True, slots=True)
class _Task:
    """One mutant, in a form that can be sent to a worker.

    unchanged: the identity of the systems, which an executor must load again as they are here; None
    if they have none, or if the task stays on this machine.
    """

    load: Load
    names: Names
    searches: tuple[Search, ...]
    number: int
    unchanged: str | None


def judged(
    names: Names, trials: Trials, picked: Sequence[int], load: Load, workers: Workers,
    store: Store = NO_STORE,
) -> Generator[Judged, None, None]:
    """The results of the mutants with these numbers: first those of earlier runs, then the others
    as they finish. Close it to stop the workers.
    """
    recalled = Recalled(store, trials)
    expected = recalled.unchanged if isinstance(workers, ExecutorMaker) else None
    tasks = []
    for number in picked:
        known = recalled.read(number)
        if known is None:
            tasks.append(_Task(load, names, trials.searches, number, expected))
        else:
            yield known
    found = run_tasks(tasks, _tried, workers, silent, _undecided)
    with closing(end for _, end in found) as ends:
        for end in ends:
            recalled.keep(end)
            yield end
    store.make_room()


@cache
def known_trials(
    load: Load, names: Names, measured: tuple[Search, ...], unchanged: str | None
) -> Trials:
    """The trials after searches elsewhere: the unchanged systems are not checked again.

    unchanged: their identity there, or None. Raises LoadError if they are other systems here.
    """
    trials = _trials_of([load(name) for name in names], measured)
    if unchanged is not None and Recalled(NO_STORE, trials).unchanged != unchanged:
        raise LoadError(f"{', '.join(names)}: the tables are others than those of the task")
    return trials


def _undecided(task: _Task, why: str) -> Judged:
    return Judged(task.number, MutantOutcome.UNDECIDED, note=why)


def _tried(task: _Task, _: Monitor) -> Judged:
    trials = known_trials(task.load, task.names, task.searches, task.unchanged)
    return trials.judged(trials.mutants[task.number])
