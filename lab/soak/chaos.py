"""The faults of `python -m lab soak`. Their kinds and times follow from the seed.

Processes are real, so a fault meets the cluster in another state in every run.
"""

from collections import Counter
from collections.abc import Callable, Collection
from heapq import heappop, heappush
from random import Random
from typing import Final

from lab.soak.cluster import SoakCluster
from lab.soak.network import Weather

PAUSE_S: Final = (0.05, 7.0)  # some are longer than a silence that counts as an end
DOWN_S: Final = (0.0, 2.0)  # between a death and the next process
STORM_S: Final = (0.5, 4.0)
HELD_S: Final = (0.2, 6.0)
BETWEEN_S: Final = (0.3, 2.0)  # two faults
# A rank that is down keeps all others waiting for a few seconds: most faults let them go on.
SHARES: Final = {"cuts": 12, "storms": 10, "holds": 6, "pauses": 6, "kills": 4,
                 "registry kills": 2, "drains": 1}


class Chaos:
    """Applies faults to a cluster. counts: of the faults so far, by kind. spared: the ranks that
    are not killed and not drained.
    """

    def __init__(
        self, cluster: SoakCluster, seed: str, counts: Counter[str], spared: Collection[str]
    ) -> None:
        self.counts: Final = counts
        self._spared: Final = spared
        self._cluster: Final = cluster
        self._random: Final = Random(seed)  # noqa: S311 - no secret
        self._ends: Final[list[tuple[float, int, Callable[[], object]]]] = []
        self._number = 0
        self._next = 0.0
        self._registry_is_down = False

    def turn(self, now: float) -> None:
        """End the faults that are due to end, and begin the next ones."""
        while self._ends and self._ends[0][0] <= now:
            heappop(self._ends)[2]()
        if now >= self._next:
            if self._next:
                self._strike(now)
            self._next = now + self._random.uniform(*BETWEEN_S)

    def end(self) -> None:
        """End every fault."""
        while self._ends:
            heappop(self._ends)[2]()
        self._cluster.net("heal")

    def _strike(self, now: float) -> None:
        """Apply a fault of a drawn kind to a drawn rank that is not down."""
        random, cluster = self._random, self._cluster
        (what,) = random.choices(list(SHARES), list(SHARES.values()))
        names = self._candidates(what)
        length, seed = random.random(), random.getrandbits(32)
        name = names[random.randrange(len(names))] if names else ""
        member = cluster.members.get(name)
        if what == "storms":
            cluster.net("weather", Weather(seed, 0.1, 0.1, 0.1, 0.1))
            self._until(now, length, STORM_S, lambda: cluster.net("weather", Weather(seed)))
        elif what == "registry kills":
            if self._registry_is_down:
                return
            self._registry_is_down = True
            cluster.kill_registry()
            self._until(now, length, DOWN_S, self._restart_registry)
        elif member is None or member.stopped or member.leaves or not member.ready:
            return
        elif what == "drains":
            cluster.drain(name)
        elif what == "cuts":
            cluster.net("cut", member.listener)
        elif what == "holds":
            listener = member.listener
            cluster.net("hold", listener)
            self._until(now, length, HELD_S, lambda: self._let(name, listener))
        elif what == "pauses":
            cluster.stop(name)
            self._until(now, length, PAUSE_S, lambda: cluster.go_on(name))
        else:
            cluster.kill(name)
            self._until(now, length, DOWN_S, lambda: cluster.start(name))
        self.counts[what] += 1

    def _candidates(self, what: str) -> list[str]:
        """The ranks that a fault of this kind may strike. Only prefill ranks drain."""
        cluster = self._cluster
        names = (*cluster.sources, *(cluster.sinks if what != "drains" else ()))
        ends = what in ("kills", "drains")
        return [name for name in names if not (ends and name in self._spared)]

    def _until(
        self, now: float, length: float, bounds: tuple[float, float], end: Callable[[], object]
    ) -> None:
        """Schedule the end of a fault. length: 0 to 1, mapped into the bounds; most are short."""
        first, last = bounds
        self._number += 1
        at = now + first + (last - first) * length**3
        heappush(self._ends, (at, self._number, end))

    def _let(self, name: str, listener: str) -> None:
        member = self._cluster.members.get(name)
        if member is not None and member.listener == listener:  # else it has been killed meanwhile
            self._cluster.net("hold", listener, False)

    def _restart_registry(self) -> None:
        self._registry_is_down = False
        self._cluster.start_registry()

