"""The actions of a node after a step of one of its endpoints, computed once for each step."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.core import Core
from pdproto.node.part import Reaction, Writer
from pdproto.node.sides import Side
from pdproto.runtime.automaton import Automaton, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.handoff.poll import KVPoll

PLANS_MAX: Final = 1 << 16  # cached plans; a full cache is cleared


@dataclass(frozen=True, slots=True)
class Plan:
    """The consequences of a step.

    reactions: in order; those that send frames come first. status, settled: the new values of the
    handle. armed: the timers that run.
    """

    reactions: tuple[tuple[Reaction, Indices], ...]
    status: KVPoll
    settled: KVPoll
    armed: tuple[str, ...]


class Plans:
    """The plans of one node, by what its parts declare.

    send: sends the frame of a writer to the peer that the indices name. known: the plans so far;
    look there first.
    """

    def __init__(
        self, core: Core, side: Side, send: Callable[[Writer, Endpoint, Indices], None]
    ) -> None:
        self._core: Final = core
        self._side: Final = side
        self._send: Final = send
        self.known: Final[dict[Step, Plan]] = {}

    def learn(self, automaton: Automaton, step: Step) -> Plan:
        """The plan for a step of an endpoint with this automaton."""
        if len(self.known) >= PLANS_MAX:
            self.known.clear()
        parts, side, state = self._core.parts, self._side, step.state
        frames = [(partial(self._send, parts.writers[message]), indices)
                  for message, indices in step.sent]
        changes = [(parts.reactions.get((symbol, value)), indices)
                   for symbol, indices, value in step.changed]
        further = [(reaction, ()) for holds, reaction in parts.states if holds(automaton, state)]
        plan = Plan((*frames, *((r, indices) for r, indices in changes if r is not None),
                     *further),
                    automaton.first_value(side.polls, state),
                    automaton.first_value(side.settled, state), automaton.armed(state))
        self.known[step] = plan
        return plan
