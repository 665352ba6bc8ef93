"""Delivery of broadcasts under Fairness.CONSUMED, where a delivered message leaves the network.

A message that does not name its receiving instance is a broadcast: it goes to all instances. One
receiver must not take it away from the others. So each receiver has a *mark*, a cell that is true
once this receiver has taken the message. The last receiver takes the message off the network. When
the message is sent again, all marks are reset.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, TypeAlias

from pdproto.ground.layout import Cell, Indices, Layout
from pdproto.ground.program import Action, Effect, Guard, Literal, acting, simplified
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Relation, Sizes, Symbol

AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
AnyRelation: TypeAlias = Relation[*tuple[Any, ...]]
Marks: TypeAlias = Mapping[Symbol, AnyRelation]  # broadcast -> relation of receivers that took it


def delivery_marks(symbols: Iterable[Symbol], sizes: Sizes) -> Marks:
    """For each broadcast to several instances at these sizes, the relation of its marks."""
    found: dict[Symbol, AnyRelation] = {}
    for symbol in symbols:
        if isinstance(symbol, Message) and prod(
            sizes[type(v)] for v in symbol.receiver.variables if v not in symbol.formals
        ) > 1:
            machine = symbol.receiver.machine
            found[symbol] = Relation(
                machine, f"took_{symbol.name}", (*machine.sorts, *symbol.sorts), (False, True)
            )
    return found


class Deliveries:
    """The deliveries of broadcasts, over a layout that holds the cells of `marks`."""

    def __init__(self, layout: Layout, marks: Marks) -> None:
        self._layout = layout
        self.marks = marks

    def is_counted(self, message: Symbol) -> bool:
        """Whether the message is a broadcast to several instances."""
        return message in self.marks

    def reset_marks(self, message: Symbol, at: Indices) -> Iterator[Literal]:
        """The literals that reset all marks of one broadcast; none for other messages.

        at: the arguments of the message.
        """
        if isinstance(message, Message) and message in self.marks:
            for own in self._receivers(message, at):
                yield self._mark(message, own, at, False)

    def actions(
        self, message: AnyMessage, at: Indices, own: Indices, guard: Guard, effects: list[Effect]
    ) -> Iterator[Action]:
        """A row on a broadcast as at most two actions.

        In the first, another receiver has yet to take the message, so it stays on the network. In
        the second, this receiver is the last, and the message leaves. The actions exclude each
        other. One of them can fire where the row's own guard holds and the instance has not taken
        the message.
        """
        others = [other for other in self._receivers(message, at) if other != own]
        here = (self._mark(message, own, at, False),)
        for_others = tuple(self._mark(message, other, at, False) for other in others)
        left = simplified((here, for_others), guard)
        if left is not None:
            taking = self._mark(message, own, at, True)
            yield acting(left, [taking, *effects])
        by_others = ((self._mark(message, other, at, True),) for other in others)
        last = simplified((here, *by_others), guard)
        if last is not None:
            gone = self._layout.literal(message, at, False)
            yield acting(last, [gone, *self.reset_marks(message, at), *effects])

    def marks_of(self, message: Symbol, own: Indices, at: Indices) -> Iterator[Cell]:
        """The mark of one instance for a broadcast; none for other messages."""
        if message in self.marks:
            yield self.marks[message], (*own, *at)

    def _mark(self, message: AnyMessage, own: Indices, at: Indices, taken: bool) -> Literal:
        return self._layout.literal(self.marks[message], (*own, *at), taken)

    def _receivers(self, message: AnyMessage, at: Indices) -> Iterator[Indices]:
        """The instances that the message goes to."""
        given: dict[Sort, int] = dict(zip(message.formals, at, strict=True))
        return product(*(
            (given[v],) if v in given else range(self._layout.sizes[type(v)])
            for v in message.receiver.variables
        ))
