"""What an engine may have come to, by all that it has shown: the states of the tables that fit.

Of an engine only its wire and its polls are seen. So the observer keeps every state that the tables
allow after what was asked of it and what it said: rows that say nothing may have fired or not. An
answer that leaves no state is one that the tables do not allow.

The kit is quicker than any time-out, so the tables are those in which nobody gives up
(transfer.py, NO_TIMEOUTS): a clock only repeats what was said, or tells of a process that is gone.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pdproto.check.narrative import Transition
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.ground.program import Guard
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import can_fence, feeds
from pdproto.spec.handoff.poll import RECEIVING_POLL, SENDING_POLL, KVPoll
from pdproto.spec.handoff.roles import Chunk, Landing, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.transfer import NO_TIMEOUTS
from pdproto.spec.language.formula import free_variables, normal
from pdproto.spec.language.machine import Call, Timer
from pdproto.spec.language.symbols import Sent
from pdproto.testing.adapter import WRITE, Said, Side

ROOMS: Final = 2
CHUNKS: Final = 2
SIZES: Final = {Source: 1, Sink: 1, Life: ROOMS, Landing: 1, Chunk: CHUNKS, Page: ROOMS,
                Slot: ROOMS}
TOPOLOGY: Final = {feeds: frozenset({(0, 0)}), can_fence: frozenset({(0,)})}
FAULTS: Final = ("crash", "sink-crash")
STATES_MAX: Final = 20_000  # looked at for one answer

Thing: TypeAlias = tuple[str, int, int]  # a kind, a room and a chunk
Rest: TypeAlias = tuple[Thing, ...]  # what was said and is not yet explained, sorted


@dataclass(frozen=True, slots=True)
class Past:
    """How a state came about: the last step, and what was before it."""

    move: Transition
    before: "Past | None"


def moves(past: Past | None) -> list[Transition]:
    """The steps, the first one first."""
    told = []
    while past is not None:
        told.append(past.move)
        past = past.before
    return told[::-1]


class Observer:
    """The states that fit, each with what it has yet to be seen to say, and with one way to it.

    It begins where nothing has happened.
    """

    def __init__(self) -> None:
        self.ground: Final = Ground(NO_TIMEOUTS, SIZES, FAULTS, TOPOLOGY)
        self._by_trigger: Final = self._triggers()
        self._quiet: Final = tuple(row for row in self.ground.rows if self._is_quiet(row))
        self._says: Final = {id(row): self._things(row) for row in self.ground.rows}
        self._polls: Final = {side: self._patterns(side) for side in Side}
        self._gone: Final = {
            room: self.ground.layout.field(ends.gone, (0, room, 0)).mask for room in range(ROOMS)}
        self.fits: dict[tuple[int, Rest], Past | None] = {}
        self._published: set[int] = set()
        self._unheard = 0
        self.begin()

    def begin(self) -> None:
        self.fits = {(0, ()): None}
        self._published = set()
        self._unheard = sum(self._gone.values())  # what decode has not heard of

    # The tables, as they are asked here

    def _triggers(self) -> Mapping[tuple[str, int, int], list[GroundRow]]:
        """The rows by what the kit does: a call or a delivery, of a room, with a chunk or 0."""
        found: dict[tuple[str, int, int], list[GroundRow]] = {}
        for row in self.ground.rows:
            environment, on = row.environment, row.row.on
            chunk = environment.get(ends.c, 0)
            match on:
                case Call(name=name):
                    key = name, environment[ends.h], chunk
                case Sent():
                    key = on.message.name, environment[ends.h], 0
                case _ if row.row.name in ("land", "refuse"):
                    key = WRITE, environment[ends.h], chunk
                case _ if row.row.name in ("vanish", "vanish_sink"):
                    key = row.row.name, environment[ends.h], 0
                case _:
                    continue
            found.setdefault(key, []).append(row)
        return found

    @staticmethod
    def _is_quiet(row: GroundRow) -> bool:
        """Whether it may fire without the kit's doing."""
        if row.layer or row.row.name in ("land", "refuse"):
            return False
        return row.row.on is None or isinstance(row.row.on, Timer)

    def _things(self, row: GroundRow) -> Rest:
        """What is seen on the wire when the row fires."""
        things = [(message.name, indices[1], 0)
                  for message, indices in self.ground.sent(row.row, row.environment)]
        if row.row.name == "post":
            things.append((WRITE, row.environment[ends.h], row.environment[ends.c]))
        return tuple(sorted(things))

    def _patterns(self, side: Side) -> list[list[tuple[list[Guard], KVPoll]]]:
        """By room, the guards of each answer to a poll, in their order."""
        table = SENDING_POLL if side is Side.PREFILL else RECEIVING_POLL
        own = {ends.p: 0, ends.d: 0}
        return [
            [(self.ground.patterns(
                normal(formula), {v: own.get(v, room) for v in free_variables(formula)}), answer)
             for formula, answer in table]
            for room in range(ROOMS)
        ]

    def poll(self, state: int, side: Side, room: int) -> KVPoll:
        """What a poll is answered in the state."""
        return next(answer for guards, answer in self._polls[side][room]
                    if any(guard.holds(state) for guard in guards))

    # What the kit does

    def answered(self, name: str, room: int, chunk: int = 0) -> bool:
        """Whether the tables have an answer to this, whichever state it is."""
        rows = self._by_trigger.get((name, room, chunk), ())
        return all(any(self._holds(row, state) for row in rows) for state, _ in self.fits)

    def happen(self, name: str, room: int, chunk: int = 0) -> None:
        """A call, a delivery or a crash: each state becomes what the tables make of it."""
        after: dict[tuple[int, Rest], Past | None] = {}
        for (state, owed), past in self.fits.items():
            for row in self._by_trigger.get((name, room, chunk), ()):
                if self._holds(row, state):
                    move = Transition(row, state, row.action.apply(state))
                    things = tuple(sorted((*owed, *self._says[id(row)])))
                    after.setdefault((move.after, things), Past(move, past))
        self.fits = after

    def publish(self, room: int) -> None:
        self._published.add(room)

    def hear_gone(self, room: int) -> None:
        self._unheard &= ~self._gone[room]

    def _holds(self, row: GroundRow, state: int) -> bool:
        if row.row.name == "grant" and row.environment[ends.h] not in self._published:
            return False
        return row.action.guard.holds(state & ~self._unheard)

    # What the engine shows

    def say(self, said: Iterable[Said]) -> None:
        """Keep the states to which it can have come by saying just this, and being at rest."""
        wanted = tuple(sorted((one.kind, one.room, one.chunk) for one in said))
        kept: dict[tuple[int, Rest], Past | None] = {}
        for (state, owed), past in self.fits.items():
            rest = without(wanted, owed)
            if rest is not None:
                for end, way in self._ways(state, past, rest):
                    kept.setdefault((end, ()), way)
        self.fits = kept

    def _ways(
        self, state: int, past: Past | None, rest: Rest
    ) -> Iterator[tuple[int, Past | None]]:
        """The states at rest that are reached from this one by saying all of the rest."""
        seen = {(state, rest)}
        queue = deque([(state, past, rest)])
        while queue and len(seen) < STATES_MAX:
            at, way, left = queue.popleft()
            must = False
            for row in self._quiet:
                if not self._holds(row, at):
                    continue
                after, things = row.action.apply(at), self._says[id(row)]
                if after == at and not things:
                    continue
                must = must or self._is_due(row)
                remaining = without(left, things)
                if remaining is not None and (after, remaining) not in seen:
                    seen.add((after, remaining))
                    queue.append((after, Past(Transition(row, at, after), way), remaining))
            if not left and not must:
                yield at, way

    @staticmethod
    def _is_due(row: GroundRow) -> bool:
        """Whether an engine at rest has done it: all but what it repeats, and a fence."""
        if isinstance(row.row.on, Timer):
            return row.row.on.detector
        return row.row.name != "finish_fence"

    def polled(self, side: Side, room: int, answer: KVPoll) -> None:
        """Keep the states in which a poll is answered so."""
        self.fits = {fit: past for fit, past in self.fits.items()
                     if self.poll(fit[0], side, room) is answer}


def without(things: Rest, some: Rest) -> Rest | None:
    """What is left of the things; None where some of those to go are not there."""
    left = Counter(things)
    left.subtract(some)
    if any(count < 0 for count in left.values()):
        return None
    return tuple(sorted(left.elements()))
