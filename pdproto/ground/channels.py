"""Ordered channels as masks and moves: a row that sends has a case for each length of the channel.

A channel is a queue (spec/language/channels.py). Its cells are those of its messages, each with a
place; place 0 is the first. A row that takes the first message moves the others by one place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product, starmap
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from pdproto.ground.layout import Indices, Layout
from pdproto.ground.program import Clause, Guard, Literal, simplified
from pdproto.spec.language.channels import Channel, channels_of, queue_at
from pdproto.spec.language.symbols import Message

Letter: TypeAlias = tuple[Message[*tuple[Any, ...]], Indices]  # a message without its place
EMPTY: Final = "empty"  # the text of a queue without messages

Case: TypeAlias = tuple[Guard, tuple[Literal, ...]]
Moves: TypeAlias = tuple[tuple[int, int], ...]  # of an action (program.py)


class Queue(NamedTuple):
    """One channel between two instances. ends: the indices of the sender, then the receiver."""

    channel: Channel
    ends: Indices


class QueueChange(NamedTuple):
    """The effects of one row on one queue: it may take the first message, and then sends."""

    taken: Letter | None
    sent: tuple[Letter, ...]


def queue_of(message: Message[*tuple[Any, ...]], at: Indices) -> Queue | None:
    """The queue in which the message waits; None if it is not ordered. at: its arguments."""
    found = queue_at(message, at)
    return None if found is None else Queue(*found)


class Queues:
    """The queues of a layout."""

    def __init__(self, layout: Layout) -> None:
        self._layout: Final = layout
        self.letters: Final = cache(self._letters)

    def _letters(self, queue: Queue) -> tuple[Letter, ...]:
        """Every message that can wait in the queue."""
        return tuple(
            (message, at)
            for message in queue.channel.messages(self._layout.symbols)
            for at in product(*(range(self._layout.sizes[sort]) for sort in message.domain))
            if queue_of(message, at) == queue
        )

    def capacity(self, queue: Queue) -> int:
        """How many messages the queue holds."""
        return self._layout.sizes[queue.channel.places]

    def content(self, state: int, queue: Queue) -> tuple[Letter, ...]:
        """The messages that wait in the queue, the first one first."""
        return tuple(
            (message, at)
            for place in range(self.capacity(queue))
            for message, at in self.letters(queue)
            if self._layout.value(state, message, (*at, place)) is True
        )

    def text(self, state: int, queue: Queue) -> str:
        """The messages that wait in the queue, the first one first: `data(i1), marker`."""
        return ", ".join(starmap(self._letter_text, self.content(state, queue))) or EMPTY

    def _letter_text(self, message: Message[*tuple[Any, ...]], at: Indices) -> str:
        """The message without the arguments that name its ends."""
        ends = {*message.sender.variables, *message.receiver.variables}
        told = [type(v).element(i) for v, i in zip(message.formals, at, strict=True)
                if v not in ends]
        return f"{message.name}({', '.join(told)})" if told else message.name

    def every(self) -> Iterator[Queue]:
        """Every queue, in the order in which their messages are declared."""
        for channel in channels_of(self._layout.symbols):
            for ends in product(*(range(self._layout.sizes[sort]) for sort in channel.ends)):
                yield Queue(channel, ends)

    def turns(self, taken: Letter | None, sent: Iterable[Letter]) -> Mapping[Queue, QueueChange]:
        """The change of each queue by a row. Messages without an order are left out."""
        turns: dict[Queue, QueueChange] = {}
        if taken is not None and (queue := queue_of(*taken)) is not None:
            turns[queue] = QueueChange(taken, ())
        for letter in sent:
            if (queue := queue_of(*letter)) is not None:
                before = turns.get(queue, QueueChange(None, ()))
                turns[queue] = before._replace(sent=(*before.sent, letter))
        return turns

    def count(self, turns: Mapping[Queue, QueueChange]) -> int:
        """How many cases there are, or a few more."""
        return prod(
            self.capacity(queue) if turn.sent else 1 for queue, turn in turns.items())

    def cases(
        self, guard: Guard, turns: Mapping[Queue, QueueChange]
    ) -> Iterator[tuple[Guard, tuple[Literal, ...], Moves]]:
        """The guard for each length of the queues, with what it assigns to them and moves.

        There is none for a length to which the row would add too many messages.
        """
        for choice in product(*(self._changes(*item) for item in turns.items())):
            clauses = [clause for known, _, _ in choice for clause in known]
            whole = simplified([(Literal(guard.mask, guard.value),), *guard.clauses, *clauses])
            if whole is not None:
                yield (whole, tuple(literal for _, after, _ in choice for literal in after),
                       tuple(_together(move for _, _, moves in choice for move in moves)))

    def _changes(
        self, queue: Queue, turn: QueueChange
    ) -> Iterator[tuple[Sequence[Clause], Sequence[Literal], Sequence[tuple[int, int]]]]:
        """Clauses about one queue, what the row then assigns, and which cells it moves."""
        places, taken = self.capacity(queue), turn.taken
        if taken is not None and not turn.sent:
            yield [(self._cell(taken, 0, True),)], *self._shift(queue, places)
            return
        for length in range(taken is not None, places + 1):
            rest = length - (taken is not None)
            if rest + len(turn.sent) <= places:
                added = [self._cell(one, rest + i, True) for i, one in enumerate(turn.sent)]
                known = [*self._is_long(queue, length)]
                if taken is None:
                    yield known, added, ()
                else:
                    cleared, moves = self._shift(queue, length)
                    yield [(self._cell(taken, 0, True),), *known], [*cleared, *added], moves

    def _shift(
        self, queue: Queue, length: int
    ) -> tuple[list[Literal], list[tuple[int, int]]]:
        """What clears the first places, so many, and what moves each message down by one."""
        cleared = [self._cell(one, place, False)
                   for one in self.letters(queue) for place in range(length)]
        moves = []
        for one in self.letters(queue):
            for place in range(1, length):
                source, target = (self._cell(one, p, True).mask for p in (place, place - 1))
                moves.append((source, target.bit_length() - source.bit_length()))
        return cleared, moves

    def _is_long(self, queue: Queue, length: int) -> Iterator[Clause]:
        """So many messages wait: the last of these places has one, and the next has none."""
        if length:
            yield tuple(self._cell(one, length - 1, True) for one in self.letters(queue))
        if length < self.capacity(queue):
            for one in self.letters(queue):
                yield (self._cell(one, length, False),)

    def _cell(self, letter: Letter, place: int, waits: bool) -> Literal:
        message, at = letter
        return self._layout.literal(message, (*at, place), waits)


def _together(moves: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The moves, those by the same number of bits as one."""
    masks: dict[int, int] = {}
    for mask, shift in moves:
        masks[shift] = masks.get(shift, 0) | mask
    for shift, mask in masks.items():
        yield mask, shift
