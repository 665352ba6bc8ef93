"""The lives that a source still remembers, and when it may forget them.

A source remembers a life as long as one of the life's sinks may still send a message about it. Each
batch of a sink carries its floor: the sink is done with all lives of lower generations. A
connection delivers in order. So no message comes about a life below the floors of all its sinks.
The ranks of a sink's group end together, as one incarnation of one member: the owner of their
lives. When an owner is gone, its lives are forgotten as soon as the source is done with them. A
sink that is only silent may come back, and ask about its lives: they are remembered for a while
(`Link.returns_s`).
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

from pdproto.node.backlog import AT_ONCE
from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.part import Part, Turn
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import Life, Owner
from pdproto.spec.handoff.poll import SOURCE_IS_OVER
from pdproto.spec.handoff.presence import SILENT

NEVER: Final = 1 << 63


class RememberedLives:
    """The lives of a node, and the floors of its sinks."""

    def __init__(self, core: Core, endpoints: Endpoints) -> None:
        self._returns_s: Final = core.link.returns_s
        self._peers: Final = core.peers
        self._each: Final = core.backlog.each
        self._later: Final = core.backlog.later
        self._lives: Final = endpoints.lives
        self._forget: Final = endpoints.forget
        self._generations: Final[dict[Owner, dict[int, tuple[Life, ...]]]] = {}
        self._floors: Final[dict[Owner, dict[str, int]]] = {}
        # By sink and owner: until when it may come back.
        self._silent: Final[dict[tuple[str, Owner], float]] = {}
        self.part: Final = Part(
            "remembered lives", batch=lambda peer: self.hear(peer.name, peer.owner),
            ended=lambda peer: self.end(peer.owner), turns={Turn.ROOMS: self.end_silent})
        core.metrics.gauge("lives_of_silent_peers",
                           "Lives of decode servers of which no sign of life comes", self.silent)

    def add(self, life: Life, endpoint: Endpoint) -> None:
        """Remember a new life."""
        self._lives[life] = endpoint
        generations = self._generations.setdefault(life.owner, {})
        generations[life.generation] = *generations.get(life.generation, ()), life

    def forgotten(self, sink: str, life: Life) -> bool:
        """Whether the sink has said that it is done with this life."""
        return life.generation < self._floors.get(life.owner, {}).get(sink, 0)

    def raise_floor(
        self, sink: str, owner: Owner, floor: int, do: Callable[[Life, str], None]
    ) -> None:
        """Note that the sink is done with all its lives below this generation.
        do: called for each life among them that the source itself is not done with.
        """
        floors = self._floors.get(owner)
        if floors is None:
            floors = self._floors[owner] = {}
        before = floors.get(sink, 0)
        if floor <= before:
            return
        floors[sink] = floor
        generations = self._generations.get(owner, {})
        few = floor - before <= len(generations)
        known: Sequence[int] = range(before, floor) if few else list(generations)

        def pass_by(generation: int) -> None:
            if generation < floor and generation in generations:
                self._pass_by(generations, generation, floors, sink, do)

        if len(known) > AT_ONCE:
            self._each(known, pass_by)
            return
        for generation in known:
            pass_by(generation)

    def _pass_by(
        self, generations: dict[int, tuple[Life, ...]], generation: int, floors: dict[str, int],
        sink: str, do: Callable[[Life, str], None],
    ) -> None:
        kept = tuple(life for life in generations.get(generation, ())
                     if life in self._lives and not self._drop(life, floors))
        if not kept:
            generations.pop(generation, None)
            return
        generations[generation] = kept
        for life in kept:
            do(life, sink)

    def passed(self, life: Life) -> bool:
        """Whether all sinks of the life are done with it."""
        return self._passed(life, self._floors.get(life.owner, {}))

    def awaits(self, life: Life | None) -> bool:
        """Whether a sink that is not silent may still send a message about the life."""
        return (life is not None and life in self._lives and not self._lives[life].alone
                and not self.passed(life) and not self._is_silent(life))

    def silent(self) -> int:
        """How many lives there are of silent sinks. For any thread."""
        if not self._silent and not any(
                peer.presence in SILENT for peer in list(self._peers.values())):
            return 0
        return sum(map(self._is_silent, list(self._lives)))

    def _is_silent(self, life: Life) -> bool:
        """Whether a sink of the life is silent."""
        endpoint, peers = self._lives.get(life), self._peers
        return endpoint is not None and any(
            (sink, life.owner) in self._silent
            or (sink in peers and peers[sink].presence in SILENT) for sink in endpoint.peers)

    def lose(self, sink: str, owner: Owner, now: float) -> None:
        """Note that nothing is kept for the sink any more; it may still come back."""
        self._silent[sink, owner] = now + self._returns_s

    def each_open(self, owner: Owner, do: Callable[[Life], None]) -> None:
        """Do this with each life of this owner that the source itself is not done with."""
        generations = self._generations.get(owner, {})

        def look(lives: tuple[Life, ...]) -> None:
            for life in lives:
                if life in self._lives and not self._is_over(self._lives[life]):
                    do(life)

        self._each(list(generations.values()), look)

    def hear(self, sink: str, owner: Owner) -> None:
        """Note that the sink is not silent."""
        if self._silent:
            self._silent.pop((sink, owner), None)

    def end_silent(self, now: float) -> None:
        """Take the sinks for gone that have been silent for too long."""
        for (_, owner), until in list(self._silent.items()):
            if until < now:
                self.end(owner)

    def end(self, owner: Owner) -> None:
        """Note that the sinks of this owner are gone, and send nothing more."""
        for key in [key for key in self._silent if key[1] == owner]:
            del self._silent[key]
        generations = self._generations.pop(owner, {})
        self._floors.pop(owner, None)
        if len(generations) <= AT_ONCE:
            self._each(list(generations.values()), self._end)
        else:  # to free the entries of many takes as long as to end them
            self._later((generations.popitem()[1] for _ in repeat(None, len(generations))),
                        self._end)

    def _end(self, lives: tuple[Life, ...]) -> None:
        for life in lives:
            if life in self._lives:
                self._lives[life].alone = True
                self.settle(life)

    def settle(self, life: Life | None) -> bool:
        """Drop the life if its sinks are gone or done with it, and the source is done with it too.
        Returns whether it was dropped.
        """
        if life is None:
            return False
        endpoint = self._lives.get(life)
        if endpoint is None or not endpoint.alone:
            return self._settle_passed(life)
        if not self._is_over(endpoint):
            return False
        self.drop(life)
        return True

    def drop(self, life: Life) -> None:
        """Forget a life about which no sink sends a message any more."""
        self._forget(self._lives[life])
        self._unlist(life)

    def _settle_passed(self, life: Life) -> bool:
        """Drop a life that is below the floors of all its sinks, if the source is done with it."""
        if life not in self._lives or not self._drop(
            life, self._floors.get(life.owner, {})
        ):
            return False
        self._unlist(life)
        return True

    def _unlist(self, life: Life) -> None:
        generations = self._generations.get(life.owner, {})
        kept = generations.get(life.generation, ())
        if kept == (life,):
            del generations[life.generation]
        elif life in kept:
            generations[life.generation] = tuple(one for one in kept if one != life)

    def _passed(self, life: Life, floors: dict[str, int]) -> bool:
        """Whether all its sinks are done with the life: of one that has failed before it knows its
        sinks, all those of its owner that are known here, and some are.
        """
        generation, sinks = life.generation, self._lives[life].peers or floors
        for sink in sinks:
            if floors.get(sink, 0) <= generation:
                return False
        return bool(sinks)

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
