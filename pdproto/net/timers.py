"""Deadlines without a heap: all waits of one name last equally long, so each name is a queue."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.handoff.timers import WAITS

CANCELLED_MIN: Final = 1_024  # entries that it does not pay to clear away


class Timers:
    """Which endpoint waits for what. Cancelled entries stay until they would have been due, or are
    more than those that count: so what is over is not kept for the sake of its clocks.

    seconds: by name; what is given is in place of the defaults in spec/handoff/timers.py.
    """

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        given = dict(seconds or {})
        unknown = given.keys() - WAITS.keys()
        if unknown:
            raise ValueError(f"no timer is called {min(unknown)!r}: want {', '.join(WAITS)}")
        self.seconds = {name: given.get(name, wait.seconds) for name, wait in WAITS.items()}
        self._queues: dict[str, deque[tuple[float, Endpoint]]] = {}  # of those ever started
        self._cancelled = dict.fromkeys(WAITS, 0)

    def follow(self, endpoint: Endpoint, now: float) -> None:
        """Start the timers that the endpoint's state has come to wait for, and stop the others."""
        names = endpoint.automaton.armed(endpoint.state)
        if names is endpoint.timers:
            return
        armed = endpoint.armed
        for name in tuple(armed):
            if name not in names:
                del armed[name]
                self._cancel(name)
        for name in names:
            if name not in armed:
                self._arm(endpoint, name, now)
        endpoint.timers = names

    def due(self, now: float) -> Iterator[tuple[str, Endpoint]]:
        """The waits that have ended. One that goes on (a repeat) starts again."""
        for name, queue in tuple(self._queues.items()):
            for _ in range(len(queue)):
                if not queue or queue[0][0] > now:
                    break
                deadline, endpoint = queue.popleft()
                if endpoint.armed.get(name) != deadline:
                    self._cancelled[name] -= 1
                    continue
                del endpoint.armed[name]
                endpoint.timers = ()
                yield name, endpoint

    def next(self) -> float | None:
        """When the first wait ends."""
        for name, queue in self._queues.items():
            while queue and queue[0][1].armed.get(name) != queue[0][0]:
                queue.popleft()
                self._cancelled[name] -= 1
        return min((queue[0][0] for queue in self._queues.values() if queue), default=None)

    def _cancel(self, name: str) -> None:
        """Count one more entry that stands for nothing, and clear them away when they are many."""
        queue = self._queues[name]
        self._cancelled[name] += 1
        if self._cancelled[name] > CANCELLED_MIN + len(queue) // 2:
            kept = [(due, endpoint) for due, endpoint in queue if endpoint.armed.get(name) == due]
            queue.clear()
            queue.extend(kept)
            self._cancelled[name] = 0

    def _arm(self, endpoint: Endpoint, name: str, now: float) -> None:
        deadline = now + self.seconds[name]
        endpoint.armed[name] = deadline
        self._queues.setdefault(name, deque()).append((deadline, endpoint))
