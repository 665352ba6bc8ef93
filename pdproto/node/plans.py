"""The actions of a node after a step of one of its endpoints, computed once for each step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from pdproto.ground.layout import Indices
from pdproto.node.sides import Side
from pdproto.runtime.automaton import Automaton, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.local_rows import AnyMessage
from pdproto.runtime.wire import AnyFrame
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.formula import Value
from pdproto.spec.language.symbols import Symbol

Reaction: TypeAlias = Callable[[Endpoint, Indices], None]
Writer: TypeAlias = Callable[[Endpoint, int], AnyFrame]

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
    """The plans of one node.

    send: sends the frame of a writer to the peer that the indices name. besides: gives further
    reactions to every step into a state. writers: by message, the function that makes its frame for
    the i-th peer. reactions: by variable and value, the action when the variable gets that value.
    known: the plans so far; look there first.
    """

    def __init__(
        self, side: Side, send: Callable[[Writer, Endpoint, Indices], None],
        besides: Callable[[Automaton, int], Sequence[tuple[Reaction, Indices]]],
    ) -> None:
        self.writers: Final[dict[AnyMessage, Writer]] = {}
        self.reactions: Final[dict[tuple[Symbol, Value], Reaction]] = {}
        self._side: Final = side
        self._send: Final = send
        self._besides: Final = besides
        self.known: Final[dict[Step, Plan]] = {}

    def learn(self, automaton: Automaton, step: Step) -> Plan:
        """The plan for a step of an endpoint with this automaton."""
        if len(self.known) >= PLANS_MAX:
            self.known.clear()
        frames = [(partial(self._send, self.writers[message]), indices)
                  for message, indices in step.sent]
        found = ((self.reactions.get((symbol, value)), indices)
                 for symbol, indices, value in step.changed)
        side, state = self._side, step.state
        plan = Plan((*frames, *((r, indices) for r, indices in found if r is not None),
                     *self._besides(automaton, state)),
                    automaton.first_value(side.polls, state),
                    automaton.first_value(side.settled, state), automaton.armed(state))
        self.known[step] = plan
        return plan
