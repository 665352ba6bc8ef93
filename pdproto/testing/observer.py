"""The states of the tables that are consistent with everything an engine has shown.

The kit sees only the engine's messages and polls. So the observer keeps every state that the tables
allow after the calls and the messages so far: a row without a message may have fired or not. If an
answer leaves no state, the tables do not allow the answer.

The kit is faster than any time-out, so the observer uses the tables in which no end gives up
(transfer.py, NO_TIMEOUTS). There a clock only repeats a message, or reports a process that is gone.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pdproto.check.runs import RealRun, Transition
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.ground.program import Guard
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import can_fence, feeds
from pdproto.spec.handoff.poll import RECEIVING_POLL, SENDING_POLL, KVPoll
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.transfer import NO_TIMEOUTS
from pdproto.spec.language.formula import free_variables, normal
from pdproto.spec.language.machine import Call, Timer
from pdproto.spec.language.symbols import Sent
from pdproto.testing.adapter import WRITE, Said, Side

ROOMS: Final = 2
CHUNKS: Final = 2
SIZES: Final = {Source: 1, Sink: 1, Life: ROOMS, Buffer: 1, Chunk: CHUNKS, Page: ROOMS,
                Slot: ROOMS}
TOPOLOGY: Final = {feeds: frozenset({(0, 0)}), can_fence: frozenset({(0,)})}
FAULTS: Final = ("crash", "sink-crash")
STATES_MAX: Final = 20_000  # searched for one answer

Thing: TypeAlias = tuple[str, int, int]  # a kind, a room and a chunk
Rest: TypeAlias = tuple[Thing, ...]  # messages that no row explains yet, sorted


@dataclass(frozen=True, slots=True)
class Past:
    """A path to a state: the last step, and the path before it."""

    move: Transition
    before: "Past | None"


def moves(past: Past | None) -> RealRun:
    """The steps of a path, from the first one on."""
    told = []
    while past is not None:
        told.append(past.move)
        past = past.before
    return RealRun(0, told[::-1])


class Observer:
    """The consistent states, each with the messages that the engine has yet to send, and one path.

    fits: (state, messages to come) -> the path. The observer begins in the initial state.
    """

    def __init__(self) -> None:
        self.ground: Final = Ground(NO_TIMEOUTS, SIZES, FAULTS, TOPOLOGY)
        self._by_trigger: Final = self._triggers()
        self._quiet: Final = tuple(row for row in self.ground.rows if self._is_quiet(row))
        self._says: Final = {id(row): self._things(row) for row in self.ground.rows}
        self._polls: Final = {side: self._patterns(side) for side in Side}
        self._held: Final = {side: self._held_bits(side) for side in Side}
        self._gone: Final = {
            room: self.ground.layout.field(ends.gone, (0, room, 0)).mask for room in range(ROOMS)}
        self.fits: dict[tuple[int, Rest], Past | None] = {}
        self._published: set[int] = set()
        self._unheard = 0
        self.begin()

    def begin(self) -> None:
        """Go back to the initial state."""
        self.fits = {(0, ()): None}
        self._published = set()
        self._unheard = sum(self._gone.values())  # messages that decode has not heard yet

    # Questions to the tables

    def _triggers(self) -> Mapping[tuple[str, int, int], list[GroundRow]]:
        """The rows by the kit's action: (call or delivery, room, chunk or 0)."""
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
        """Whether the row may fire without an action of the kit."""
        if row.layer or row.row.name in ("land", "refuse"):
            return False
        return row.row.on is None or isinstance(row.row.on, Timer)

    def _things(self, row: GroundRow) -> Rest:
        """The messages and writes that appear on the wire when the row fires."""
        things = [(message.name, indices[1], 0)
                  for message, indices in self.ground.sent(row.row, row.environment)]
        if row.row.name == "post":
            things.append((WRITE, row.environment[ends.h], row.environment[ends.c]))
        return tuple(sorted(things))

    def _patterns(self, side: Side) -> list[list[tuple[list[Guard], KVPoll]]]:
        """By room, the guards of each answer to a poll, in the order of the table."""
        table = SENDING_POLL if side is Side.PREFILL else RECEIVING_POLL
        own = {ends.p: 0, ends.d: 0}
        return [
            [(self.ground.patterns(
                normal(formula), {v: own.get(v, room) for v in free_variables(formula)}), answer)
             for formula, answer in table]
            for room in range(ROOMS)
        ]

    def _held_bits(self, side: Side) -> list[int]:
        """By room, the bits of the state that say that it holds pages on this side."""
        layout = self.ground.layout
        if side is Side.PREFILL:
            return [layout.field(ends.kv, (0, room)).mask for room in range(ROOMS)]
        return [sum(layout.field(ends.page, (0, room, page)).mask for page in range(SIZES[Page]))
                for room in range(ROOMS)]

    def holds_pages(self, state: int, side: Side, room: int) -> bool:
        """Whether the room holds pages on this side in the state."""
        return bool(state & self._held[side][room])

    def poll(self, state: int, side: Side, room: int) -> KVPoll:
        """The answer to a poll in the state."""
        return next(answer for guards, answer in self._polls[side][room]
                    if any(guard.holds(state) for guard in guards))

    # Actions of the kit

    def answered(self, name: str, room: int, chunk: int = 0) -> bool:
        """Whether every consistent state has a row for this action."""
        rows = self._by_trigger.get((name, room, chunk), ())
        return all(any(self._holds(row, state) for row in rows) for state, _ in self.fits)

    def happen(self, name: str, room: int, chunk: int = 0) -> None:
        """Take a call, a delivery or a crash: replace each state by its successors."""
        after: dict[tuple[int, Rest], Past | None] = {}
        for (state, owed), past in self.fits.items():
            for row in self._by_trigger.get((name, room, chunk), ()):
                if self._holds(row, state):
                    move = Transition(row, state, row.action.apply(state))
                    things = tuple(sorted((*owed, *self._says[id(row)])))
                    after.setdefault((move.after, things), Past(move, past))
        self.fits = after

    def publish(self, room: int) -> None:
        """Decode's application has pages for the room."""
        self._published.add(room)

    def hear_gone(self, room: int) -> None:
        """Decode hears that the process which began the room has ended."""
        self._unheard &= ~self._gone[room]

    def _holds(self, row: GroundRow, state: int) -> bool:
        if row.row.name == "grant" and row.environment[ends.h] not in self._published:
            return False
        return row.action.guard.holds(state & ~self._unheard)

    # Answers of the engine

    def say(self, said: Iterable[Said]) -> None:
        """Keep the states that the engine can have reached by sending exactly these messages.

        In such a state the engine has nothing left to do.
        """
        wanted = tuple(sorted((one.kind, one.room, one.chunk) for one in said))
        kept: dict[tuple[int, Rest], Past | None] = {}
        for (state, owed), past in self.fits.items():
            rest = remaining_after(wanted, owed)
            if rest is not None:
                for end, way in self._ways(state, past, rest):
                    kept.setdefault((end, ()), way)
        self.fits = kept

    def _ways(
        self, state: int, past: Past | None, rest: Rest
    ) -> Iterator[tuple[int, Past | None]]:
        """The reachable states without due rows, once all the rest has been sent; with paths."""
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
                remaining = remaining_after(left, things)
                if remaining is not None and (after, remaining) not in seen:
                    seen.add((after, remaining))
                    queue.append((after, Past(Transition(row, at, after), way), remaining))
            if not left and not must:
                yield at, way

    @staticmethod
    def _is_due(row: GroundRow) -> bool:
        """Whether an engine with nothing left to do has fired the row.

        This is so for all rows except a repetition by a clock, and the end of a fence.
        """
        if isinstance(row.row.on, Timer):
            return row.row.on.detector
        return row.row.name != "finish_fence"

    def polled(self, side: Side, room: int, answer: KVPoll) -> None:
        """Keep the states in which a poll has this answer."""
        self.fits = {fit: past for fit, past in self.fits.items()
                     if self.poll(fit[0], side, room) is answer}

    def counted(self, side: Side, room: int, *, held: bool) -> None:
        """Keep the states in which the room holds pages on this side, or in which it holds none."""
        self.fits = {fit: past for fit, past in self.fits.items()
                     if self.holds_pages(fit[0], side, room) is held}


def remaining_after(things: Rest, some: Rest) -> Rest | None:
    """The things without `some`; None if one of `some` is not among the things."""
    left = Counter(things)
    left.subtract(some)
    if any(count < 0 for count in left.values()):
        return None
    return tuple(sorted(left.elements()))
