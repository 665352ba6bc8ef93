"""Rooms that several decode requests ask for: the part of a prefill node that keeps their KV.

Rule 1: the table decides which lives are served, and when pages are given back (KEEPER in
        spec/handoff/keep.py). Here lives of decode, ends of senders and clocks become its events.
Rule 2: the first leg has the sender that `open` has made. A further life of the room finds no
        sender, and gets one of its own. All of them have one use: they send the same KV. A life
        that ended before it had a sender gets none. If the first sender ends with it, the room is
        kept for others, as after a leg that was served.
Rule 3: a room whose pages need more places than there are is kept by nobody. An older one that no
        leg reads cedes its places to a later one.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from pdproto.node.core import Core
from pdproto.node.handle import ENDED
from pdproto.node.part import Part, Turn
from pdproto.node.prefill.binding import Binding, two_prompts
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.senders import Senders
from pdproto.node.timers import Waits, rows_on_timers
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import EARLY_LIVES_MAX, ENDED_ROOMS_MAX
from pdproto.runtime.store import Shared
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import keep as tables
from pdproto.spec.handoff.ends import Sending
from pdproto.spec.handoff.keep import Keeping
from pdproto.spec.handoff.roles import Life as LifeSort
from pdproto.spec.handoff.roles import Slot

OVER: Final = ("prefill has handed this request over already, or has given its pages back: send "
               "the whole request again")
ANSWERS: Final = ("serve", "refuse_other", "refuse_late")
CALLS: Final = ("open_room", "end_read", "pass_by", "widen", "cede", "leave", "give_up_room")


class Places(NamedTuple):
    """The bound of what a node keeps. number: of places. pages: that fit into one."""

    number: int = 0
    pages: int = 1


NO_PLACES: Final = Places()
PLACES: Final = 64  # a room has as many as its pages need, so so many rooms are kept at most


def places_in(pages: int) -> Places:
    """Places for so many pages together."""
    each = max(1, pages // PLACES)
    return Places(min(PLACES, pages // each), each)


@dataclass(slots=True, eq=False)
class Kept:
    """A room that is open to further legs.

    first: the sender of the first leg. pages: how many it has. watcher: see Handle.watch, for each
    leg. on_over: called in the loop when its pages are free. legs: those that have asked, and have
    not ended. reason: why the room has served no leg yet. timer: the clock that has ended the
    room.
    """

    first: Sender
    pages: int
    watcher: Callable[[Sender], None]
    on_over: Callable[[], None]
    legs: set[Sender] = field(default_factory=set)
    reason: str = ""
    timer: str = ""

    @property
    def room(self) -> int:
        return self.first.room


def _is_of(leg: Sender, kept: Kept) -> bool:
    return leg.prompt == kept.first.prompt and leg.given_use == kept.first.given_use


class Keeps:
    """See the rules above. Only the node's loop calls the methods.

    put: begins the hand-over of a sender. seconds: by name of timer, in place of the defaults.
    """

    def __init__(
        self, core: Core, senders: Senders, binding: Binding, put: Callable[[Sender], None],
        waits: Waits[Kept], places: Places,
    ) -> None:
        self._core: Final = core
        self._senders: Final = senders
        self._binding: Final = binding
        self._put: Final = put
        self._waits: Final = waits
        self._places: Final = places
        self._machine: Final = Shared(
            tables.KEEPER, bounded={Slot: range(places.number)}, rigid={tables.of: _is_of})
        self._timed: Final = rows_on_timers(tables.KEEPER)
        self._rooms: Final[dict[int, Kept]] = {}
        self._shelf: Final[dict[Kept, int]] = {}  # rooms with places, and how many; oldest first
        self._ended: Final[deque[Kept]] = deque()
        self._legs = 0
        self._drains = False
        self.part: Final = Part(
            "keeps", runs=tables.KEEPER, implied=(tables.ask, tables.served, tables.refused),
            calls=dict.fromkeys(CALLS, self._machine.call),
            timers=dict.fromkeys(self._timed, self._end_waits), due=waits.next, drain=self._drain,
            turns={Turn.ROOMS: self._end_waits})
        binding.further, binding.over = self.meet, self._pass_by
        core.metrics.gauge("num_prefill_kept_rooms", "Rooms whose KV prefill keeps for further "
                           "decode requests", lambda: len(self._shelf))

    # Events of legs

    def open(self, kept: Kept, begin: Callable[[], None]) -> None:
        """The application has a room. begin: puts its first sender here."""
        self._rooms[kept.room] = kept
        self._machine.call("open_room", kept)
        kept.first.watch(None, kept.watcher)
        self._watch(kept, kept.first)
        begin()
        for early in self._binding.early.of_room(kept.room):
            if early.endpoint.life is not None and early.stage is not Sending.FAILED:
                self.meet(early.endpoint.life)
        self._follow(kept)

    def meet(self, life: Life) -> bool:
        """A life of decode that has no sender. Returns whether it gets an answer here."""
        kept = self._rooms.get(life.room)
        if kept is None:
            return False
        if self._legs >= EARLY_LIVES_MAX:
            self._binding.rooms.forget_life(life)
            raise RemoteProtocolError(f"{self._legs:,} lives are served here already")
        leg = Sender(self._senders, life.room, life.use, life.prompt)
        leg.use = kept.first.use
        self._watch(kept, leg)
        self._follow(kept)
        self._answer(kept, leg, life)
        return True

    def _pass_by(self, life: Life, sender: Sender) -> None:
        """This sender ends with a life that has ended before."""
        kept = self._rooms.get(life.room)
        if kept is not None and sender is kept.first:
            self._keep_unread(kept)

    def _keep_unread(self, kept: Kept) -> None:
        """A leg has ended that reads nothing: keep the room for others, if no other one reads."""
        if self._machine.enabled("keep_unread_not", room=kept):
            self._have_one_cede(kept)
        self._machine.call("pass_by", kept)

    def _answer(self, kept: Kept, leg: Sender, life: Life) -> None:
        """Give the table the question of a leg, and the leg its answer."""
        kept.legs.add(leg)
        self._legs += 1
        self._machine.receive(tables.ask, leg, kept)
        answers = (self._machine.fire(row, h=leg, room=kept) for row in ANSWERS)
        step = next(filter(None, answers), None)
        if step is None:
            return
        is_served = any(message is tables.served for message, _ in step.sent)
        if is_served:
            kept.reason = ""
        if is_served and leg is not kept.first:
            leg.watchers = (partial(kept.watcher, leg), *leg.watchers)
        if leg is not kept.first:
            self._put(leg)
        if not is_served:
            why = self._refusal(kept, life, step.row)
            self._senders.give_up(leg, why, transient=step.row == "refuse_late")
            if step.row == "refuse_other":
                kept.reason = why
                self._keep_unread(kept)
                self._follow(kept)

    @staticmethod
    def _refusal(kept: Kept, life: Life, row: str) -> str:
        if row == "refuse_late":
            return OVER
        if life.prompt == kept.first.prompt:
            return (f"room {life.room} is kept for several decode requests, and this one names "
                    f"request {life.use} of it: want it without a use")
        return two_prompts(life, kept.first, None)

    def _watch(self, kept: Kept, leg: Sender) -> None:
        leg.watchers = (*leg.watchers, partial(self._look, kept, leg))

    def _look(self, kept: Kept, leg: Sender) -> None:
        """After each step of a leg: it may have got its life, or have ended."""
        life = leg.endpoint.life
        if leg is kept.first and life is not None and leg not in kept.legs:
            self._answer(kept, leg, life)
        if leg.settled not in ENDED:
            return
        leg.watchers = ()
        if leg in kept.legs:
            kept.legs.remove(leg)
            self._legs -= 1
            if self._machine.value(tables.reads, leg, kept):
                if self._machine.enabled("keep_not", h=leg, room=kept):
                    self._have_one_cede(kept)
                self._machine.call("end_read", leg, kept)
            self._machine.forget(LifeSort, leg)
        elif self._machine.enabled("give_up_room", room=kept):
            self._machine.call("give_up_room", kept)
        self._follow(kept)

    # Events of rooms

    def _follow(self, kept: Kept) -> None:
        """Take the rows that need no event, and run the clocks of the room."""
        machine = self._machine
        if self._drains and machine.enabled("leave", room=kept):
            machine.call("leave", kept)
        if machine.value(tables.keeping, kept) is Keeping.KEPT:
            self._take_places(kept)
        if machine.value(tables.keeping, kept) is not Keeping.KEPT:
            self._shelf.pop(kept, None)
        if machine.fire("give_back", room=kept) is not None:
            self._end(kept)
        self._waits.follow(kept, [
            timer for timer, rows in self._timed.items()
            if any(machine.enabled(row.name, room=kept) for row in rows)], self._core.now)

    def _take_places(self, kept: Kept) -> None:
        """Have the room take the places that it needs, or cede the one that it has."""
        needs = self._needs(kept)
        has = self._shelf.setdefault(kept, 1)
        while has < needs and (self._is_free() or self._have_one_cede(kept)):
            self._machine.call("widen", kept)
            has += 1
            self._shelf[kept] = has
        if has < needs and self._machine.enabled("cede", room=kept):
            self._machine.call("cede", kept)

    def _have_one_cede(self, kept: Kept) -> bool:
        """Have the oldest room that nobody reads cede its places, if this one may have as many
        as it needs. Returns whether one has.
        """
        if self._needs(kept) <= self._places.number:
            for other in self._shelf:
                if other is not kept and self._machine.enabled("cede", room=other):
                    self._machine.call("cede", other)
                    self._follow(other)
                    return True
        return False

    def _needs(self, kept: Kept) -> int:
        return max(1, -(-kept.pages // self._places.pages))

    def _is_free(self) -> bool:
        return self._places.number > sum(self._shelf.values())

    def _end(self, kept: Kept) -> None:
        """The pages of the room are free. It is remembered for a while, to refuse further legs."""
        if kept.first.poll() not in ENDED:
            timer = kept.timer
            why = kept.reason or (
                f"{timer} after {self._waits.seconds[timer]:g} s" if timer else OVER)
            self._senders.give_up(kept.first, why, transient=bool(timer and not kept.reason))
        self._core.tell("on_over", kept.on_over)
        self._ended.append(kept)
        while len(self._ended) > ENDED_ROOMS_MAX:
            oldest = self._ended.popleft()
            self._machine.forget(tables.KeptRoom, oldest)
            if self._rooms.get(oldest.room) is oldest:
                del self._rooms[oldest.room]

    def _end_waits(self, now: float) -> None:
        if self._waits.is_due(now):
            for timer, kept in list(self._waits.due(now)):
                for row in self._timed[timer]:
                    if self._machine.fire(row.name, room=kept) is not None:
                        kept.timer = timer
                self._follow(kept)

    def _drain(self, _why: str) -> None:
        """The server drains: it serves no further leg."""
        self._drains = True
        for kept in list(self._rooms.values()):
            self._follow(kept)
