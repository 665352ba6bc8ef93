"""Rooms whose requests have ended: the part of a prefill node that refuses a leg for which no
request will come.

Rule 1: the table decides which lives are refused (ROOMS in spec/handoff/ended.py). Here requests of
        the application, their ends, and lives without a request become its events.
Rule 2: a room is asked for with a prompt. Another prompt of the same room is another request.
Rule 3: no cell of the table belongs to two rooms, so the table may take the events of a room later,
        in their order. It takes them when a leg may be refused, and those of most rooms never: when
        nothing is open in a room, the table would know of it that a request has ended, and this
        alone is kept.
"""

from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from typing import Any, Final, TypeAlias

from pdproto.ground.layout import Indices
from pdproto.node.endpoints import Endpoints
from pdproto.node.handle import ENDED
from pdproto.node.part import Part
from pdproto.node.prefill.binding import Binding
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.senders import Senders
from pdproto.node.sides import PREFILL
from pdproto.runtime import wire
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
PAST_MAX: Final = 16  # events of a room; then the table takes them


class _Room:
    """past: the events that the table has not taken, in their order. open: how many requests and
    legs are not over. known: the table has taken events of the room.
    """

    __slots__ = ("known", "open", "past")

    def __init__(self) -> None:
        self.past: list[tuple[Any, ...]] = []
        self.open = 0
        self.known = False

    def note(self, *event: Any) -> None:
        """Have the table take this event, a function and its arguments, behind the others."""
        self.past.append(event)
        if len(self.past) > PAST_MAX:
            self.catch_up()

    def catch_up(self) -> None:
        """Have the table take the events of the past."""
        past, self.past, self.known = self.past, [], True
        for event, *arguments in past:
            event(*arguments)


