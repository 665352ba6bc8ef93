"""Sums over the searches of one system: states, transitions, and the rows that have fired."""

from collections import Counter

from pdproto.check.explore import Exploration
from pdproto.spec.language.machine import Row
from pdproto.spec.language.symbols import Message
from pdproto.spec.language.system import System


class Totals:
    """Sums over the interpretations of the rigid symbols."""

    def __init__(self) -> None:
        self.states = self.transitions = self.depth = self.deadlocks = self.bytes = 0
        self.stopped = ""
        self._counted: set[str] = set()
        self._fired: Counter[str] = Counter()

    def add(self, found: Exploration) -> None:
        """Add the numbers of one search; `depth` and `bytes` are maxima."""
        self.states += found.engine.states
        self.transitions += found.transitions
        self.depth = max(self.depth, found.depth)
        self.deadlocks += found.engine.stuck[0]
        self.bytes = max(self.bytes, found.engine.bytes)
        self.stopped = self.stopped or found.stopped
        for table, _ in found.ground.system.tables_under(found.ground.faults):
            for row in table.rows:
                # Clearing a dead message disables rows that ignore or lose it (deadbits.py).
                if not found.program.sweeps or (
                        row.kind == "row" and not only_removes_messages(row)):
                    self._counted.add(row.name)
        counts = found.engine.fired.tolist()
        for ground_row, count in zip(found.ground.rows, counts, strict=True):
            self._fired[ground_row.row.name] += count

    def fired(self, system: System) -> tuple[str, ...]:
        """The rows that are enabled in some visited state."""
        return tuple(row.name for _, row in system.rows() if self._fired[row.name])

    def counts(self, system: System) -> dict[str, int]:
        """In how many visited states each row is enabled, summed over its parameters."""
        return {row.name: self._fired[row.name] for _, row in system.rows()
                if row.name in self._counted}

    def never_fired(self, system: System) -> tuple[str, ...]:
        """The rows that no visited state enables, without rejects, which must never be enabled."""
        return tuple(
            row.name
            for _, row in system.rows()
            if row.kind != "reject" and row.name in self._counted and not self._fired[row.name]
        )


def only_removes_messages(row: Row) -> bool:
    """Whether the only effect of the row is to take messages off the network."""
    return bool(row.do) and all(
        isinstance(update.symbol, Message) and update.value is False for update in row.do
    )
