"""When each peer of a node was suspected: clocks of hand-overs stand still meanwhile.

A suspicion begins with the last sign of life: the peer has served nobody since. Its end is that of
the states `HELD` (spec/handoff/presence.py).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

KEPT: Final = 64  # suspicions that are remembered of a peer, and of all together


class Intervals:
    """Times at which something was so, the earliest first. The oldest are forgotten."""

    def __init__(self) -> None:
        self._kept: Final[deque[tuple[float, float]]] = deque(maxlen=KEPT)

    def begin(self, at: float) -> None:
        """It is so since then, or has been before and still is."""
        while self._kept and at <= self._kept[-1][1]:
            at = min(at, self._kept.pop()[0])
        self._kept.append((at, inf))

    def end(self, at: float) -> None:
        """It is no longer so."""
        self._kept[-1] = self._kept[-1][0], at

    def within(self, since: float, until: float) -> Iterable[tuple[float, float]]:
        """The parts between these times. For any thread: they are copied in one step."""
        for began, ended in tuple(self._kept):
            if ended > since and began < until:
                yield max(began, since), min(ended, until)


class Suspicions:
    """The suspicions of one node. All times are of its own clock."""

    def __init__(self) -> None:
        self._of: Final[dict[str, Intervals]] = {}
        self._any: Final = Intervals()
        self._now: Final[set[str]] = set()

    def note(self, peer: str, *, held: bool, heard: float, now: float) -> None:
        """Note a change of the peer. held: it is suspected. heard: its last sign of life."""
        if held:
            self._now.add(peer)
            self._of.setdefault(peer, Intervals()).begin(heard)
            self._any.begin(heard)
        elif peer in self._now:
            self._now.discard(peer)
            self._of[peer].end(now)
            if not self._now:
                self._any.end(now)

    def forget(self, peer: str) -> None:
        """The peer counts as gone, and is no longer known."""
        self._of.pop(peer, None)

    def stood(self, peers: Sequence[str], since: float, now: float) -> float:
        """Seconds since then in which one of these peers was suspected; for no peers, any."""
        if not peers:
            return sum(ended - began for began, ended in self._any.within(since, now))
        total, until = 0.0, since
        for began, ended in sorted(part for peer in peers if peer in self._of
                                   for part in self._of[peer].within(since, now)):
            total += max(0.0, ended - max(began, until))
            until = max(until, ended)
        return total

    def of_any(self, _waits: object, since: float, now: float) -> float:
        """Seconds since then in which any peer was suspected, for waits without a peer."""
        return self.stood((), since, now)
