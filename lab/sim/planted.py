"""A defect in the tables that a process runs, for drills and tests.

A process that hands over for a drill, or for a test, can be given the tables of a historical defect
(spec/bugs), to see whether the drill or the test notices. A server never imports this module.

Rule 1: an edited system differs from the system that it edits (`System.base`) in some rows. The
        same rows of the running tables are replaced, dropped or added, in place. So every machine
        that the process makes from then on has the defect.
Rule 2: a process proposes a row without a message or a call by itself. If such a row is dropped, it
        stays in the table, and never fires: the process goes on without it.
Rule 3: nothing is put back. The process is there for its defect alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from lab.sim.defects import on_known_clocks
from lab.sim.outcome import Roles
from pdproto.runtime.role import (
    INCARNATIONS_ROLE,
    RANK_ALONE,
    RANK_ROLE,
    SINK_ROLE,
    SOURCE_ROLE,
    SinkRole,
    SourceRole,
)
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.handoff import dp_rank, drain, group, incarnations, registry, sink, source
from pdproto.spec.handoff.optimistic_retracted import (
    PREFILL_AT_ONCE_RETRACTING,
    PREFILL_RETRACTING,
)
from pdproto.spec.language.formula import FALSE
from pdproto.spec.language.machine import Call, Completion, Machine, Row, Table
from pdproto.spec.language.symbols import Sent
from pdproto.spec.language.system import System

_HANDOFF: Final = (source.SOURCE, sink.SINK, registry.SOURCE, registry.SINK, registry.REGISTRY,
                   group.RANK, group.ENTRY, PREFILL_RETRACTING, PREFILL_AT_ONCE_RETRACTING,
                   incarnations.REQUEST, drain.SERVER)
_ROUTING: Final = (dp_rank.SENDER, dp_rank.RECEIVER, dp_rank.REGISTRY)
_BINDING: Final = (RANK_ALONE,)
_ROLES: Final = (SOURCE_ROLE, SINK_ROLE, INCARNATIONS_ROLE, RANK_ROLE)


def runnable() -> Iterator[Bug]:
    """The defects of tables that the processes of `pdproto handoff` run, as they are listed."""
    return (bug for bug in BUGS if any(_differs(bug.system, table) for table in _HANDOFF))


def named(name: str) -> Bug:
    """The runnable defect of that id, or of that name of its system. Raises KeyError: none has it.
    """
    for bug in runnable():
        if name in (bug.id, bug.system.name):
            return bug
    raise KeyError(name)


def put_in(system: System) -> None:
    """Have this process run the tables of an edited system.

    Raises ValueError if no table that a process runs differs from those of the unedited system.
    """
    tables = [table for table in (*_HANDOFF, *_ROUTING, *_BINDING) if _differs(system, table)]
    if not tables:
        raise ValueError(f"{system.name}: no process runs a table that it edits")
    for table in tables:
        object.__setattr__(table, "rows", on_known_clocks(_edited(system, table)).rows)
    for role in _ROLES:
        role.forget()


@contextmanager
def lent(system: System) -> Iterator[None]:
    """Have the machines that are made meanwhile run the tables of an edited system."""
    before = [(table, table.rows) for table in (*_HANDOFF, *_ROUTING, *_BINDING)]
    try:
        if any(_differs(system, table) for table, _ in before):
            put_in(system)
        yield
    finally:
        for table, rows in before:
            object.__setattr__(table, "rows", rows)
        for role in _ROLES:
            role.forget()


def kept(system: System, machine: Machine[*tuple[Any, ...]]) -> Table:
    """The table of a machine with the edits of a system, by rule 2."""
    base = next(table for table in (system.base or system).tables if table.machine is machine)
    return _edited(system, base)


def roles_with(system: System) -> Roles:
    """The shipped tables of source and sink, with the edits of a system."""
    return Roles(SourceRole(on_known_clocks(_edited(system, source.SOURCE))),
                 SinkRole(on_known_clocks(_edited(system, sink.SINK))))


def _differs(system: System, table: Table) -> bool:
    return system.base is not None and _rows(system, table) != _rows(system.base, table)


def _edited(system: System, table: Table) -> Table:
    """The running table with the changes that lead from the unedited system to this one."""
    before = {row.name: row for row in _rows(system.base or system, table)}
    after = {row.name: row for row in _rows(system, table)}
    kept = [_changed(row, before.get(row.name), after.get(row.name)) for row in table.rows
            if row.name in after or row.name not in before or not _is_received(row)]
    added = [row for name, row in after.items() if name not in before]
    return Table(table.machine, table.state, (*kept, *added))


def _changed(row: Row, before: Row | None, after: Row | None) -> Row:
    """The row of the running table as the edit has it."""
    if before is not None and after is None:
        return replace(row, when=(*row.conditions, FALSE))
    return row if after is None or after == before else after


def _is_received(row: Row) -> bool:
    return isinstance(row.on, Sent | Call | Completion)


def _rows(system: System, table: Table) -> tuple[Row, ...]:
    return next((one.rows for one in system.tables if one.machine is table.machine), ())
