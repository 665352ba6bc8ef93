"""The data-parallel ranks of the rooms of one prefill server.

The table decides (REGISTRY in spec/handoff/dp_rank.py).

Rule 1: an answer is repeated, because a client asks over HTTP until the answer arrives, and several
        ranks ask. It is valid until the run ends that listed the room: a later question without a
        generation is about a later life.
Rule 2: a client that neither retires its rooms nor withdraws its questions (SGLang's) leaves them
        open. After `room_s` this module sends those messages in its place, so that the table ends
        the life, and it can be forgotten.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from msgspec import Struct

from pdproto.registry.wire import FullAnswer, RefusedError, Room, Rooms
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import OPEN_ROOMS_MAX
from pdproto.runtime.store import AnyMessage, Shared, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import dp_rank, routing
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.timers import WAITS

# A life of a room: its number, its generation if the client says one, else which that we counted.
RoomLife: TypeAlias = tuple[int, int | None, int]
Begun: TypeAlias = tuple[RoomLife, int]  # a life, and which of all of the book it was
Fired: TypeAlias = Counter[tuple[str, str]]  # (machine, row): how often
# Into each state of a room's question, the message that leads there from the beginning.
LEADS_TO: Final[Mapping[str, AnyMessage]] = {
    str(routing.Question.CLOSED): routing.withdraw, str(routing.Question.PENDING): routing.query,
}


class KeptRoom(Struct, frozen=True):
    """One life of a room. listed, over: the data-parallel ranks whose entry of it is known, or
    over. question: its state. answer: () if there is none.
    """

    life: RoomLife
    begun: int
    listed: tuple[int, ...]
    over: tuple[int, ...]
    question: str
    answer: tuple[int | None, ...]


class KeptRooms(Struct, frozen=True):
    """The state of a RoomBook as data. groups: the data-parallel ranks that have registered."""

    groups: tuple[int, ...]
    publishes: bool
    begun: int
    counted: tuple[tuple[int, int], ...]
    rooms: tuple[KeptRoom, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the registry. silent_s: seconds without a sign of life after which a rank is
    removed. room_s: seconds for which a room or a question is kept that no client ends. rooms_max:
    open lives of rooms; more are refused. store_silent_s: seconds without sight of the store that
    registries share, after which no look-up is answered.
    """

    silent_s: float = WAITS["no_sign_of_life"].seconds
    room_s: float = 240.0
    rooms_max: int = OPEN_ROOMS_MAX
    store_silent_s: float = WAITS["store_silent"].seconds


def taken(machine: Shared, rows: Fired, message: AnyMessage, *arguments: Any) -> SharedStep:
    """Give a machine a message. Raises RefusedError if only a faulty client sends it."""
    try:
        step = machine.receive(message, *arguments)
    except RemoteProtocolError as error:
        raise RefusedError(400, str(error)) from None
    rows[machine.table.machine.name, step.row] += 1
    if step.kind == "reject":
        raise RefusedError(400, f"{message}{arguments!r}: {step.row}")
    return step


def fired(machine: Shared, rows: Fired, row: str, **parameters: Any) -> SharedStep | None:
    """Fire a row that no message triggers; None if its guard does not hold."""
    step = machine.fire(row, **parameters)
    if step is not None:
        rows[machine.table.machine.name, step.row] += 1
    return step


