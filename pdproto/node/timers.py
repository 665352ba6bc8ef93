"""Deadlines without a heap: all waits of one name have the same length, so each name has a queue.

A wait that repeats a message is an exception. Each time that no answer comes, the next wait is
twice as long, and it is in another queue. And repeats are rationed: a peer that is behind has most
messages in its queue, and each repeat would put it further behind. So a hundred thousand waiting
hand-overs do not keep their nodes busy with repeats. The length of a wait is policy: the tables
demand only that a message that may have been lost is sent again.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from math import inf
from typing import Final, Generic, Protocol, TypeVar

from pdproto.spec.handoff.timers import WAITS

REPEATS: Final = frozenset(name for name, wait in WAITS.items() if wait.again)
CANCELLED_MIN: Final = 1_024  # cancelled entries that are too few to be worth clearing
DOUBLINGS_MAX: Final = 4  # of a repeat: 2 s become 32 s at most, which is the cost of a lost frame
REPEATS_PER_S: Final = 2_000  # a tenth to a fifth of a core, here and at the peers
WINDOW_S: Final = 0.1  # in which the repeats are counted


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


class Timers(Generic[W]):
    """The waits of all endpoints of a node, or of all requests (waits.py).

    Cancelled entries stay in the queue until their deadline, or until there are more of them than
    of the others. So endpoints that are over are not kept in memory for long.

    seconds: the lengths of waits by name; others have the defaults of spec/handoff/timers.py. For a
    repeat it is the length of the first wait. Raises ValueError for an unknown name.
    """

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        given = dict(seconds or {})
        unknown = given.keys() - WAITS.keys()
        if unknown:
            raise ValueError(f"no timer is called {min(unknown)!r}: want {', '.join(WAITS)}")
        self.seconds = {name: given.get(name, wait.seconds) for name, wait in WAITS.items()}
        # By name and by the number of doublings.
        self._queues: Final[dict[str, dict[int, deque[tuple[float, W]]]]] = {}
        self._cancelled = dict.fromkeys(WAITS, 0)
        self._bearable = dict.fromkeys(WAITS, CANCELLED_MIN)  # more of them are counted anew
        self._quiet_until = 0.0  # no wait ends before this time; 0 if it is not known yet
        self._ration: Final = Ration()
        self._at_once: Final[deque[tuple[float, str, W]]] = deque()  # see `fire_now`

    def follow(self, one: W, names: tuple[str, ...], now: float) -> None:
        """Start those of the named timers that do not run for it, and stop all others."""
        one.timers = names
        armed = one.armed
        for name in tuple(armed):
            if name not in names:
                del armed[name]
                self._cancelled[name] = count = self._cancelled[name] + 1
                if count > self._bearable[name]:
                    self._clear(name)
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
        while self._at_once and self._at_once[0][0] <= now:
            deadline, name, one = self._at_once.popleft()
            if one.armed.get(name) == deadline:
                del one.armed[name]
                one.timers = ()
                yield name, one
            else:
                self._cancelled[name] -= 1
        for name, queues in tuple(self._queues.items()):
            repeats = name in REPEATS
            for queue in tuple(queues.values()):
                for _ in range(len(queue)):
                    if not queue or queue[0][0] > now:
                        break
                    deadline, one = queue[0]
                    is_cancelled = one.armed.get(name) != deadline
                    if repeats and not is_cancelled and not self._ration.take():
                        break
                    queue.popleft()
                    if is_cancelled:
                        self._cancelled[name] -= 1
                        continue
                    del one.armed[name]
                    one.timers = ()
                    one.repeats += repeats
                    yield name, one

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
        self._at_once.append((now, name, one))
        self._quiet_until = min(self._quiet_until, now)

    def next(self) -> float | None:
        """The time of the next `due`: no wait ends before it. None if no wait runs."""
        quiet_until = self._quiet_until or self._first()
        return None if quiet_until == inf else quiet_until

    def _first(self) -> float:
        """The time at which the first wait ends."""
        first = self._at_once[0][0] if self._at_once else inf
        for name, queues in self._queues.items():
            for queue in queues.values():
                while queue and queue[0][1].armed.get(name) != queue[0][0]:
                    queue.popleft()
                    self._cancelled[name] -= 1
                if queue:
                    ends = queue[0][0]
                    first = min(first, self._ration.earliest(ends) if name in REPEATS else ends)
        self._quiet_until = first
        return first

    def _clear(self, name: str) -> None:
        """Remove cancelled entries, if they are more than the others."""
        queues = self._queues[name]
        bearable = CANCELLED_MIN + sum(map(len, queues.values())) // 2
        if self._cancelled[name] > bearable:
            for queue in queues.values():
                kept = [(due, end) for due, end in queue if end.armed.get(name) == due]
                queue.clear()
                queue.extend(kept)
            self._cancelled[name], bearable = 0, CANCELLED_MIN
        self._bearable[name] = bearable

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
            queue = self._queues.setdefault(name, {}).setdefault(doublings, deque())
        queue.append((deadline, one))
