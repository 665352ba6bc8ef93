"""Delivery that takes a broadcast off the network, for each receiver by itself.

A message that does not name its receiving instance goes to all of them. Where delivery takes a
message off the network (Fairness.CONSUMED), one receiver must not take it from the others: for each
of them a cell tells whether it has taken the message, and the last one takes it off the network.
Sent again, it is there for everybody again.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any, TypeAlias

from pdproto.ground.layout import Cell, Indices, Layout
from pdproto.ground.program import Action, Clause, Guard, Literal, assignment, simplified
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Relation, Sizes, Symbol

AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
AnyRelation: TypeAlias = Relation[*tuple[Any, ...]]
Taken: TypeAlias = Mapping[Symbol, AnyRelation]  # by broadcast: who has taken it


def taken_by(symbols: Iterable[Symbol], sizes: Sizes) -> Taken:
    """For each broadcast to several instances at these sizes, the relation that keeps count."""
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
    """The deliveries of broadcasts over a layout that holds the cells of `taken`."""

    def __init__(self, layout: Layout, taken: Taken) -> None:
        self._layout = layout
        self._taken = taken

    def is_counted(self, message: Symbol) -> bool:
        """Whether the message is a broadcast, to several instances."""
        return message in self._taken

    def there_again(self, message: Symbol, at: Indices) -> Iterator[Literal]:
        """Mark the instance of a broadcast as taken by no receiver; nothing for other messages."""
        if isinstance(message, Message) and message in self._taken:
            for own in self._receivers(message, at):
                yield self._mark(message, own, at, False)

    def actions(
        self, message: AnyMessage, at: Indices, own: Indices, guard: Guard, effects: list[Literal]
    ) -> Iterator[Action]:
        """A row on a broadcast: one that leaves it to others, and one that is the last to take it.

        They exclude each other, and where the row's own guard holds and the instance has not taken
        the message, one of them can fire.
        """
        others = [other for other in self._receivers(message, at) if other != own]
        here = (self._mark(message, own, at, False),)
        for_others = tuple(self._mark(message, other, at, False) for other in others)
        left = _conjoined(guard, here, for_others)
        if left is not None:
            taking = self._mark(message, own, at, True)
            yield Action(left, *assignment([taking, *effects]))
        by_others = ((self._mark(message, other, at, True),) for other in others)
        last = _conjoined(guard, here, *by_others)
        if last is not None:
            gone = self._layout.literal(message, at, False)
            yield Action(last, *assignment([gone, *self.there_again(message, at), *effects]))

    def marks(self, message: Symbol, own: Indices, at: Indices) -> Iterator[Cell]:
        """The cell that tells whether an instance has taken a broadcast; none for others."""
        if message in self._taken:
            yield self._taken[message], (*own, *at)

    def _mark(self, message: AnyMessage, own: Indices, at: Indices, taken: bool) -> Literal:
        return self._layout.literal(self._taken[message], (*own, *at), taken)

    def _receivers(self, message: AnyMessage, at: Indices) -> Iterator[Indices]:
        """The instances that the message goes to."""
        given: dict[Sort, int] = dict(zip(message.formals, at, strict=True))
        return product(*(
            (given[v],) if v in given else range(self._layout.sizes[type(v)])
            for v in message.receiver.variables
        ))


def _conjoined(guard: Guard, *clauses: Clause) -> Guard | None:
    return simplified([(Literal(guard.mask, guard.value),), *guard.clauses, *clauses])
