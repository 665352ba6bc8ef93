"""Ordered channels as masks and moves: a row that sends has a case for each length of the channel.

A channel is a queue (spec/language/channels.py). Its cells are those of its messages, each with a
place; place 0 is the first. A row that takes the first message moves the others by one place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, product, starmap
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from pdproto.ground.layout import Indices, Layout
from pdproto.ground.program import Clause, Effect, Guard, Literal, copied, simplified
from pdproto.spec.language.channels import Channel, channels_of, queue_at
from pdproto.spec.language.symbols import Message

Letter: TypeAlias = tuple[Message[*tuple[Any, ...]], Indices]  # a message without its place
EMPTY: Final = "empty"  # the text of a queue without messages


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
    ) -> Iterator[tuple[Guard, tuple[Effect, ...]]]:
        """The guard for each length of the queues, with its effects on them.

        There is none for a length to which the row would add too many messages.
        """
        for choice in product(*(self._changes(*item) for item in turns.items())):
            clauses = [clause for known, _ in choice for clause in known]
            whole = simplified(clauses, guard)
            if whole is not None:
                yield whole, tuple(effect for _, after in choice for effect in after)

    def _changes(
        self, queue: Queue, turn: QueueChange
    ) -> Iterator[tuple[Sequence[Clause], Sequence[Effect]]]:
        """Clauses about one queue, and the effects that the row then has on it."""
        places, taken = self.capacity(queue), turn.taken
        if taken is not None and not turn.sent:
            yield [(self._cell(taken, 0, True),)], self._shift(queue, places)
            return
        for length in range(taken is not None, places + 1):
            rest = length - (taken is not None)
            if rest + len(turn.sent) <= places:
                added = [self._cell(one, rest + i, True) for i, one in enumerate(turn.sent)]
                known = [*self._is_long(queue, length)]
                if taken is None:
                    yield known, added
                else:
                    yield ([(self._cell(taken, 0, True),), *known],
                           [*self._shift(queue, length), *added])

    def _shift(self, queue: Queue, length: int) -> list[Effect]:
        """The effects that move each message of the first places, so many, down by one."""
        effects: list[Effect] = []
        for one in self.letters(queue):
            cells = [self._cell(one, place, False) for place in range(length)]
            effects += cells[-1:]
            effects += (copied(source.mask, target.mask) for target, source in pairwise(cells))
        return effects

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
