"""Sums over the searches of one system: sizes, and which rows have fired."""

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
        self.states += found.engine.states
        self.transitions += found.transitions
        self.depth = max(self.depth, found.depth)
        self.deadlocks += found.engine.stuck[0]
        self.bytes = max(self.bytes, found.engine.bytes)
        self.stopped = self.stopped or found.stopped
        for table, _ in found.ground.system.tables_under(found.ground.faults):
            for row in table.rows:
                # A dead message is swept although it could be ignored, or lost (deadbits.py).
                if not found.program.sweeps or (row.kind == "row" and not loses(row)):
                    self._counted.add(row.name)
        counts = found.engine.fired.tolist()
        for ground_row, count in zip(found.ground.rows, counts, strict=True):
            self._fired[ground_row.row.name] += count

    def fired(self, system: System) -> tuple[str, ...]:
        """The rows that some state seen enables."""
        return tuple(row.name for _, row in system.rows() if self._fired[row.name])

    def never_fired(self, system: System) -> tuple[str, ...]:
        """The rows that no state seen enables. One that rejects should not be enabled at all."""
        return tuple(
            row.name
            for _, row in system.rows()
            if row.kind != "reject" and row.name in self._counted and not self._fired[row.name]
        )


def loses(row: Row) -> bool:
    """Whether all that the row does is to take messages off the network."""
    return bool(row.do) and all(
        isinstance(update.symbol, Message) and update.value is False for update in row.do
    )
