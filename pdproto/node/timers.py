"""Deadlines without a heap: all waits of one name last equally long, so each name is a queue.

A repeat is an exception: each time that it is in vain the next wait is twice as long, in a queue of
its own, so that a hundred thousand hand-overs that wait do not keep their nodes busy with repeats.
How long a wait lasts is policy: the tables ask only that what may have been lost is said again.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.handoff.timers import WAITS

REPEATS: Final = frozenset(name for name, wait in WAITS.items() if wait.again)
CANCELLED_MIN: Final = 1_024  # entries that it does not pay to clear away
DOUBLINGS_MAX: Final = 4  # of a repeat: 2 s become 32 s, and a lost frame costs no more than that


class Timers:
    """Which endpoint waits for what. Cancelled entries stay until they would have been due, or are
    more than those that count: so what is over is not kept for the sake of its clocks.

    seconds: by name; what is given is in place of the defaults in spec/handoff/timers.py. Those of
    a repeat are of its first wait.
    """

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        given = dict(seconds or {})
        unknown = given.keys() - WAITS.keys()
        if unknown:
            raise ValueError(f"no timer is called {min(unknown)!r}: want {', '.join(WAITS)}")
        self.seconds = {name: given.get(name, wait.seconds) for name, wait in WAITS.items()}
        # Of the waits ever started, by how often they have been doubled.
        self._queues: Final[dict[str, dict[int, deque[tuple[float, Endpoint]]]]] = {}
        self._cancelled = dict.fromkeys(WAITS, 0)
        self._quiet_until = 0.0  # no wait ends before; 0 where that is to be found out

    def follow(self, endpoint: Endpoint, names: tuple[str, ...], now: float) -> None:
        """Start the timers that the endpoint has come to wait for, and stop the others."""
        armed, cancelled = endpoint.armed, self._cancelled
        for name in tuple(armed):
            if name not in names:
                del armed[name]
                cancelled[name] += 1
                if cancelled[name] > CANCELLED_MIN:
                    self._clear(name)
                endpoint.repeats = 0  # it waits for something else now
        for name in names:
            if name not in armed:
                self._arm(endpoint, name, now)
        endpoint.timers = names

    def due(self, now: float) -> Iterator[tuple[str, Endpoint]]:
        """The waits that have ended. One that goes on (a repeat) starts again."""
        if now < self._quiet_until:
            return
        self._quiet_until = 0.0
        for name, queues in tuple(self._queues.items()):
            for queue in tuple(queues.values()):
                for _ in range(len(queue)):
                    if not queue or queue[0][0] > now:
                        break
                    deadline, endpoint = queue.popleft()
                    if endpoint.armed.get(name) != deadline:
                        self._cancelled[name] -= 1
                        continue
                    del endpoint.armed[name]
                    endpoint.timers = ()
                    endpoint.repeats += name in REPEATS
                    yield name, endpoint

    def fire_now(self, endpoint: Endpoint) -> list[str]:
        """End the repeats that the endpoint waits for, as if none had been in vain."""
        repeats = [name for name in endpoint.armed if name in REPEATS]
        for name in repeats:
            del endpoint.armed[name]
            self._cancelled[name] += 1
        endpoint.repeats, endpoint.timers = 0, ()
        return repeats

    def next(self) -> float | None:
        """When to look again: no wait ends before, and perhaps none does then."""
        quiet_until = self._quiet_until or self._first()
        return None if quiet_until == inf else quiet_until

    def _first(self) -> float:
        """When the first wait ends."""
        first = inf
        for name, queues in self._queues.items():
            for queue in queues.values():
                while queue and queue[0][1].armed.get(name) != queue[0][0]:
                    queue.popleft()
                    self._cancelled[name] -= 1
                if queue:
                    first = min(first, queue[0][0])
        self._quiet_until = first
        return first

    def _clear(self, name: str) -> None:
        """Clear away the entries that stand for nothing, where they are more than the others."""
        queues = self._queues[name]
        if self._cancelled[name] > CANCELLED_MIN + sum(map(len, queues.values())) // 2:
            for queue in queues.values():
                kept = [(due, end) for due, end in queue if end.armed.get(name) == due]
                queue.clear()
                queue.extend(kept)
            self._cancelled[name] = 0

    def _arm(self, endpoint: Endpoint, name: str, now: float) -> None:
        doublings, seconds = 0, self.seconds[name]
        if seconds == inf:
            return  # that wait has no bound
        if endpoint.repeats and name in REPEATS:
            doublings = min(endpoint.repeats, DOUBLINGS_MAX)
            seconds *= 1 << doublings
        endpoint.armed[name] = deadline = now + seconds
        self._quiet_until = min(self._quiet_until, deadline)
        try:
            queue = self._queues[name][doublings]
        except KeyError:
            queue = self._queues.setdefault(name, {}).setdefault(doublings, deque())
        queue.append((deadline, endpoint))