class EndedRooms:
    """See the rules above. Only the node's loop calls the methods."""

    def __init__(self, endpoints: Endpoints, senders: Senders, binding: Binding) -> None:
        self._endpoints: Final = endpoints
        self._senders: Final = senders
        self._binding: Final = binding
        self._machine: Final = Shared(tables.ROOMS, rigid={tables.once: self._is_once})
        self._refusals: Final = [row.name for row in tables.ROOMS.rows
                                 if any(_is_refusal(sent) for sent in row.send)]
        self._rooms: Final[dict[Asked, _Room]] = {}
        # Requests by `id`, with a number of their own; legs by their lives.
        self._open: Final[dict[Hashable, Hashable]] = {}
        # The oldest first. A dict would pass by all that it has lost to find its first key.
        self._ended: Final[OrderedDict[Asked, None]] = OrderedDict()
        self._numbers: Final = count()
        # Made once, because each room keeps some of them.
        self._opens, self._ends, self._leaves = self._open_request, self._end_request, self._leave
        self.part: Final = Part(
            "ended rooms", runs=tables.ROOMS,
            implied=(tables.ask, tables.leave, tables.served, tables.refused),
            calls=dict.fromkeys(CALLS, self._machine.call),
            states=[(_has_ended, self._end)], forgotten=self._forget)
        binding.waits, binding.bound = self.ask, self.bind

    def open(self, sender: Sender) -> None:
        """The application has a request."""
        asked = _asked(sender)
        room, request = self._room(asked), next(self._numbers)
        self._open[id(sender)] = request
        room.open += 1
        room.note(self._opens, request, asked)

    def ask(self, leg: Sender) -> None:
        """A sink asks for a room, for a life that has no request."""
        asked, life = _asked(leg), self._endpoints.life(leg.endpoint)
        room = self._room(asked)
        if life not in self._open:
            self._open[life] = life
            room.open += 1
        room.note(self._machine.receive, tables.ask, life, asked)
        if asked in self._ended:
            self._answer(leg, room)

    def bind(self, leg: Sender, sender: Sender) -> None:
        """A leg that has asked has a request now; it may have ended, or be of another prompt."""
        asked, life = _asked(leg), self._endpoints.life(leg.endpoint)
        if life in self._open:
            self._rooms[asked].note(self._bind, life, self._open.get(id(sender)), asked)
            self._drop(life, asked)

    def _open_request(self, request: Hashable, asked: Asked) -> None:
        self._machine.call("open_request", request, asked)

    def _bind(self, life: Hashable, request: Hashable, asked: Asked) -> None:
        if self._machine.value(tables.waits, life, asked) \
                and self._machine.value(tables.runs, request, asked):
            self._machine.call("bind", life, request, asked)

    def _answer(self, leg: Sender, room: _Room) -> None:
        room.catch_up()
        asked, life = _asked(leg), leg.endpoint.life
        if any(self._machine.fire(row, h=life, room=asked) for row in self._refusals):
            ended = self._binding.ended(leg)
            self._senders.begin(leg)
            self._senders.give_up(leg, (ended and ended.reason) or OVER,
                                  transient=ended is None or ended.transient)
            self._binding.wait_alone(leg)

    def _end(self, endpoint: Endpoint, _: Indices) -> None:
        sender: Sender = endpoint.owner
        request = self._open.pop(id(sender), None)
        if request is None:
            return  # it has ended before
        asked = _asked(sender)
        room = self._rooms[asked]
        room.open -= 1
        self._ended[asked] = None
        self._ended.move_to_end(asked)
        if room.open or room.known:
            room.note(self._ends, request, asked)
            self._answer_all(sender, room)
        else:
            del self._rooms[asked]  # rule 3
        if len(self._ended) > TOLD_ROOMS_MAX:
            self._forget_oldest()

    def _answer_all(self, ended: Sender, room: _Room) -> None:
        """Answer the legs of the room and prompt of this request."""
        for leg in self._binding.early.of_room(ended.room) if room.open else ():
            if leg.prompt == ended.prompt and leg.endpoint.life in self._open:
                self._answer(leg, room)

    def _forget_oldest(self) -> None:
        """Forget the first ended room that no leg waits for."""
        if next(iter(self._ended)) not in self._rooms:  # as for most; to look for it takes longer
            self._ended.popitem(last=False)
            return
        oldest = next((one for one in self._ended if self._is_forgotten(one)), None)
        if oldest is not None:
            del self._ended[oldest]
            if oldest in self._rooms:
                self._tidy(oldest)

    def _is_forgotten(self, asked: Asked) -> bool:
        """Whether the table has forgotten the room, or has not heard of it and need not."""
        room = self._rooms.get(asked)
        if room is None:
            return True
        room.catch_up()
        if not self._machine.enabled("forget_room", room=asked):
            return False
        self._machine.call("forget_room", asked)
        return True

    def _forget(self, endpoint: Endpoint) -> None:
        """A life is dropped."""
        if (life := endpoint.life) in self._open:
            self._drop(life, _asked(endpoint.owner))

    def _drop(self, life: Hashable, asked: Asked) -> None:
        """A life that has asked waits no more."""
        del self._open[life]
        room = self._rooms[asked]
        room.open -= 1
        room.note(self._leaves, life, asked)
        self._tidy(asked)

    def _end_request(self, request: Hashable, asked: Asked) -> None:
        self._machine.call("end_request", request, asked)
        self._machine.forget(Use, request)

    def _leave(self, life: Hashable, asked: Asked) -> None:
        if self._machine.value(tables.waits, life, asked):
            self._machine.receive(tables.leave, life, asked)
        self._machine.forget(Life, life)

    def _room(self, asked: Asked) -> _Room:
        room = self._rooms.get(asked)
        if room is None:
            room = self._rooms[asked] = _Room()
            if asked in self._ended:
                request = next(self._numbers)
                room.note(self._opens, request, asked)
                room.note(self._ends, request, asked)
        return room

    def _tidy(self, asked: Asked) -> None:
        """Drop a room of which nothing is open and nothing is remembered."""
        room = self._rooms[asked]
        if room.known:
            room.catch_up()
        if not room.open and asked not in self._ended:
            del self._rooms[asked]

    def _is_once(self, life: wire.Life) -> bool:
        leg = self._binding.early.of_life(life)
        return leg is not None and leg.once


def _is_refusal(sent: Sent | Each) -> bool:
    return isinstance(sent, Sent) and sent.message is tables.refused


def _asked(sender: Sender) -> Asked:
    return sender.room, sender.prompt


def _has_ended(automaton: Automaton, state: int) -> bool:
    return automaton.first_value(PREFILL.polls, state) in ENDED
