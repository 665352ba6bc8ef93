"""Sums over the searches of one system: states, transitions, and the rows that have fired."""

from collections import Counter
from collections.abc import Container, Iterator

from pdproto.check.explore import Exploration
from pdproto.ground.grounding import Ground
from pdproto.spec.language.system import System


class Totals:
    """Sums over the interpretations of the rigid symbols."""

    def __init__(self) -> None:
        self.states = self.transitions = self.depth = self.deadlocks = self.bytes = 0
        self.stopped = ""
        self._asked: set[str] = set()
        self._hidden: set[str] = set()
        self._fired: Counter[str] = Counter()

    def add(self, found: Exploration) -> None:
        """Add the numbers of one search; `depth` and `bytes` are maxima."""
        self.states += found.engine.states
        self.transitions += found.transitions
        self.depth = max(self.depth, found.depth)
        self.deadlocks += found.engine.stuck[0]
        self.bytes = max(self.bytes, found.engine.bytes)
        self.stopped = self.stopped or found.stopped
        if found.program.sweeps:
            self._hidden.update(hidden_rows(found.ground))
        for table, _ in found.ground.system.tables_under(found.ground.faults):
            self._asked.update(row.name for row in table.rows)
        counts = found.engine.fired.tolist()
        for ground_row, count in zip(found.ground.rows, counts, strict=True):
            self._fired[ground_row.row.name] += count

    def fired(self, system: System) -> tuple[str, ...]:
        """The rows that are enabled in some visited state."""
        return tuple(row.name for _, row in system.rows() if self._fired[row.name])

    def counts(self, system: System) -> dict[str, int]:
        """In how many visited states each row is enabled, summed over its parameters."""
        counted = self._asked - self._hidden
        return {row.name: self._fired[row.name] for _, row in system.rows() if row.name in counted}

    def never_fired(self, system: System) -> tuple[str, ...]:
        """The rows that no visited state enables, without rejects, which must never be enabled."""
        return self._idle(system, self._asked - self._hidden)

    def hidden(self, system: System) -> tuple[str, ...]:
        """The rows that no visited state enables, and perhaps one where no bits are cleared."""
        return self._idle(system, self._hidden)

    def _idle(self, system: System, among: Container[str]) -> tuple[str, ...]:
        return tuple(row.name for _, row in system.rows() if row.kind != "reject"
                     and row.name in among and not self._fired[row.name])


def hidden_rows(ground: Ground) -> Iterator[str]:
    """The rows that may not fire where dead bits are cleared, because they count as no readers of
    the one cell that they write (deadbits.py): faults, and rows that ignore their trigger.
    """
    fields = ground.layout.fields.values()
    for one in ground.rows:
        if (one.layer or one.row.kind != "row") and (
                sum(bool(one.action.clear & field.mask) for field in fields) <= 1):
            yield one.row.name
