"""Each line of a replay as those see it who watch, and the counts of a replay."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pdproto.check.trace.instance import Instance
from pdproto.check.trace.lines import Read
from pdproto.check.trace.table import GroundedRow, LocalTable


@dataclass(frozen=True, slots=True)
class Replayed:
    """The effect of a line on an instance. ground: None for a message that triggers no row."""

    instance: Instance
    local: LocalTable
    read: Read
    ground: GroundedRow | None
    before: int
    after: int


Watcher: TypeAlias = Callable[[Replayed], None]


@dataclass(slots=True)
class Tally:
    """Counts of a replay. assumed: messages whose sending no trace shows, by sender.

    passed: lines of endpoints that began before the trace. states: local states with their sizes.
    """

    lines: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    passed: int = 0
    assumed: Counter[str] = field(default_factory=Counter)
    states: set[tuple[int, int]] = field(default_factory=set)
