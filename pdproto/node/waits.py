"""The waits of requests: the timers that run for each of them, and the rows they fire."""

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from pdproto.node.timers import Timers
from pdproto.spec.language.machine import Row, Table, Timer

K = TypeVar("K", bound=Hashable)


def rows_on_timers(table: Table) -> Mapping[str, tuple[Row, ...]]:
    """The rows of a table that timers fire, by the name of the timer."""
    on: dict[str, tuple[Row, ...]] = {}
    for row in table.rows:
        if isinstance(row.on, Timer):
            on[row.on.name] = (*on.get(row.on.name, ()), row)
    return on


class _Request(Generic[K]):
    """A request that waits (Waiting in timers.py). key: its own."""

    __slots__ = ("armed", "key", "repeats", "timers")

    def __init__(self, key: K) -> None:
        self.key: Final = key
        self.timers: tuple[str, ...] = ()
        self.armed: dict[str, float] = {}
        self.repeats = 0


class Waits(Generic[K]):
    """The timers of requests that are known by a key, such as a life; see Timers.

    seconds: by name of timer, in place of the defaults in spec/handoff/timers.py; for a repeat it
    is the length of the first wait. Raises ValueError for an unknown name.
    """

    def __init__(self, seconds: Mapping[str, float] | None) -> None:
        self._timers: Final[Timers[_Request[K]]] = Timers(seconds)
        self._requests: Final[dict[K, _Request[K]]] = {}
        self.seconds: Final = self._timers.seconds

    def follow(
        self, key: K, names: Collection[str], now: float, *, further: bool = False
    ) -> None:
        """Run exactly these timers for the request. Those that run already go on.

        further: the request has made progress, so its repeats start again.
        """
        request = self._requests.get(key)
        if request is None:
            if not names:
                return
            request = self._requests[key] = _Request(key)
        elif not names:
            del self._requests[key]
        elif further:
            self._timers.start_anew(request)
        self._timers.follow(request, tuple(names), now)

    def is_due(self, now: float) -> bool:
        """Whether a wait may have ended."""
        return self._timers.is_due(now)

    def due(self, now: float) -> Iterator[tuple[str, K]]:
        """The waits that have ended: name and request. Only `follow` starts them again."""
        for name, request in self._timers.due(now):
            yield name, request.key

    def fire_now(self, now: float) -> None:
        """End all repeat timers now, because messages may be lost; see Timers."""
        for request in self._requests.values():
            self._timers.fire_now(request, now)

    def end(self, key: K, name: str, now: float) -> bool:
        """End this timer of the request now. Returns False if it does not run."""
        request = self._requests.get(key)
        if request is None or name not in request.armed:
            return False
        self._timers.end(request, name, now)
        return True

    def next(self) -> float | None:
        """A time at which no wait has ended yet, or the first one ends; None if none runs."""
        return self._timers.next()

    def __contains__(self, key: K) -> bool:
        """Whether a timer of this request runs, or has ended and waits for `follow`."""
        return key in self._requests

    def __len__(self) -> int:
        """The number of requests with a timer."""
        return sum(bool(request.armed) for request in self._requests.values())
