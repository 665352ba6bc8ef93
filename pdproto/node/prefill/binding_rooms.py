"""The request of a room to which a life belongs, on a prefill rank.

Rule 1: the table of the rank decides: `binding-named` for lives and requests that the caller has
        named (spec/handoff/binding_named.py), and `binding-ordered` for the others, where the rank
        leads every life. Here openings, introductions and aborts become events of the table.
        Requests of one name, and those of a room without a name, are a group of their own.
Rule 2: the automaton of a room counts a life and a request until the table asks about them no more
        (LIFE_IS_OVER, REQUEST_IS_OVER).
Rule 3: it counts WINDOW lives and WINDOW requests. Further ones queue in their order, and an
        aborted life gives its place up. The table binds the oldest request, and a life waits only
        if no request does. So an event of one that queues changes nothing else.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from pdproto.node.prefill.sender import Sender
from pdproto.node.timers import Waits
from pdproto.runtime.automaton import Event
from pdproto.runtime.local_rows import AnyMessage
from pdproto.runtime.role import NAMED_ROLE, RANK_ROLE, WINDOW, RankRole
from pdproto.runtime.wire import Abort, Frame, Introduce, Life
from pdproto.spec.handoff import binding_tables as tables
from pdproto.spec.handoff import roles
from pdproto.spec.language.sorts import Sort

T = TypeVar("T")
OTHER_LIFE: Final = "no_other_life"  # the timer of these tables that runs here
Group: TypeAlias = tuple[int, int | None]  # the room, and the name of the request


class _Counted(Generic[T]):
    """The elements of a sort: those that the automaton counts, in its order, and the queue, which
    few rooms ever have.
    """

    __slots__ = ("inside", "queue", "sort")

    def __init__(self, sort: type[Sort]) -> None:
        self.sort: Final = sort
        self.inside: Final[list[T]] = []
        self.queue: deque[T] | None = None

    def wait(self, one: T) -> None:
        """Put the element at the end of the queue."""
        if self.queue is None:
            self.queue = deque()
        self.queue.append(one)


class _Room:
    """The lives and requests of a room that are not bound. bind: called with those that are."""

    __slots__ = ("_aborted", "_automaton", "_bind", "_ended", "_heard", "_role", "_sinks", "_state",
                 "lives", "requests")

    def __init__(self, role: RankRole, bind: Callable[[Life, Sender], None]) -> None:
        self._role: Final = role
        self._bind: Final = bind
        self._automaton = role.automaton_for(sinks=1)
        self._state = self._automaton.initial
        self.requests: Final[_Counted[Sender]] = _Counted(roles.Use)
        self.lives: Final[_Counted[Life]] = _Counted(roles.Life)
        self._sinks: Final[dict[Life, list[str]]] = {}  # that have introduced a life
        self._heard: Final[dict[Life, set[tuple[str, type[Frame]]]]] = {}
        self._aborted: Final[dict[Life, str]] = {}  # by the first sink that has ended it
        self._ended: Final[set[Sender]] = set()  # in the queue

    def open(self, sender: Sender) -> None:
        """The router has put a request of this room here."""
        requests = self.requests
        if requests.queue or len(requests.inside) == WINDOW:
            requests.wait(sender)
        else:
            self._count_request(sender)

    def knows(self, life: Life) -> bool:
        """Whether the life has been introduced, and is not bound."""
        return life in self._sinks

    def leave(self, sender: Sender) -> None:
        """The request has ended here."""
        if sender in self.requests.inside:
            place = self.requests.inside.index(sender)
            self._take(self._automaton.call("abort_sender", (place,)))
        elif self.requests.queue and sender in self.requests.queue:
            self._ended.add(sender)

    def introduce(self, life: Life, sink: str, by: type[Frame]) -> None:
        """A sink introduces a life by a frame of this kind: an introduction, or an address. Only a
        second frame of the same kind says that it waits.
        """
        heard = self._heard.setdefault(life, set())
        again = (sink, by) in heard
        heard.add((sink, by))
        if self._counts(life, sink):
            self._hear(tables.ask if again else tables.introduce, life, sink)

    def abort(self, life: Life, sink: str) -> None:
        """A sink ends a life."""
        self._aborted.setdefault(life, sink)
        if self._counts(life, sink):
            self._hear(tables.abort, life, sink)

    def _counts(self, life: Life, sink: str) -> bool:
        """Whether the automaton counts the life, and so takes an event about it now."""
        sinks = self._sinks.get(life)
        if sinks is None:
            self._sinks[life] = [sink]
            if self.lives.queue or not self._has_place():
                self.lives.wait(life)
            else:
                self._count_life(life)
            return False
        if sink not in sinks:
            sinks.append(sink)
        return life in self.lives.inside

    def forget_life(self, life: Life) -> None:
        """No sink speaks of this life any more."""
        if life in self._sinks:
            self._drop(life)
            self._leave_out(self.lives, life)

    def forget_sender(self, sender: Sender) -> None:
        """No sink may come for this request any more."""
        self._ended.discard(sender)
        self._leave_out(self.requests, sender)

    def _leave_out(self, counted: _Counted[T], one: T) -> None:
        if counted.queue and one in counted.queue:
            counted.queue.remove(one)
        elif one in counted.inside:
            place = counted.inside.index(one)
            del counted.inside[place]
            self._state = self._role.without(self._automaton, self._state, counted.sort, place)
            self._fill()

    def _hear(self, message: AnyMessage, life: Life, sink: str) -> None:
        place = self._sinks[life].index(sink)
        if place >= self._automaton.sizes[roles.Sink]:
            wider = self._role.automaton_for(sinks=place + 1)
            self._state = self._automaton.translate(self._state, wider)
            self._automaton = wider
        self._take(self._automaton.message(message, (place, self.lives.inside.index(life), 0)))
        if life.use is not None and life in self.lives.inside:  # the same frame has the name
            of = self.lives.inside.index(life)
            self._take(self._automaton.message(tables.name, (place, of, 0, 0)))

    @property
    def is_armed(self) -> bool:
        """Whether a request waits for another life than those that have ended."""
        return OTHER_LIFE in self._automaton.armed(self._state)

    @property
    def is_empty(self) -> bool:
        """Whether it has neither lives nor requests."""
        requests, lives = self.requests, self.lives
        return not (requests.inside or lives.inside or requests.queue or lives.queue)

    def end_wait(self) -> None:
        """No other life has come in time."""
        self._take(self._automaton.timer(OTHER_LIFE))

    def _drop(self, life: Life) -> None:
        del self._sinks[life]
        self._heard.pop(life, None)
        self._aborted.pop(life, None)

    def _take(self, event: Event) -> None:
        after = self._role.after(self._automaton, event, self._state)
        self._state = after.state
        requests, lives = self.requests.inside, self.lives.inside
        bound = [(lives[h], requests[u]) for h, u in after.bound] if after.bound else ()
        for place in after.over_requests:
            del requests[place]
        for place in after.over_lives:
            self._drop(lives.pop(place))
        for life, sender in bound:
            self._bind(life, sender)
        if self.requests.queue or self.lives.queue:
            self._fill()

    def _fill(self) -> None:
        """Count elements of the queues while there is place for them."""
        requests, lives = self.requests, self.lives
        while requests.queue and len(requests.inside) < WINDOW:
            self._count_request(requests.queue.popleft())
        while lives.queue and self._has_place():
            self._count_life(lives.queue.popleft())

    def _count_life(self, life: Life) -> None:
        inside = self.lives.inside
        inside.append(life)
        if life in self._aborted:
            self._hear(tables.abort, life, self._aborted[life])
            return
        for sink in tuple(self._sinks[life]):
            if life in inside:
                self._hear(tables.introduce, life, sink)

    def _count_request(self, sender: Sender) -> None:
        inside = self.requests.inside
        inside.append(sender)
        self._take(self._automaton.call("open_sender", (len(inside) - 1,)))
        if sender in self._ended:
            self._ended.remove(sender)
            self.leave(sender)

    def _has_place(self) -> bool:
        """Whether the automaton can count one more life; an aborted one may give its place up."""
        inside = self.lives.inside
        if len(inside) < WINDOW:
            return True
        aborted = next((life for life in inside if life in self._aborted), None)
        if aborted is None:
            return False
        place = inside.index(aborted)
        del inside[place]
        self._drop(aborted)
        self._state = self._role.without(self._automaton, self._state, roles.Life, place)
        return True


class BindingRooms:
    """The rooms of a prefill rank. bind: called with a life and the sender that it is bound to.

    clock: the time of this turn. seconds: by name of timer, in place of the defaults.
    """

    def __init__(
        self, bind: Callable[[Life, Sender], None], clock: Callable[[], float] = lambda: 0.0,
        seconds: Mapping[str, float] | None = None, role: RankRole = RANK_ROLE,
    ) -> None:
        self._bind: Final = bind
        self._role: Final = role
        self._rooms: Final[dict[Group, _Room]] = {}
        self._waits: Final[Waits[Group]] = Waits(seconds)
        self._clock: Final = clock
        for each in (role, NAMED_ROLE):
            each.prepare()  # so that no turn of the loop makes an automaton for its first room

    def end_waits(self, now: float) -> None:
        """End the waits that are over."""
        if self._waits.is_due(now):
            for _, group in list(self._waits.due(now)):
                self._in_room(group, _Room.end_wait)

    def next(self) -> float | None:
        """When the next wait ends; None if none runs."""
        return self._waits.next()

    def __len__(self) -> int:
        return len(self._rooms)

    def __contains__(self, life: Life) -> bool:
        """Whether the life has been introduced, and is not bound."""
        room = self._rooms.get(_of_life(life))
        return room is not None and room.knows(life)

    def open(self, sender: Sender) -> None:
        """The router has put a request here."""
        group = _of_sender(sender)
        room = self._room(group)
        room.open(sender)
        self._tidy(group, room)

    def leave(self, sender: Sender) -> None:
        """The request has ended here."""
        self._in_room(_of_sender(sender), lambda room: room.leave(sender))

    def hear(self, life: Life, sink: str, by: type[Frame] = Introduce) -> None:
        """A sink sends a frame of this kind about a life that has no request."""
        group = _of_life(life)
        room = self._room(group)
        if by is Abort:
            room.abort(life, sink)
        else:
            room.introduce(life, sink, by)
        self._tidy(group, room)

    def forget_life(self, life: Life) -> None:
        """No sink speaks of the life any more."""
        self._in_room(_of_life(life), lambda room: room.forget_life(life))

    def forget_sender(self, sender: Sender) -> None:
        """No sink may come for the request any more."""
        self._in_room(_of_sender(sender), lambda room: room.forget_sender(sender))

    def _room(self, group: Group) -> _Room:
        known = self._rooms.get(group)
        if known is None:
            role = self._role if group[1] is None else NAMED_ROLE
            known = self._rooms[group] = _Room(role, self._bind)
        return known

    def _in_room(self, group: Group, action: Callable[[_Room], None]) -> None:
        room = self._rooms.get(group)
        if room is not None:
            action(room)
            self._tidy(group, room)

    def _tidy(self, group: Group, room: _Room) -> None:
        is_armed = room.is_armed
        if is_armed or group in self._waits:
            self._waits.follow(group, (OTHER_LIFE,) if is_armed else (), self._clock())
        if room.is_empty:
            self._rooms.pop(group, None)


def _of_life(life: Life) -> Group:
    return life.room, life.use


def _of_sender(sender: Sender) -> Group:
    return sender.room, sender.given_use
