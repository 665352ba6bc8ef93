"""The waits of requests: the timers that run for each of them, and the rows they fire.

All waits of one name have the same length, or that length doubled a few times. Each such length has
a queue of its own, so no sorting is needed.
"""

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping
from math import inf
from typing import Final, Generic, TypeVar

from pdproto.node.timers import DOUBLINGS_MAX, REPEATS, Ration, Timers
from pdproto.spec.language.machine import Row, Table, Timer

CANCELLED_MIN: Final = 1_024  # entries that it does not pay to clear away
K = TypeVar("K", bound=Hashable)


def rows_on_timers(table: Table) -> Mapping[str, tuple[Row, ...]]:
    """The rows of a table that timers fire, by the name of the timer."""
    on: dict[str, tuple[Row, ...]] = {}
    for row in table.rows:
        if isinstance(row.on, Timer):
            on[row.on.name] = (*on.get(row.on.name, ()), row)
    return on


class Waits(Generic[K]):
    """Deadlines by timer and request. Cancelled ones stay in their queue until they are due,
    or are more than the others.

    After each repeat without an answer, the next wait is twice as long, up to a limit, until the
    request has made progress. Repeats are rationed (timers.py). seconds: by name of timer, in place
    of the defaults in spec/handoff/timers.py; for a repeat it is the length of the first wait.
    Raises ValueError for an unknown name.
    """

    def __init__(self, names: Collection[str], seconds: Mapping[str, float] | None) -> None:
        known = Timers(seconds).seconds
        self.seconds: Final = {name: known[name] for name in names}
        # By name and by the number of doublings, so that each queue is in the order of time.
        self._queues: Final[dict[str, tuple[deque[tuple[float, K]], ...]]] = {
            name: tuple(deque() for _ in range(1 + DOUBLINGS_MAX * (name in REPEATS)))
            for name in names}
        self._armed: Final[dict[K, dict[str, float]]] = {}
        self._repeats: Final[dict[K, int]] = {}
        self._entries = 0  # of all queues
        self._ration: Final = Ration()
        self._fired_at = -inf  # the deadline of the waits that `fire_now` has ended last

    def follow(
        self, life: K, names: Collection[str], now: float, *, further: bool = False
    ) -> None:
        """Run exactly these timers for the request. Those that run already go on.

        further: the request has made progress, so the doubling of its repeats starts again.
        """
        armed = self._armed.pop(life, None)
        if self._repeats and (further or not names):
            self._repeats.pop(life, None)
        if names:
            self._armed[life] = {
                name: armed[name] if armed and name in armed and not (
                    further and name in REPEATS) else self._begin(name, life, now)
                for name in names}
        if self._entries > CANCELLED_MIN + 2 * len(self.seconds) * len(self._armed):
            self._clear()

    def due(self, now: float) -> Iterator[tuple[str, K]]:
        """The waits that have ended: name and life. Only `follow` starts them again. A repeat that
        exceeds the ration ends later, but not after `fire_now`.
        """
        if not self._entries:
            return
        self._ration.renew(now)
        for name, queues in self._queues.items():
            repeats = name in REPEATS
            for queue in queues:
                for _ in range(len(queue)):
                    if not queue or queue[0][0] > now:
                        break
                    deadline, life = queue[0]
                    armed = self._armed.get(life, {})
                    has_ended = armed.get(name) == deadline
                    is_rationed = repeats and deadline != self._fired_at
                    if is_rationed and has_ended and not self._ration.take():
                        break
                    queue.popleft()
                    self._entries -= 1
                    if has_ended:
                        del armed[name]
                        if repeats:
                            self._repeats[life] = self._repeats.get(life, 0) + 1
                        yield name, life

    def fire_now(self, now: float) -> None:
        """End all repeat timers now and reset their doubling, because messages may be lost."""
        self._repeats.clear()
        self._fired_at = now
        for life, armed in self._armed.items():
            for name in armed:
                if name in REPEATS:
                    armed[name] = now
                    self._queues[name][0].appendleft((now, life))
                    self._entries += 1

    def next(self) -> float | None:
        """A time at which no wait has ended yet, or the first one ends; None if none runs."""
        if not self._entries:
            return None
        return min((self._earliest(name, queue[0][0])
                    for name, queues in self._queues.items() for queue in queues if queue),
                   default=None)

    def _earliest(self, name: str, deadline: float) -> float:
        is_rationed = name in REPEATS and deadline != self._fired_at
        return self._ration.earliest(deadline) if is_rationed else deadline

    def __contains__(self, life: K) -> bool:
        """Whether a timer of this request runs, or has ended and waits for `follow`."""
        return life in self._armed

    def __len__(self) -> int:
        """The number of requests with a timer."""
        return sum(bool(armed) for armed in self._armed.values())

    def _begin(self, name: str, life: K, now: float) -> float:
        doublings = 0
        if name in REPEATS:
            doublings = min(self._repeats.get(life, 0), DOUBLINGS_MAX)
        deadline = now + self.seconds[name] * (1 << doublings)
        self._queues[name][doublings].append((deadline, life))
        self._entries += 1
        return deadline

    def _clear(self) -> None:
        """Remove the entries of cancelled waits."""
        self._entries = 0
        for name, queues in self._queues.items():
            for queue in queues:
                kept = [(deadline, life) for deadline, life in queue
                        if self._armed.get(life, {}).get(name) == deadline]
                queue.clear()
                queue.extend(kept)
                self._entries += len(kept)
