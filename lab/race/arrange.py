"""From a defect to its race: which nodes run it, and whether they show it.

The nodes are run twice, in the same way: with the edited tables, which must break a promise, and
with the unedited ones, which must keep them all. So what is seen is due to the defect.

Rule 1: the events and their order are those of the shortest counterexample of the checker. If nodes
        cannot take it, the shortest one without some of its rows is tried (counterexample.runs).
Rule 2: what cannot be arranged is refused, with the first step that the nodes did not take.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeAlias

from lab.race.bindings import Bindings
from lab.race.conduct import Conducted, conduct
from lab.race.counterexample import Counterexample, NoCounterexampleError, runs
from lab.race.draining import Draining
from lab.race.group import Group
from lab.race.optimistic import Optimistic
from lab.race.refusals import KEEPS, edited_rows, unloaded
from lab.race.registrations import Registrations
from lab.race.restarts import Restarts
from lab.race.routes import Routes
from lab.race.stage import Seen, Stage
from lab.race.transfer import Transfer
from lab.sim import planted
from lab.sim.defects import base_of, roles_of
from lab.sim.outcome import SHIPPED, Roles
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff import (
    attempts,
    binding_tables,
    bootstrap,
    dp_rank,
    drain,
    group,
    group_attempts,
    incarnations,
    routing,
    transfer,
)
from pdproto.spec.handoff.ends import pool, sink, source
from pdproto.spec.handoff.roles import Attempt
from pdproto.spec.language.machine import Machine
from pdproto.spec.language.system import System

RUNS_MAX: Final = 5  # counterexamples that are tried
ATTEMPTS_MIN: Final = 2  # of a scheduler that may run a request before its bootstrap

Build: TypeAlias = Callable[[Counterexample], Stage]


@dataclass(frozen=True, slots=True)
class Arranged:
    """A race in which the defect was seen. seen: the broken promises, the counterexample's first.
    steps: the rows of the race.
    """

    bug: Bug
    seen: tuple[Seen, ...]
    steps: tuple[str, ...]


class NotArrangedError(Exception):
    """No race was arranged in which the defect shows. The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class _Nodes:
    """How to run a defect. machines: those that nodes run by their tables. edited, unedited: make
    the nodes. while_edited, while_unedited: entered around each run.
    """

    machines: tuple[Machine[*tuple[Any, ...]], ...]
    edited: Build
    unedited: Build
    while_edited: Callable[[], AbstractContextManager[None]] = nullcontext
    while_unedited: Callable[[], AbstractContextManager[None]] = nullcontext


def arranged(bug: Bug) -> Arranged:
    """Arrange the race of a defect. Raises NotArrangedError if it is not seen on nodes."""
    nodes = _nodes(bug)
    if nodes is None or not {machine for machine, _ in edited_rows(bug.system)} & {
            *nodes.machines}:
        raise NotArrangedError(f"{bug.id}: {unloaded(bug.system)}")
    logging.getLogger("pdproto").setLevel(logging.CRITICAL)  # what goes wrong here is intended
    why = ""
    try:
        for example in islice(runs(_runnable(bug)), RUNS_MAX):
            with nodes.while_edited():
                found = conduct(example, nodes.edited(example))
            if found.seen:
                with nodes.while_unedited():
                    sound = conduct(example, nodes.unedited(example))
                if not sound.seen:
                    return Arranged(bug, found.seen, tuple(map(str, example.rows)))
                broken = sound.seen[0]
                why = why or (f"the unedited tables break {broken.promise} in its race, too: "
                              f"{broken.where}")
            why = why or _obstacle(bug, found)
    except NoCounterexampleError as error:
        why = str(error).removeprefix(f"{bug.id}: ")
    kept = KEEPS.get(bug.system.name)
    raise NotArrangedError(f"{bug.id}: {why}" + ("" if kept is None else f", because {kept}"))


def _obstacle(bug: Bug, found: Conducted) -> str:
    """Why a race has shown nothing."""
    if found.obstacles:
        return f"nodes do not run its counterexample: {found.obstacles[0]}"
    return f"nodes that take every step of its counterexample keep {bug.violates}"


def _runnable(bug: Bug) -> Bug:
    """The defect at the sizes that nodes can have."""
    configuration = bug.configuration
    if attempts.prefill not in {table.machine for table in bug.system.tables}:
        return bug
    sizes = {**configuration.sizes,
             Attempt: max(ATTEMPTS_MIN, configuration.sizes.get(Attempt, 0))}
    return replace(bug, configuration=replace(configuration, sizes=sizes))


def _nodes(bug: Bug) -> _Nodes | None:
    """The nodes that run the tables of a defect; None if there are none."""
    system, base = bug.system, bug.system.base
    machines = {table.machine for table in system.tables if not table.machine.world}
    if machines == {source, sink, pool}:
        mine, sound = _roles(system)
        return _Nodes((source, sink), lambda e: Transfer(e, mine), lambda e: Transfer(e, sound))
    if base is None:
        return None
    if machines == {drain.server, drain.registry, drain.client}:
        return _Nodes((drain.server,), Draining, Draining,
                      lambda: planted.lent(system), lambda: planted.lent(base))
    if machines == {incarnations.request}:
        return _Nodes((incarnations.request,), Restarts, Restarts,
                      lambda: planted.lent(system), lambda: planted.lent(base))
    if machines in ({group.rank, group.entry}, {group_attempts.rank, group_attempts.entry}):
        return _Nodes(tuple(machines), lambda e: Group(e, system), lambda e: Group(e, base),
                      lambda: planted.lent(system), lambda: planted.lent(base))
    if machines == {bootstrap.source, bootstrap.registry, bootstrap.sink}:
        return _Nodes((bootstrap.source, bootstrap.registry, bootstrap.sink),
                      lambda e: Registrations(e, system), lambda e: Registrations(e, base),
                      lambda: planted.lent(system), lambda: planted.lent(base))
    if machines == {table.machine for table in dp_rank.SYSTEM.tables}:
        return _Nodes((routing.sender, routing.receiver, routing.registry),
                      lambda e: Routes(e, system), lambda e: Routes(e, base),
                      lambda: planted.lent(system), lambda: planted.lent(base))
    if binding_tables.rank in machines:
        return _Nodes((binding_tables.rank,), Bindings, Bindings,
                      lambda: planted.lent(system), lambda: planted.lent(base))
    if machines == {attempts.prefill, attempts.decode}:
        return _Nodes((attempts.prefill,), lambda e: Optimistic(e, system),
                      lambda e: Optimistic(e, base))
    return None


def _roles(system: System) -> tuple[Roles, Roles]:
    """The roles of nodes with the edited tables, and with the unedited ones."""
    base = base_of(system)
    if base is transfer.DIRECT:  # its edits, in the tables of nodes that stage the pages
        return planted.roles_with(system), SHIPPED
    return roles_of(system), roles_of(base)