class RoomBook:
    """The rooms of one prefill server.

    keeps_rule: whether the rank of a room is room modulo ranks; None until all data-parallel ranks
    have registered.
    """

    def __init__(
        self, dp_size: int, limits: Limits, rows: Fired, trace: SharedTrace | None = None
    ) -> None:
        self.limits: Final = limits
        self.keeps_rule: bool | None = None
        self._groups: Final = range(dp_size)
        self._rows: Final = rows
        self._machine: Final = shared(dp_rank.REGISTRY, (), {routing.Group: self._groups},
                                      trace=trace)
        self._answers: Final[dict[RoomLife, int | None]] = {}  # None: the room is gone
        self._counted: Final[dict[int, int]] = {}  # lives without a generation, by room
        self._ages: Final[deque[tuple[float, Begun]]] = deque()
        self._open: Final[dict[RoomLife, int]] = {}  # which of all lives it was
        self._begun = 0  # lives of rooms, ever

    def __len__(self) -> int:
        """The number of lives that are kept."""
        return len(self._open)

    def is_mismatched(self, *, publishes: bool) -> bool:
        """Whether a rank that publishes its rooms, or does not, differs from those before it."""
        mode = self._machine.value(routing.mode)
        return mode is (routing.Mode.RULE if publishes else routing.Mode.PUBLISHED)

    def enroll(self, group: int, *, publishes: bool) -> bool:
        """Note whether a data-parallel rank publishes its rooms. Returns whether it is refused: it
        differs from those before it.
        """
        message = routing.enroll_published if publishes else routing.enroll_rule
        answered = self._take(message, group)
        for row in ("open_by_rule", "open_by_list"):
            step = fired(self._machine, self._rows, row)
            sent = [] if step is None else [one for one, _ in step.sent]
            if routing.keeps_rule in sent or routing.keeps_list in sent:
                self.keeps_rule = routing.keeps_rule in sent
        return any(message is routing.differs for message, _ in answered.sent)

    def publish(self, request: Room, now: float) -> None:
        """List a room. Raises RefusedError for no such rank, and if too many rooms are open."""
        self._check(request)
        life = self._life(request.bootstrap_room, request.generation)
        if request.generation is None and self._is_another(life, request.dp_rank):
            self._counted[request.bootstrap_room] = life[2] + 1
            life = self._life(request.bootstrap_room, None)
        self._begin(life, now)
        self._take(routing.publish, life, request.dp_rank)

    def retire(self, request: Room, now: float) -> None:
        """Remove a room from the list. Raises RefusedError if there is no such rank."""
        self._check(request)
        life = self._life(request.bootstrap_room, request.generation)
        self._begin(life, now)
        self._take(routing.retire, life, request.dp_rank)

    def end_run(self, group: int) -> None:
        """Remove the rooms that the ended run of this data-parallel rank listed."""
        listed = [life for life in self._open
                  if self._machine.value(routing.entry, life, group) is routing.Entry.KNOWN]
        for life in listed:
            self._machine.receive(routing.run_over, life, group)
            step = fired(self._machine, self._rows, "strike_room_of_run", h=life, x=group)
            if step is None or not step.changed:
                continue
            self._answers[life] = None
            room, generation, number = life
            if generation is None:
                self._counted[room] = max(number + 1, self._counted.get(room, 0))

    def query(self, request: Rooms, now: float) -> FullAnswer:
        """The ranks of the rooms. A question about an unknown room is kept, and left out here."""
        found: dict[int, int] = {}
        gone: list[int] = []
        for room, generation in request.lives():
            life = self._life(room, generation)
            self._begin(life, now)
            self._take(routing.query, life)
            if life in self._answers:
                rank = self._answers[life]
                if rank is None:
                    gone.append(room)
                else:
                    found[room] = rank
        return FullAnswer(found, tuple(gone))

    def is_asked(self, request: Rooms) -> bool:
        """Whether all these rooms were asked about before: the query changes nothing then."""
        return all(self._machine.value(routing.question, self._life(*each))
                   is not routing.Question.NONE for each in request.lives())

    def withdraw(self, request: Rooms) -> None:
        """Note that no client waits for these rooms any longer."""
        for room, generation in request.lives():
            life = self._life(room, generation)
            if life in self._open:
                self._take(routing.withdraw, life)

    def old(self, now: float) -> list[Begun]:
        """The lives that have been kept for `room_s`; each is told once."""
        found: list[Begun] = []
        while self._ages and self._ages[0][0] + self.limits.room_s <= now:
            found.append(self._ages.popleft()[1])
        return found

    def end(self, lives: Iterable[Begun]) -> None:
        """End and forget these lives, unless that was done before."""
        for life, begun in lives:
            if self._open.get(life) == begun:
                self._end(life)

    def kept(self) -> KeptRooms:
        """The state, the oldest life first."""
        value, entry = self._machine.value, routing.Entry
        return KeptRooms(
            tuple(x for x in self._groups if value(routing.heard, x)),
            value(routing.mode) is routing.Mode.PUBLISHED, self._begun,
            tuple(self._counted.items()),
            tuple(KeptRoom(
                life, begun,
                tuple(x for x in self._groups if value(routing.entry, life, x) is entry.KNOWN),
                tuple(x for x in self._groups if value(routing.entry, life, x) is entry.OVER),
                str(value(routing.question, life)),
                (self._answers[life],) if life in self._answers else ())
                for life, begun in self._open.items()))

    def restore(self, kept: KeptRooms, now: float) -> None:
        """Give a new book this state. All lives count as begun now."""
        for group in kept.groups:
            self.enroll(group, publishes=kept.publishes)
        for room in kept.rooms:
            if room.question in LEADS_TO:
                self._machine.receive(LEADS_TO[room.question], room.life)
            for group in room.listed:
                self._machine.receive(routing.publish, room.life, group)
            for group in room.over:
                self._machine.receive(routing.retire, room.life, group)
            self._open[room.life] = room.begun
            self._ages.append((now, (room.life, room.begun)))
            for answer in room.answer:
                self._answers[room.life] = answer
        self._begun = kept.begun
        self._counted.update(kept.counted)

    def _take(self, message: AnyMessage, *arguments: Any) -> SharedStep:
        step = taken(self._machine, self._rows, message, *arguments)
        for sent, about in step.sent:
            if sent is routing.answer:
                self._answers[about[0]] = about[1]
            elif sent is routing.gone:
                self._answers[about[0]] = None
        return step

    def _check(self, request: Room) -> None:
        if request.dp_rank not in self._groups:
            last = self._groups[-1]
            raise RefusedError(400, f"dp_rank: {request.dp_rank} is none of 0 to {last}")

    def _life(self, room: int, generation: int | None) -> RoomLife:
        counted = self._counted.get(room, 0) if generation is None else 0
        return room, generation, counted

    def _begin(self, life: RoomLife, now: float) -> None:
        if life not in self._open:
            if len(self._open) >= self.limits.rooms_max:
                raise RefusedError(503, f"{len(self._open):,} rooms are open: no more are taken")
            self._begun += 1
            self._open[life] = self._begun
            self._ages.append((now, (life, self._begun)))

    def _end(self, life: RoomLife) -> None:
        """Send the missing messages of the clients of this life, and forget it (rule 2)."""
        for group in self._groups:
            if self._machine.value(routing.entry, life, group) is routing.Entry.KNOWN:
                self._take(routing.retire, life, group)
        if self._machine.value(routing.question, life) is routing.Question.PENDING:
            self._take(routing.withdraw, life)
        self._machine.forget(Life, life)
        self._answers.pop(life, None)
        self._open.pop(life, None)
        room, generation, _ = life
        if generation is None and self._life(room, None) not in self._open:
            self._counted.pop(room, None)

    def _is_another(self, life: RoomLife, group: int) -> bool:
        """Whether a publication without a generation must be of another life of the room."""
        entries = {
            other: self._machine.value(routing.entry, life, other)
            for other in self._groups
        }
        elsewhere = any(
            entry is routing.Entry.KNOWN for other, entry in entries.items() if other != group
        )
        return elsewhere or entries.get(group) is routing.Entry.OVER
