"""The answer of another checker to the questions of a system."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import Ground
from pdproto.spec.language.properties import Sometimes
from pdproto.spec.language.system import Configuration, System


class NotInstalledError(Exception):
    """The other checker is not on this machine; the message says how to get it."""


class FailedError(Exception):
    """The other checker ended without an answer; the message has its last lines."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """The states that a checker found, and the names of the properties that it refuted.

    seconds: by the clock, with the start of the checker. transitions: steps that it took. depth:
    steps from an initial state to the last level; both are 0 where the checker is not asked for
    them.
    """

    checker: str
    states: int
    violated: Collection[str]
    seconds: float
    transitions: int = 0
    depth: int = 0


def in_each_world(
    system: System, configuration: Configuration, ask: Callable[[Ground], Opinion]
) -> Opinion:
    """The opinions on each interpretation of the rigid symbols as one."""
    told = [ask(Ground(system, configuration.sizes, configuration.faults, given))
            for given in interpretations(system, configuration.sizes, configuration)]
    # A state that is to be found needs to be found in one interpretation only.
    wanted = {claim.name for claim in system.properties if isinstance(claim, Sometimes)}
    each = [set(one.violated) for one in told]
    violated = set().union(*each) - wanted | wanted.intersection(*each)
    return Opinion(told[0].checker, sum(one.states for one in told), violated,
                   sum(one.seconds for one in told), sum(one.transitions for one in told),
                   max(one.depth for one in told))
