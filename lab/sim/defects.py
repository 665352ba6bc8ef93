"""Tables with a defect, as roles for the nodes.

Most historical defects (spec/bugs) are edits of the tables of the source and the sink, which the
nodes run. Defects of the engine or of the network are not edits of these tables, so they are left
out.
"""

from dataclasses import replace
from functools import cache
from typing import Final

from lab.sim.outcome import Roles
from pdproto.runtime.role import SinkRole, SourceRole
from pdproto.spec.bugs import transfer as defects
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff import transfer
from pdproto.spec.handoff.ends import sink, source
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.machine import Row, Table, Timer
from pdproto.spec.language.system import System

# Replaces a timer that only a defect has: a wait that nodes know.
ANY_CLOCK: Final = Timer("no_drain")
# The systems without the defects. Nodes never write straight into pages (transfer-direct).
_BASES: Final = (transfer.SYSTEM, transfer.NO_TIMEOUTS, transfer.NO_TIMERS, transfer.RESTARTED)
_DIRECT: Final = transfer.DIRECT
# In these defects a process that has ended sends a message, which no node can do.
_OF_ENDED_PROCESSES: Final = ("B57-transfer", "R19-restart")


@cache
def runnable() -> tuple[Bug, ...]:
    """The defects of the tables that nodes run, in the order of the catalogue."""
    return tuple(
        bug for bug in defects.BUGS
        if (base := base_of(bug.system)) is not _DIRECT and bug.id not in _OF_ENDED_PROCESSES
        and _distance(bug.system, base))


def base_of(system: System) -> System:
    """The system that a defect is an edit of: the system from which it differs least."""
    return min((*_BASES, _DIRECT), key=lambda base: _distance(system, base))


def roles_of(system: System) -> Roles:
    """The roles of a system's tables."""
    return Roles(SourceRole(on_known_clocks(system.table(source))),
                 SinkRole(on_known_clocks(system.table(sink))))


def on_known_clocks(table: Table) -> Table:
    """The table, with timers that nodes do not have replaced by `ANY_CLOCK`."""
    return replace(table, rows=tuple(map(_on_a_known_clock, table.rows)))


def _distance(one: System, other: System) -> int:
    """The number of rows of source and sink that only one of the two systems has."""
    count = 0
    for machine in (source, sink):
        left, right = one.table(machine).rows, other.table(machine).rows
        count += sum(row not in right for row in left) + sum(row not in left for row in right)
    return count


def _on_a_known_clock(row: Row) -> Row:
    if isinstance(row.on, Timer) and row.on.name not in WAITS:
        return replace(row, on=ANY_CLOCK)
    return row
