"""Deadlines without a heap: all waits of one name have the same length, so each name has a queue.

A wait that repeats a message is an exception. Each time that no answer comes, the next wait is
twice as long, and it is in another queue. And repeats are rationed: a peer that is behind has most
messages in its queue, and each repeat would put it further behind. So a hundred thousand waiting
hand-overs do not keep their nodes busy with repeats. The length of a wait is policy: the tables
demand only that a message that may have been lost is sent again.

A wait that ends a request does not count the time for which a peer was suspected that it waits for
(spec/handoff/timers.py: `stands`). That is seen when it would end: then it gets the time again.

`Timers` has the waits of objects that hold their deadlines, such as endpoints; `Waits` has those of
requests that have only a key.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from pdproto.runtime import checked
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.machine import Row, Table, Timer

REPEATS: Final = frozenset(name for name, wait in WAITS.items() if wait.again)
STANDS: Final = frozenset(name for name, wait in WAITS.items() if wait.stands)
AGAIN_S: Final = 1.0  # between two looks at a wait whose peer is suspected
CANCELLED_MIN: Final = 16  # cancelled entries that are too few to be worth clearing
TIDIED: Final = 16  # entries of a queue that one more cancelled one has looked at
AT_ONCE: Final = 64  # cancelled entries of a queue that a turn looks at
DOUBLINGS_MAX: Final = 4  # of a repeat: 2 s become 32 s at most, which is the cost of a lost frame
REPEATS_PER_S: Final = 2_000  # a tenth to a fifth of a core, here and at the peers
WINDOW_S: Final = 0.1  # in which the repeats are counted
# The timers of one of which a wait has ended. No state has these, so `follow` comes next. With (),
# which a state without timers has, the others would go on.
ONE_ENDED: Final = ("one_has_ended",)


class Ration:
    """How many repeats may still be made: `REPEATS_PER_S`, counted in windows of time."""

    def __init__(self) -> None:
        self._left = 0
        self._renewed_at = 0.0  # the end of this window

    def renew(self, now: float) -> None:
        """Begin another window, if this one is over."""
        if now >= self._renewed_at:
            self._renewed_at = now + WINDOW_S
            self._left = round(REPEATS_PER_S * WINDOW_S)

    def take(self) -> bool:
        """Take one repeat from the ration. Returns False if none is left in this window."""
        if not self._left:
            return False
        self._left -= 1
        return True

    def earliest(self, deadline: float) -> float:
        """When a repeat with this deadline may be made at the earliest."""
        return deadline if self._left else max(deadline, self._renewed_at)


class Waiting(Protocol):
    """An endpoint, or another object that waits.

    timers: the names that `follow` got last; empty after a wait has ended. armed: the running
    timers with their deadlines. repeats: made in vain, in a row.
    """

    timers: tuple[str, ...]
    armed: dict[str, float]
    repeats: int


W = TypeVar("W", bound=Waiting)


# Seconds between these two times in which a peer was suspected that it waits for.
Stood: TypeAlias = Callable[[W, float, float], float]


def never(_one: object, _since: float, _now: float) -> float:
    """Nobody is suspected."""
    return 0.0


class Timers(Generic[W]):
    """The waits of all endpoints of a node, or of all requests.

    Cancelled entries stay in the queue until their deadline, or until there are more of them than
    of the others. So endpoints that are over are not kept in memory for long.

    seconds: the lengths of waits by name; others have the defaults of spec/handoff/timers.py. For a
    repeat it is the length of the first wait. stood: see Stood. Raises ValueError for an unknown
    name.
    """

    def __init__(self, seconds: Mapping[str, float] | None = None,
                 stood: Stood[W] = never) -> None:
        self._stood: Final = stood
        given = checked.lengths("waits", {} if seconds is None else seconds, WAITS)
        self.seconds = {name: checked.seconds(f"waits[{name!r}]", given[name]) if name in given
                        else wait.seconds for name, wait in WAITS.items()}
        # By name and by the number of doublings.
        self._queues: Final[dict[str, dict[int, _Queue[W]]]] = {}
        self._cancelled = dict.fromkeys(WAITS, 0)
        self._bearable = dict.fromkeys(WAITS, CANCELLED_MIN)  # more of them are counted anew
        self._quiet_until = 0.0  # no wait ends before this time; 0 if it is not known yet
        self._ration: Final = Ration()
        # Those that end at once (`fire_now`), or later because a peer was suspected: when they
        # end, and when they began.
        self._others: Final[list[tuple[float, int, str, W, float | None]]] = []
        self._numbers: Final = count()

    def follow(self, one: W, names: tuple[str, ...], now: float) -> None:
        """Start those of the named timers that do not run for it, and stop all others."""
        one.timers = names
        armed = one.armed
        for name in tuple(armed):
            if name not in names:
                del armed[name]
                self._cancelled[name] = count = self._cancelled[name] + 1
                if count > self._bearable[name]:
                    self._tidy(name)
                one.repeats = 0  # it waits for another event now
        for name in names:
            if name not in armed:
                self._arm(one, name, now)

    def start_anew(self, one: W) -> None:
        """Have the next `follow` start its repeats anew: none counts as made in vain."""
        one.repeats = 0
        for name in REPEATS & one.armed.keys():
            del one.armed[name]
            self._cancelled[name] += 1

    def is_due(self, now: float) -> bool:
        """Whether a wait may have ended."""
        return now >= self._quiet_until

    def due(self, now: float) -> Iterator[tuple[str, W]]:
        """The waits that have ended, each with its name. The next `follow` starts a repeat again.
        A repeat that exceeds the ration ends later.
        """
        if now < self._quiet_until:
            return
        self._quiet_until = 0.0
        self._ration.renew(now)
        while self._others and self._others[0][0] <= now:
            deadline, _, name, one, since = heappop(self._others)
            if one.armed.get(name) != deadline:
                self._cancelled[name] -= 1
            elif since is None or not self._waits_on(name, one, since, now):
                del one.armed[name]
                one.timers = ONE_ENDED
                yield name, one
        for name, queues in tuple(self._queues.items()):
            repeats = name in REPEATS
            for queue in tuple(queues.values()):
                cancelled = 0
                for _ in range(len(queue)):
                    first = queue.first
                    if first is None or first[0] > now or cancelled == AT_ONCE:
                        break  # the next turn goes on
                    deadline, one = first
                    is_cancelled = one.armed.get(name) != deadline
                    if repeats and not is_cancelled and not self._ration.take():
                        break
                    queue.drop()
                    if is_cancelled:
                        self._cancelled[name] -= 1
                        cancelled += 1
                        continue
                    if name in STANDS and self._waits_on(
                            name, one, deadline - self.seconds[name], now):
                        continue
                    del one.armed[name]
                    one.timers = ONE_ENDED
                    one.repeats += repeats
                    yield name, one

    def _waits_on(self, name: str, one: W, since: float, now: float) -> bool:
        """Whether it goes on to wait, because a peer was suspected since."""
        deadline = since + self.seconds[name] + self._stood(one, since, now)
        if deadline <= now:
            return False
        one.armed[name] = deadline = max(deadline, now + min(AGAIN_S, self.seconds[name]))
        heappush(self._others, (deadline, next(self._numbers), name, one, since))
        return True

    def fire_now(self, one: W, now: float) -> None:
        """End its repeat timers with the next `due`, whatever the ration, and reset
        their doubling: its messages may be lost.
        """
        one.repeats = 0
        for name in one.armed:
            if name in REPEATS:
                self.end(one, name, now)

    def end(self, one: W, name: str, now: float) -> None:
        """End this running timer of it with the next `due`, whatever the ration."""
        one.armed[name] = now
        self._cancelled[name] += 1  # its entry until now
        heappush(self._others, (now, next(self._numbers), name, one, None))
        self._quiet_until = min(self._quiet_until, now)

    def next(self) -> float | None:
        """The time of the next `due`: no wait ends before it. None if no wait runs."""
        quiet_until = self._quiet_until or self._first()
        return None if quiet_until == inf else quiet_until

    def _first(self) -> float:
        """The time at which the first wait ends."""
        first = self._others[0][0] if self._others else inf
        for name, queues in self._queues.items():
            for queue in queues.values():
                entry = queue.first
                for _ in range(AT_ONCE):  # the next turn goes on
                    if entry is None or entry[1].armed.get(name) == entry[0]:
                        break
                    queue.drop()
                    self._cancelled[name] -= 1
                    entry = queue.first
                if entry is not None:
                    ends = entry[0]
                    first = min(first, self._ration.earliest(ends) if name in REPEATS else ends)
        self._quiet_until = first
        return first

    def _tidy(self, name: str) -> None:
        """Remove some cancelled entries, if they are more than the others."""
        queues = self._queues[name]
        self._bearable[name] = bearable = CANCELLED_MIN + sum(map(len, queues.values())) // 2
        if self._cancelled[name] > bearable:
            self._cancelled[name] -= sum(queue.tidy(name) for queue in queues.values())

    def _arm(self, one: W, name: str, now: float) -> None:
        doublings, seconds = 0, self.seconds[name]
        if seconds == inf:
            return  # this wait never ends
        if one.repeats and name in REPEATS:
            doublings = min(one.repeats, DOUBLINGS_MAX)
            seconds *= 1 << doublings
        one.armed[name] = deadline = now + seconds
        if deadline < self._quiet_until:  # noqa: PLR1730 - a call takes longer, at each step
            self._quiet_until = deadline
        try:
            queue = self._queues[name][doublings]
        except KeyError:
            queue = self._queues.setdefault(name, {}).setdefault(doublings, _Queue())
        queue.rest.append((deadline, one))


class _Queue(Generic[W]):
    """Waits in the order in which they end. kept: the first ones, of which none was cancelled when
    it was looked at. rest: the others. So the cancelled ones are removed over many turns.
    """

    __slots__ = "kept", "rest"

    def __init__(self) -> None:
        self.kept: deque[tuple[float, W]] = deque()
        self.rest: deque[tuple[float, W]] = deque()

    def __len__(self) -> int:
        return len(self.kept) + len(self.rest)

    @property
    def first(self) -> tuple[float, W] | None:
        """When the first one ends, and whose it is."""
        some = self.kept or self.rest
        return some[0] if some else None

    def drop(self) -> None:
        """Remove the first one."""
        (self.kept or self.rest).popleft()

    def tidy(self, name: str) -> int:
        """Look at the next few. Returns how many were cancelled, and are removed."""
        removed = 0
        for _ in range(min(TIDIED, len(self.rest))):
            entry = self.rest.popleft()
            if entry[1].armed.get(name) == entry[0]:
                self.kept.append(entry)
            else:
                removed += 1
        if not self.rest:  # from the first one again
            self.kept, self.rest = self.rest, self.kept
        return removed


K = TypeVar("K", bound=Hashable)


def rows_on_timers(table: Table) -> Mapping[str, tuple[Row, ...]]:
    """The rows of a table that timers fire, by the name of the timer."""
    on: dict[str, tuple[Row, ...]] = {}
    for row in table.rows:
        if isinstance(row.on, Timer):
            on[row.on.name] = (*on.get(row.on.name, ()), row)
    return on


class _Request(Generic[K]):
    """A request that waits. key: its own."""

    __slots__ = ("armed", "key", "repeats", "timers")

    def __init__(self, key: K) -> None:
        self.key: Final = key
        self.timers: tuple[str, ...] = ()
        self.armed: dict[str, float] = {}
        self.repeats = 0


class Waits(Generic[K]):
    """The timers of requests that are known by a key, such as a life; see Timers.

    seconds: by name of timer, in place of the defaults in spec/handoff/timers.py; for a repeat it
    is the length of the first wait. stood: see Stood, for any request. Raises ValueError for an
    unknown name.
    """

    def __init__(self, seconds: Mapping[str, float] | None,
                 stood: Callable[[object, float, float], float] = never) -> None:
        self._timers: Final[Timers[_Request[K]]] = Timers(seconds, stood)
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
