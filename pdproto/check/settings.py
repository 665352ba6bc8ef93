"""How to check: the settings of a check, whatever its system."""

from dataclasses import dataclass

from pdproto.check.explore import (
    NATIVE,
    NO_LIMITS,
    EngineChoice,
    Monitor,
    SearchLimits,
    silent,
)
from pdproto.spec.language.properties import Fairness


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How to check.

    properties: the names to check; all if empty. workers: threads. keep_going: continue after a
    violation. fairness: the assumptions for liveness; if empty, each property's own. monitor: is
    called with the progress of each search. engine: of all searches.
    """

    properties: tuple[str, ...] = ()
    limits: SearchLimits = NO_LIMITS
    workers: int = 1
    keep_going: bool = False
    fairness: tuple[Fairness, ...] = ()
    monitor: Monitor = silent
    engine: EngineChoice = NATIVE

    def wants(self, name: str) -> bool:
        """Whether the property of this name is to be checked."""
        return not self.properties or name in self.properties
