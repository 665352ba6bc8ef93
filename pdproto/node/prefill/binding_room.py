"""The request of a room to which a life belongs, on a prefill rank.

Rule 1: the table of the rank decides (spec/handoff/binding_prompts.py): `binding-prompts-named` for
        lives and requests that the caller has numbered, and `binding-prompts` for the others. Here
        openings, introductions and aborts become events of the table.
Rule 2: the automaton of a room counts a life and a request until the table asks about them no more
        (LIFE_IS_OVER, REQUEST_IS_OVER).
Rule 3: of a prompt it counts WINDOW lives and WINDOW requests. Further ones queue in their order,
        and an aborted life gives its place up. The table binds the oldest request, and a life waits
        only if no request of its prompt does. So an event of one that queues changes nothing else.
Rule 4: each prompt of a room has a state of its own. No row reads three: those that compare two
        take both states as one.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Final, TypeAlias, TypeVar

from pdproto.node.prefill.sender import Sender
from pdproto.runtime.automaton import Automaton, Event
from pdproto.runtime.local_rows import AnyMessage
from pdproto.runtime.role import WINDOW, AfterEvent, Pairs, RankRole
from pdproto.runtime.wire import Frame, Life
from pdproto.spec.handoff import binding_tables as tables
from pdproto.spec.handoff import roles
from pdproto.spec.handoff.binding_named import name
from pdproto.spec.language.sorts import Sort

T = TypeVar("T")
COMPARED: Final = 4  # prompts of a room with lives, and so many with requests, at a time
OTHER_LIFE: Final = "no_other_life"  # the timer of these tables that runs here
# Called with a life and the request that it is bound to, and whether because their prompts differ.
Bind: TypeAlias = Callable[[Life, Sender, bool], None]
# Called with a life, and a request of another prompt that waits in its room.
Tell: TypeAlias = Callable[[Life, Sender], None]
Ended: TypeAlias = frozenset[Sender]
NOBODY: Final[Ended] = frozenset()


class _Counted(list[T]):
    """The elements of a sort and a prompt that the automaton counts, in its order. queue: the
    others, which few rooms ever have.
    """

    __slots__ = "of_sort", "queue"

    def __init__(self, sort: type[Sort]) -> None:
        super().__init__()
        self.of_sort: Final = sort
        self.queue: deque[T] | None = None

    def wait(self, one: T) -> None:
        """Put the element at the end of the queue."""
        if self.queue is None:
            self.queue = deque()
        self.queue.append(one)


class _Prompt:
    """The lives and requests of a prompt that are not bound, and their state."""

    __slots__ = ("lives", "name", "requests", "state")

    def __init__(self, name: bytes | None, state: int) -> None:
        self.name: Final = name
        self.state = state
        self.requests: Final[_Counted[Sender]] = _Counted(roles.Use)
        self.lives: Final[_Counted[Life]] = _Counted(roles.Life)


class _Known:
    """A life that is not bound. sinks: that have spoken of it. frames: that have introduced it, and
    of which sink. aborted: the first sink that has ended it.
    """

    __slots__ = "aborted", "frames", "sinks"

    def __init__(self, sink: str) -> None:
        self.sinks: Final = [sink]
        self.frames: tuple[tuple[str, type[Frame]], ...] = ()
        self.aborted: str | None = None


class Room:
    """The lives and requests of a room that are not bound. bind, tell: see above."""

    __slots__ = "_automaton", "_bind", "_ended", "_lives", "_prompts", "_role", "_tell"

    def __init__(self, role: RankRole, bind: Bind, tell: Tell) -> None:
        self._role: Final = role
        self._bind: Final = bind
        self._tell: Final = tell
        self._automaton = role.alone
        self._prompts: Final[dict[bytes | None, _Prompt]] = {}
        self._lives: Final[dict[Life, _Known]] = {}
        self._ended: Ended = NOBODY  # in the queue

    def open(self, sender: Sender) -> None:
        """The router has put a request of this room here."""
        of = self._of(sender.prompt)
        requests = of.requests
        if requests.queue or len(requests) == WINDOW:
            requests.wait(sender)
        else:
            self._count_request(of, sender)

    def knows(self, life: Life) -> bool:
        """Whether the life has been introduced, and is not bound."""
        return life in self._lives

    def leave(self, sender: Sender) -> None:
        """The request has ended here."""
        of = self._prompts.get(sender.prompt)
        if of is not None and sender in of.requests:
            place = of.requests.index(sender)
            self._take(of, self._automaton.call("abort_sender", (place,)))
        elif of is not None and of.requests.queue and sender in of.requests.queue:
            self._ended |= {sender}

    def introduce(self, life: Life, sink: str, by: type[Frame]) -> None:
        """A sink introduces a life by a frame of this kind: an introduction, or an address. Only a
        second frame of the same kind says that it waits.
        """
        frame, known = (sink, by), self._lives.get(life)
        if known is None:
            self._lives[life] = known = _Known(sink)
            known.frames = (frame,)
            self._place(life)
            return
        again = frame in known.frames
        if not again:
            known.frames += (frame,)
        if self._counts(known, life, sink):
            self._hear(tables.ask if again else tables.introduce, life, sink)

    def abort(self, life: Life, sink: str) -> None:
        """A sink ends a life."""
        known = self._lives.get(life)
        if known is None:
            self._lives[life] = known = _Known(sink)
            known.aborted = sink
            self._place(life)
            return
        known.aborted = known.aborted or sink
        if self._counts(known, life, sink):
            self._hear(tables.abort, life, sink)

    def _place(self, life: Life) -> None:
        """Count a new life, or have it queue."""
        of = self._of(life.prompt)
        if of.lives.queue or not self._has_place(of):
            of.lives.wait(life)
        else:
            self._count_life(of, life)

    def _counts(self, known: _Known, life: Life, sink: str) -> bool:
        """Whether the automaton counts the life, and so takes an event about it now."""
        if sink not in known.sinks:
            known.sinks.append(sink)
        return life in self._prompts[life.prompt].lives

    def forget_life(self, life: Life) -> None:
        """No sink speaks of this life any more."""
        if self._lives.pop(life, None) is not None:
            of = self._prompts[life.prompt]
            self._leave_out(of, of.lives, life)

    def forget_sender(self, sender: Sender) -> None:
        """No sink may come for this request any more."""
        self._ended -= {sender}
        of = self._prompts.get(sender.prompt)
        if of is not None:
            self._leave_out(of, of.requests, sender)

    def _leave_out(self, of: _Prompt, counted: _Counted[T], one: T) -> None:
        if counted.queue and one in counted.queue:
            counted.queue.remove(one)
        elif one in counted:
            self._without(of, counted, one)
        self._fill(of)

    def _without(self, of: _Prompt, counted: _Counted[T], one: T) -> None:
        place = counted.index(one)
        del counted[place]
        of.state = self._role.without(self._automaton, of.state, counted.of_sort, place)

    def _hear(self, message: AnyMessage, life: Life, sink: str) -> None:
        of, place = self._prompts[life.prompt], self._lives[life].sinks.index(sink)
        self._widen(place + 1)
        about = place, of.lives.index(life), 0
        if message is not tables.ask or not self._compare(of, about):
            self._take(of, self._automaton.message(message, about))
        if life.use is not None:  # the same frame has the number
            for request in list(self._requests()):
                self._number(life, request)

    def _compare(self, of: _Prompt, about: tuple[int, int, int]) -> bool:
        """A life asks again, beside requests of other prompts. Returns whether it was answered."""
        if len(self._prompts) == 1:
            return False
        others = (one for one in self._prompts.values() if one is not of and one.requests)
        return any(self._take_both(of, other, lambda both: both.message(tables.ask, about))
                   for other in list(islice(others, COMPARED)))

    def _requests(self) -> Iterator[Sender]:
        for of in self._prompts.values():
            yield from of.requests

    def _number(self, life: Life, request: Sender) -> None:
        """The life asks for the request of its number, if both are still here."""
        of, other = self._prompts.get(life.prompt), self._prompts.get(request.prompt)
        if (of is None or life not in of.lives
                or other is None or request not in other.requests):
            return
        h, u = of.lives.index(life), other.requests.index(request)
        if of is other:
            self._take(of, self._automaton.message(name, (0, h, 0, u)))
        else:
            self._take_both(of, other, lambda both: both.message(
                name, (0, h, 0, u + WINDOW)))

    @property
    def is_armed(self) -> bool:
        """Whether a request waits for another life than those that have ended."""
        armed, prompts = self._automaton.armed, self._prompts
        for of in prompts.values():
            if OTHER_LIFE in armed(of.state):
                return True
        return len(prompts) > 1 and self._is_armed_by_two()

    def _is_armed_by_two(self) -> bool:
        role, sinks = self._role, self._automaton.sizes[roles.Sink]
        for of, other in self._pairs():
            both, state = role.together(sinks, of.state, other.state)
            if OTHER_LIFE in both.armed(state):
                return True
        return False

    @property
    def is_empty(self) -> bool:
        """Whether it has neither lives nor requests."""
        return not self._prompts

    def end_wait(self) -> None:
        """No other life has come in time."""
        for of in list(self._prompts.values()):
            self._take(of, self._automaton.timer(OTHER_LIFE))
        for of, other in list(self._pairs()):
            self._take_both(of, other, lambda both: both.timer(OTHER_LIFE))

    def _pairs(self) -> Iterator[tuple[_Prompt, _Prompt]]:
        """Two prompts, one with lives and one with requests."""
        if len(self._prompts) > 1:
            lives = (of for of in self._prompts.values() if of.lives)
            requests = (of for of in self._prompts.values() if of.requests)
            for of, other in product(islice(lives, COMPARED), islice(requests, COMPARED)):
                if of is not other:
                    yield of, other

    def _take(self, of: _Prompt, event: Event) -> None:
        """An event of one prompt."""
        after = self._role.after(self._automaton, event, of.state)
        of.state = after.state
        self._carry_out(after, of)

    def _take_both(
        self, of: _Prompt, other: _Prompt, event_in: Callable[[Automaton], Event]
    ) -> bool:
        """An event of two prompts. Returns whether a life or a request has been told of it."""
        sinks = self._automaton.sizes[roles.Sink]
        both, state = self._role.together(sinks, of.state, other.state)
        after = self._role.after(both, event_in(both), state)
        of.state, other.state = self._role.apart(sinks, after.state)
        self._carry_out(after, of, other)
        return bool(after.bound or after.differ)

    def _carry_out(self, after: AfterEvent, *of: _Prompt) -> None:
        """The effects of an event. of: the prompts that its automaton counted, in their order."""
        differ = self._named(after.differ, of) if after.differ else ()
        bound = self._named(after.bound, of) if after.bound else ()
        for place in after.over_requests:
            del of[place // WINDOW].requests[place % WINDOW]
        for place in after.over_lives:
            del self._lives[of[place // WINDOW].lives.pop(place % WINDOW)]
        for pair in differ:
            if pair not in bound:
                self._tell(*pair)
        for pair in bound:
            self._bind(*pair, pair in differ)
        for one in of:
            self._fill(one)

    @staticmethod
    def _named(pairs: Pairs, of: Sequence[_Prompt]) -> Sequence[tuple[Life, Sender]]:
        """The lives and requests in these places."""
        return [
            (of[h // WINDOW].lives[h % WINDOW], of[u // WINDOW].requests[u % WINDOW])
            for h, u in pairs]

    # Which lives and requests the automaton counts

    def _of(self, prompt: bytes | None) -> _Prompt:
        known = self._prompts.get(prompt)
        if known is None:
            known = self._prompts[prompt] = _Prompt(prompt, self._automaton.initial)
        return known

    def _widen(self, sinks: int) -> None:
        """Have the automaton count so many sinks."""
        if sinks > self._automaton.sizes[roles.Sink]:
            wider = self._role.automaton_for(sinks=sinks)
            for of in self._prompts.values():
                of.state = self._automaton.translate(of.state, wider)
            self._automaton = wider

    def _fill(self, of: _Prompt) -> None:
        """Count elements of the queues while there is place for them, and forget a prompt that has
        none.
        """
        requests, lives = of.requests, of.lives
        while requests.queue and len(requests) < WINDOW:
            self._count_request(of, requests.queue.popleft())
        while lives.queue and self._has_place(of):
            self._count_life(of, lives.queue.popleft())
        if (not (requests or lives or requests.queue or lives.queue)
                and self._prompts.get(of.name) is of):
            del self._prompts[of.name]

    def _count_life(self, of: _Prompt, life: Life) -> None:
        lives = of.lives
        lives.append(life)
        known = self._lives[life]
        if known.aborted is not None:
            self._hear(tables.abort, life, known.aborted)
            return
        for sink in tuple(known.sinks):
            if life in lives:
                self._hear(tables.introduce, life, sink)

    def _count_request(self, of: _Prompt, sender: Sender) -> None:
        requests = of.requests
        requests.append(sender)
        self._take(of, self._automaton.call("open_sender", (len(requests) - 1,)))
        if sender.given_use is not None:
            for one in list(self._prompts.values()):
                for life in tuple(one.lives):
                    self._number(life, sender)
        if sender in self._ended:
            self._ended -= {sender}
            self.leave(sender)

    def _has_place(self, of: _Prompt) -> bool:
        """Whether the automaton can count one more life; an aborted one may give its place up."""
        lives = of.lives
        if len(lives) < WINDOW:
            return True
        aborted = next((life for life in lives if self._lives[life].aborted), None)
        if aborted is None:
            return False
        del self._lives[aborted]
        self._without(of, of.lives, aborted)
        return True
