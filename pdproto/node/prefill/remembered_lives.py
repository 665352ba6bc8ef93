"""The lives that a source still remembers, and when it may forget them.

A source remembers a life as long as one of the life's sinks may still send a message about it. Each
batch of a sink carries its floor: the sink is done with all lives of lower generations. A
connection delivers in order. So no message comes about a life below the floors of all its sinks.
The ranks of a sink's group end together, as one incarnation. When an incarnation is gone, its lives
are forgotten as soon as the source is done with them. A sink that is only silent may come back, and
ask about its lives: they are remembered for a while (`Link.returns_s`).
"""

from typing import Final

from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.part import Part, Turn
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import SOURCE_IS_OVER

NEVER: Final = 1 << 63


class RememberedLives:
    """The lives of a node, and the floors of its sinks."""

    def __init__(self, core: Core, endpoints: Endpoints) -> None:
        self._returns_s: Final = core.link.returns_s
        self._lives: Final = endpoints.lives
        self._forget: Final = endpoints.forget
        self._generations: Final[dict[int, dict[int, list[Life]]]] = {}
        self._floors: Final[dict[int, dict[str, int]]] = {}
        self._ended: Final[dict[Life, None]] = {}  # lives of incarnations that are gone
        # By sink and incarnation: until when it may come back.
        self._silent: Final[dict[tuple[str, int], float]] = {}
        self.part: Final = Part(
            "remembered lives", batch=lambda peer: self.hear(peer.name, peer.incarnation),
            ended=lambda peer: self.end(peer.incarnation), turns={Turn.ROOMS: self.end_silent})
        core.metrics.gauge("lives_of_silent_peers", "Lives of decode servers that count as gone, "
                           "and may come back", self.silent)

    def add(self, life: Life, endpoint: Endpoint) -> None:
        """Remember a new life."""
        self._lives[life] = endpoint
        generations = self._generations.setdefault(life.incarnation, {})
        generations.setdefault(life.generation, []).append(life)

    def forgotten(self, sink: str, life: Life) -> bool:
        """Whether the sink has said that it is done with this life."""
        return life.generation < self._floors.get(life.incarnation, {}).get(sink, 0)

    def raise_floor(self, sink: str, incarnation: int, floor: int) -> list[Life]:
        """Note that the sink is done with all lives of its incarnation below this generation.
        Returns the lives among them that the source itself is not done with.
        """
        floors = self._floors.get(incarnation)
        if floors is None:
            floors = self._floors[incarnation] = {}
        before = floors.get(sink, 0)
        if floor <= before:
            return []
        floors[sink] = floor
        generations = self._generations.get(incarnation, {})
        known = generations if floor - before > len(generations) else range(before, floor)
        unfinished: list[Life] = []
        for generation in [g for g in known if g in generations and g < floor]:
            kept = [life for life in generations[generation] if not self._drop(life, floors)]
            unfinished += kept
            if kept:
                generations[generation] = kept
            else:
                del generations[generation]
        return unfinished

    def passed(self, life: Life) -> bool:
        """Whether all sinks of the life are done with it."""
        return self._passed(life, self._floors.get(life.incarnation, {}))

    def awaits(self, life: Life | None) -> bool:
        """Whether a sink that is not silent may still send a message about the life."""
        return (life is not None and life in self._lives and life not in self._ended
                and not self.passed(life) and life.incarnation not in self._silent_incarnations())

    def silent(self) -> int:
        """How many lives there are of silent sinks. For any thread."""
        silent = self._silent_incarnations()
        return sum(life.incarnation in silent for life in list(self._lives)) if silent else 0

    def _silent_incarnations(self) -> set[int]:
        return {incarnation for _, incarnation in list(self._silent)}

    def lose(self, sink: str, incarnation: int, now: float) -> list[Life]:
        """Note that the sink is silent. Returns the lives of its incarnation that the source itself
        is not done with.
        """
        self._silent[sink, incarnation] = now + self._returns_s
        generations = self._generations.get(incarnation, {})
        return [life for lives in generations.values() for life in lives
                if not self._is_over(self._lives[life])]

    def hear(self, sink: str, incarnation: int) -> None:
        """Note that the sink is not silent."""
        if self._silent:
            self._silent.pop((sink, incarnation), None)

    def end_silent(self, now: float) -> None:
        """Take the sinks for gone that have been silent for too long."""
        for (_, incarnation), until in list(self._silent.items()):
            if until < now:
                self.end(incarnation)

    def end(self, incarnation: int) -> None:
        """Note that the sinks of this incarnation are gone, and send nothing more."""
        for key in [key for key in self._silent if key[1] == incarnation]:
            del self._silent[key]
        generations = self._generations.pop(incarnation, {})
        self._floors.pop(incarnation, None)
        lives = [life for lives in generations.values() for life in lives]
        self._ended.update(dict.fromkeys(lives))
        for life in lives:
            self.settle(life)

    def settle(self, life: Life | None) -> bool:
        """Drop the life if its sinks are gone or done with it, and the source is done with it too.
        Returns whether it was dropped.
        """
        if life is None:
            return False
        if life not in self._ended:
            return self._settle_passed(life)
        if not self._is_over(self._lives[life]):
            return False
        self.drop(life)
        return True

    def drop(self, life: Life) -> None:
        """Forget a life about which no sink sends a message any more."""
        self._ended.pop(life, None)
        self._forget(self._lives[life])
        self._unlist(life)

    def _settle_passed(self, life: Life) -> bool:
        """Drop a life that is below the floors of all its sinks, if the source is done with it."""
        if life not in self._lives or not self._drop(
            life, self._floors.get(life.incarnation, {})
        ):
            return False
        self._unlist(life)
        return True

    def _unlist(self, life: Life) -> None:
        generations = self._generations.get(life.incarnation, {})
        kept = generations.get(life.generation, [])
        if life in kept:
            kept.remove(life)
            if not kept:
                del generations[life.generation]

    def _passed(self, life: Life, floors: dict[str, int]) -> bool:
        """Whether all its sinks are done with the life."""
        generation = life.generation
        for sink in self._lives[life].peers:  # noqa: SIM110 - `all` takes twice as long for one
            if floors.get(sink, 0) <= generation:
                return False
        return True

    def _drop(self, life: Life, floors: dict[str, int]) -> bool:
        endpoint = self._lives[life]
        if self._passed(life, floors) and self._is_over(endpoint):
            self._forget(endpoint)
            return True
        return False

    @staticmethod
    def _is_over(endpoint: Endpoint) -> bool:
        """Whether the source is done with the life."""
        return endpoint.automaton.holds(SOURCE_IS_OVER, endpoint.state)
