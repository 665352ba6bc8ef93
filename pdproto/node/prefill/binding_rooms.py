"""The rooms of a prefill rank, each bound by the rows of its table (binding_room.py).

Requests of one number of a room, and those of a room without a number, are a group of their own.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pdproto.node.prefill.binding_room import OTHER_LIFE, Bind, Room, Tell
from pdproto.node.prefill.sender import Sender
from pdproto.node.timers import Waits
from pdproto.runtime.role import NAMED_ROLE, RANK_ROLE, RankRole
from pdproto.runtime.wire import Abort, Frame, Introduce, Life

Group: TypeAlias = tuple[int, int | None]  # the room, and the number of the request


class BindingRooms:
    """The rooms of a prefill rank. bind, tell: see above.

    clock: the time of this turn. seconds: by name of timer, in place of the defaults.
    """

    def __init__(
        self, bind: Bind, tell: Tell, clock: Callable[[], float] = lambda: 0.0,
        seconds: Mapping[str, float] | None = None, role: RankRole = RANK_ROLE,
    ) -> None:
        self._bind: Final = bind
        self._tell: Final = tell
        self._role: Final = role
        self._rooms: Final[dict[Group, Room]] = {}
        self._waits: Final[Waits[Group]] = Waits(seconds)
        self._clock: Final = clock
        for each in (role, NAMED_ROLE):
            each.prepare()  # so that no turn of the loop makes an automaton for its first room

    def end_waits(self, now: float) -> None:
        """End the waits that are over."""
        if self._waits.is_due(now):
            for _, group in list(self._waits.due(now)):
                self._in_room(group, Room.end_wait)

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

    def _room(self, group: Group) -> Room:
        known = self._rooms.get(group)
        if known is None:
            role = self._role if group[1] is None else NAMED_ROLE
            known = self._rooms[group] = Room(role, self._bind, self._tell)
        return known

    def _in_room(self, group: Group, action: Callable[[Room], None]) -> None:
        room = self._rooms.get(group)
        if room is not None:
            action(room)
            self._tidy(group, room)

    def _tidy(self, group: Group, room: Room) -> None:
        if is_empty := room.is_empty:
            self._rooms.pop(group, None)
        is_armed = not is_empty and room.is_armed
        if is_armed or group in self._waits:
            self._waits.follow(group, (OTHER_LIFE,) if is_armed else (), self._clock())


def _of_life(life: Life) -> Group:
    return life.room, life.use


def _of_sender(sender: Sender) -> Group:
    return sender.room, sender.given_use
