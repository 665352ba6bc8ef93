"""The rules of ordered channels: messages that wait in a queue, first in, first out.

    class Place(Sort, ordered=True): "A place in a channel."
    token = Message("token", p, q, sender=node.at(p), receiver=node.at(q), fifo=Place)

Rule 1: There is one channel from each sending instance to each receiving one. The messages between
two machines with one sort of places share it.
Rule 2: Delivery is of the first message of a channel, and takes it off. If no row takes the first
message, those behind it wait.
Rule 3: A row that would put more messages into a channel than it has places cannot fire.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from .formula import Atom, Formula, atoms
from .machine import Machine, Row, Table
from .place import Place, SpecError
from .sorts import Sort
from .symbols import Each, Message, Sent, Symbol, sent_by

Element = TypeVar("Element")


class Channel(NamedTuple):
    """The channels from the instances of one machine to those of another (rule 1)."""

    sender: Machine[*tuple[Any, ...]]
    receiver: Machine[*tuple[Any, ...]]
    places: type[Sort]

    @property
    def name(self) -> str:
        """`node_to_node`; with two channels between two machines, their sorts tell them apart."""
        return f"{self.sender.name}_to_{self.receiver.name}"

    @property
    def ends(self) -> tuple[type[Sort], ...]:
        """The sorts of the sending instance, then those of the receiving one."""
        return (*self.sender.sorts, *self.receiver.sorts)

    def messages(self, symbols: Iterable[Symbol]) -> list[Message[*tuple[Any, ...]]]:
        """Those of the symbols that are messages of this channel."""
        return [s for s in symbols if isinstance(s, Message) and channel_of(s) == self]


def channels_of(symbols: Iterable[Symbol]) -> list[Channel]:
    """The channels of these symbols, in the order in which their messages are declared."""
    found = (channel_of(s) for s in symbols if isinstance(s, Message))
    return [channel for channel in dict.fromkeys(found) if channel is not None]


def channel_of(message: Message[*tuple[Any, ...]]) -> Channel | None:
    """The channel of a message; None if it is not ordered."""
    if message.fifo is None:
        return None
    return Channel(message.sender.machine, message.receiver.machine, message.fifo)


def queue_at(
    message: Message[*tuple[Any, ...]], at: Sequence[Element]
) -> tuple[Channel, tuple[Element, ...]] | None:
    """The channel of a message and its two ends; None if it is not ordered.

    at: the elements of the message's arguments, in any form; its place may follow.
    """
    channel = channel_of(message)
    if channel is None:
        return None
    given = dict(zip(message.formals, at, strict=False))
    ends = (*message.sender.variables, *message.receiver.variables)
    return channel, tuple(given[variable] for variable in ends)


def ends_of(sent: Atom) -> tuple[Sort, ...]:
    """The variables of a message in a channel that name the channel's two ends.

    sent: the message as a trigger or an effect, or as a formula about its place.
    """
    message = Sent(sent.symbol, sent.arguments, True)
    return (*message.addressed(message.message.sender),
            *message.addressed(message.message.receiver))


def uses_channel(row: Row) -> bool:
    """Whether the row takes a message off a channel, or sends one into it."""
    sent = map(sent_by, row.send)
    taken = [row.on] if isinstance(row.on, Sent) else []
    return any(channel_of(one.message) is not None for one in (*sent, *taken))


def is_about_channel(formula: Formula) -> bool:
    """Whether the formula mentions a message that waits in a channel."""
    return any(isinstance(atom.symbol, Message) and atom.symbol.fifo is not None
               for atom, _ in atoms(formula))


def check_place(atom: Atom, place: Place, name: str) -> None:
    """Raise SpecError for a message of a channel that stands as a formula without a place."""
    symbol = atom.symbol
    if isinstance(symbol, Message) and len(atom.arguments) != len(symbol.sorts):
        raise SpecError(place, f"{name}: {atom!r} waits in a channel: write {atom!r}.queued, or "
                               f"{atom!r}.at(place)")


def check_channels(table: Table, row: Row) -> None:
    """Raise SpecError for a row that no process could take on its channels."""
    for formula in table.formulas(row):
        for atom, _ in atoms(formula):
            check_place(atom, row.place, "the guard")
    for effect in row.send:
        if isinstance(effect, Each) and channel_of(effect.sent.message) is not None and (
                effect.variable not in ends_of(effect.sent)):
            raise SpecError(
                row.place, f"each sends {effect.sent!r} for every {effect.variable!r} into one "
                "channel, in no order: send one message a row, or let the variable name the "
                "receiver")


def unreadable_in_channel(atom: Atom, row: Row) -> str | None:
    """Why no process can know this atom, which is about a channel; None for the row's trigger."""
    if isinstance(row.on, Sent) and row.on.symbol is atom.symbol and (
            atom.arguments[:-1] == row.on.arguments):
        return None
    return (f"it reads {atom.symbol}, which waits in a channel: a process sees the first message "
            "only when it takes it, with on=")
