"""The live ends of a system, for each topology and each assumption of fairness.

Two drivers choose what happens next: Hypothesis (machine.py), and the clock (simulated.py).
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import Ground, Interpretation, ground_for
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.system import Configuration, System
from pdproto.testing.cluster import Cluster, DivergenceError
from pdproto.testing.ends import Pacing
from pdproto.testing.property_checker import PropertyChecker, ViolationError
from pdproto.testing.shrink import shrink

W = TypeVar("W", bound="World")


class World:
    """The ends under one interpretation of the rigid symbols and one assumption."""

    def __init__(self, cluster: Cluster, checker: PropertyChecker, fairness: Fairness) -> None:
        self.cluster: Final = cluster
        self.checker: Final = checker
        self.fairness: Final = fairness

    def cut_down(self, error: DivergenceError | ViolationError) -> ViolationError:
        """The failure of the run so far, with fewer steps."""
        return shrink(error, self.cluster, self.checker, self.fairness)


class Worlds(Generic[W]):
    """The worlds of one system, each made at the first call.

    kind: makes a world. at_once, stores: see `pdproto.testing.ends.make_ends`. properties: names of
    those to check; all if empty. runs: the system whose tables the ends run, if it differs from
    `system`.
    """

    def __init__(
        self,
        kind: Callable[[Cluster, PropertyChecker, Fairness], W],
        system: System,
        configuration: Configuration,
        *,
        at_once: Pacing | None = None,
        stores: frozenset[str] = frozenset(),
        properties: frozenset[str] = frozenset(),
        runs: System | None = None,
    ) -> None:
        self.system: Final = system
        self.configuration: Final = configuration
        self._kind: Final = kind
        self._at_once: Final = at_once
        self._stores: Final = stores
        self._properties: Final = properties
        self._runs: Final = runs
        self._given: Final[list[Interpretation]] = list(
            interpretations(system, configuration.sizes, configuration))
        self._known: Final[dict[tuple[int, Fairness], W]] = {}
        self.assumptions: Final = self.world(0, Fairness.TIMERS).checker.assumptions()

    def chosen(self, topology: int, assumption: int) -> W:
        """The world of two numbers of any size."""
        return self.world(topology % len(self._given),
                          self.assumptions[assumption % len(self.assumptions)])

    def world(self, topology: int, fairness: Fairness) -> W:
        """The world of one topology under one assumption."""
        known = self._known.get((topology, fairness))
        if known is None:
            ground = ground_for(self.system, self.configuration, self._given[topology], fairness)
            cluster = Cluster(ground, at_once=self._at_once, stores=self._stores,
                              runs=self._run_by_ends(ground))
            checker = PropertyChecker(ground, self._properties)
            known = self._known[topology, fairness] = self._kind(cluster, checker, fairness)
        return known

    def _run_by_ends(self, ground: Ground) -> Ground | None:
        """The ground system that the ends run, if it differs from `ground`; else None."""
        if self._runs is None:
            return None
        return Ground(self._runs, ground.sizes, ground.faults, ground.given,
                      consume=ground.consume, timers=ground.timers)
