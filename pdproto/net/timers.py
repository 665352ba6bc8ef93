"""Deadlines without a heap: all waits of one name last equally long, so each name is a queue."""

from collections import deque
from collections.abc import Iterator, Mapping

from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.handoff.timers import WAITS


class Timers:
    """Which endpoint waits for what. Cancelled entries stay until they would have been due.

    seconds: by name; what is given is in place of the defaults in spec/handoff/timers.py.
    """

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        given = dict(seconds or {})
        unknown = given.keys() - WAITS.keys()
        if unknown:
            raise ValueError(f"no timer is called {min(unknown)!r}: want {', '.join(WAITS)}")
        self.seconds = {name: given.get(name, wait.seconds) for name, wait in WAITS.items()}
        self._queues: dict[str, deque[tuple[float, Endpoint]]] = {name: deque() for name in WAITS}

    def follow(self, endpoint: Endpoint, now: float) -> None:
        """Start the timers that the endpoint's state has come to wait for, and stop the others."""
        names = endpoint.automaton.armed(endpoint.state)
        if names is endpoint.timers:
            return
        armed = endpoint.armed
        for name in endpoint.timers:
            if name not in names:
                armed.pop(name, None)
        for name in names:
            if name not in armed:
                self._arm(endpoint, name, now)
        endpoint.timers = names

    def due(self, now: float) -> Iterator[tuple[str, Endpoint]]:
        """The waits that have ended. One that goes on (a repeat) starts again."""
        for name, queue in self._queues.items():
            for _ in range(len(queue)):
                if queue[0][0] > now:
                    break
                deadline, endpoint = queue.popleft()
                if endpoint.armed.get(name) != deadline:
                    continue
                del endpoint.armed[name]
                endpoint.timers = ()
                yield name, endpoint

    def next(self) -> float | None:
        """When the first wait ends, or something before that."""
        return min((queue[0][0] for queue in self._queues.values() if queue), default=None)

    def _arm(self, endpoint: Endpoint, name: str, now: float) -> None:
        deadline = now + self.seconds[name]
        endpoint.armed[name] = deadline
        self._queues[name].append((deadline, endpoint))
