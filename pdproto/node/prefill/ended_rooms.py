"""Rooms whose requests have ended: the part of a prefill node that refuses a leg for which no
request will come.

Rule 1: the table decides which lives are refused (ROOMS in spec/handoff/ended.py). Here requests of
        the application, their ends, and lives without a request become its events.
Rule 2: a room is asked for with a prompt. Another prompt of the same room is another request.
"""

from typing import Final, TypeAlias

from pdproto.ground.layout import Indices
from pdproto.node.endpoints import Endpoints
from pdproto.node.handle import ENDED
from pdproto.node.part import Part
from pdproto.node.prefill.binding import Binding
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.senders import Senders
from pdproto.node.sides import PREFILL
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.limits import TOLD_ROOMS_MAX
from pdproto.runtime.store import Shared
from pdproto.spec.handoff import ended as tables
from pdproto.spec.handoff.roles import Life, Use
from pdproto.spec.language.symbols import Each, Sent

OVER: Final = ("prefill has ended its request of this room: send the whole request again, in "
               "another room")
CALLS: Final = ("open_request", "bind", "end_request", "forget_room")
Asked: TypeAlias = tuple[int, bytes | None]


class EndedRooms:
    """See the rules above. Only the node's loop calls the methods."""

    def __init__(self, endpoints: Endpoints, senders: Senders, binding: Binding) -> None:
        self._endpoints: Final = endpoints
        self._senders: Final = senders
        self._binding: Final = binding
        self._machine: Final = Shared(tables.ROOMS, rigid={tables.once: lambda leg: leg.once})
        self._refusals: Final = [row.name for row in tables.ROOMS.rows
                                 if any(_is_refusal(sent) for sent in row.send)]
        self._ended: Final[dict[Asked, None]] = {}  # the oldest first
        self.part: Final = Part(
            "ended rooms", runs=tables.ROOMS,
            implied=(tables.ask, tables.leave, tables.served, tables.refused),
            calls=dict.fromkeys(CALLS, self._machine.call),
            states=[(_has_ended, self._end)], forgotten=self._forget)
        binding.waits, binding.bound = self.ask, self.bind

    def open(self, sender: Sender) -> None:
        """The application has a request."""
        self._machine.call("open_request", sender, _asked(sender))

    def ask(self, leg: Sender) -> None:
        """A sink asks for a room, for a life that has no request."""
        self._machine.receive(tables.ask, leg, _asked(leg))
        self._answer(leg)

    def bind(self, leg: Sender, sender: Sender) -> None:
        """A leg that has asked has a request now; it may have ended, or be of another prompt."""
        asked = _asked(leg)
        if self._machine.value(tables.waits, leg, asked) \
                and self._machine.value(tables.runs, sender, asked):
            self._machine.call("bind", leg, sender, asked)
        self._drop(leg)

    def _answer(self, leg: Sender) -> None:
        asked = _asked(leg)
        if any(self._machine.fire(row, h=leg, room=asked) for row in self._refusals):
            ended = self._binding.ended(leg)
            self._senders.begin(leg)
            self._senders.give_up(leg, (ended and ended.reason) or OVER)
            self._binding.wait_alone(leg)

    def _end(self, endpoint: Endpoint, _: Indices) -> None:
        sender: Sender = endpoint.owner
        if self._endpoints.is_dropped(sender):
            return  # it has ended before
        asked = _asked(sender)
        if not self._machine.value(tables.runs, sender, asked):
            return
        self._machine.call("end_request", sender, asked)
        self._machine.forget(Use, sender)
        self._ended.pop(asked, None)
        self._ended[asked] = None
        for leg in self._binding.early.of_room(sender.room):
            if self._machine.value(tables.waits, leg, asked):
                self._answer(leg)
        if len(self._ended) > TOLD_ROOMS_MAX:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget the first ended room that no leg waits for."""
        oldest = next((one for one in self._ended
                       if self._machine.enabled("forget_room", room=one)), None)
        if oldest is not None:
            self._machine.call("forget_room", oldest)
            del self._ended[oldest]

    def _forget(self, endpoint: Endpoint) -> None:
        """A life is dropped."""
        self._drop(endpoint.owner)

    def _drop(self, leg: Sender) -> None:
        asked = _asked(leg)
        if self._machine.value(tables.waits, leg, asked):
            self._machine.receive(tables.leave, leg, asked)
        self._machine.forget(Life, leg)


def _is_refusal(sent: Sent | Each) -> bool:
    return isinstance(sent, Sent) and sent.message is tables.refused


def _asked(sender: Sender) -> Asked:
    return sender.room, sender.prompt


def _has_ended(automaton: Automaton, state: int) -> bool:
    return automaton.first_value(PREFILL.polls, state) in ENDED
