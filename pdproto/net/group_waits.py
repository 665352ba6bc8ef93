"""The waits of a group's requests: which timer runs for which of them, and what its rows are.

All waits of one name last equally long, so each name is a queue, and none is ever sorted.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pdproto.net.timers import Timers
from pdproto.runtime.wire import Life
from pdproto.spec.language.machine import Row, Table, Timer


def rows_on_timers(table: Table) -> Mapping[str, tuple[Row, ...]]:
    """The rows of a table that a clock fires, by the name of the timer."""
    on: dict[str, tuple[Row, ...]] = {}
    for row in table.rows:
        if isinstance(row.on, Timer):
            on[row.on.name] = (*on.get(row.on.name, ()), row)
    return on


class Waits:
    """Deadlines by timer and request. Cancelled ones stay until they would have been due.

    seconds: by name of timer, in place of the defaults in spec/handoff/timers.py.
    Raises ValueError for a name that no timer has.
    """

    def __init__(self, names: Collection[str], seconds: Mapping[str, float] | None) -> None:
        known = Timers(seconds).seconds
        self.seconds: Final = {name: known[name] for name in names}
        self._queues: Final[dict[str, deque[tuple[float, Life]]]] = {n: deque() for n in names}
        self._armed: Final[dict[Life, dict[str, float]]] = {}

    def follow(self, life: Life, names: Collection[str], now: float) -> None:
        """Run these timers for the request, and no others. Those that run already go on."""
        armed = self._armed.pop(life, {})
        armed = {name: deadline for name, deadline in armed.items() if name in names}
        for name in names:
            if name not in armed:
                armed[name] = now + self.seconds[name]
                self._queues[name].append((armed[name], life))
        if armed:
            self._armed[life] = armed

    def due(self, now: float) -> Iterator[tuple[str, Life]]:
        """The waits that have ended; each is started again by `follow` alone."""
        for name, queue in self._queues.items():
            for _ in range(len(queue)):
                if queue[0][0] > now:
                    break
                deadline, life = queue.popleft()
                armed = self._armed.get(life, {})
                if armed.get(name) == deadline:
                    del armed[name]
                    yield name, life

    def next(self) -> float | None:
        """When the first wait ends, or something before that."""
        return min((queue[0][0] for queue in self._queues.values() if queue), default=None)

    def __len__(self) -> int:
        """How many requests wait for something."""
        return sum(bool(armed) for armed in self._armed.values())
