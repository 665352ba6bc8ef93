"""A cluster of live ends, compared with the ground rows after every step.

The network is the set of messages that have been sent. Each of them may be delivered next, again,
or never. Some messages trigger no row, but guards read them: each end that reads such a message
*hears* it at some time, independently of the others. The rows of the world (crashes, losses,
engines) act on the ends.

Rule 1: each row that an end fires must be a ground row that is enabled at that moment. The end must
        send the messages of that row.
Rule 2: after every step, the cells that an end keeps must have the values of the tables.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from pdproto.check.runs import RealRun, Transition
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.ground.layout import Cell, Indices, cell_name, value_name
from pdproto.ground.local import require_one_start
from pdproto.runtime.errors import ProtocolError
from pdproto.spec.language.symbols import Message, Sent, Variable
from pdproto.testing.ends import (
    Carried,
    End,
    FiredRow,
    Pacing,
    Said,
    Taken,
    make_ends,
    messages_read,
)

CACHED_MAX: Final = 1 << 14  # states whose enabled rows are kept


class DivergenceError(AssertionError):
    """A live end has taken a step that the tables do not allow."""


class Cluster:
    """The ends of one ground system, and the state that they have by the tables.

    heard_at_once: an end hears a message as soon as it is sent; a delivery that triggers a row is
    always the caller's choice. at_once, stores: see `make_ends`. runs: the ground system whose
    tables the ends run, if it differs from `ground`, with which they are compared. moves: the rows
    that fired since the beginning. attempted: the row that was to fire when an end diverged.
    """

    def __init__(
        self,
        ground: Ground,
        *,
        at_once: Pacing | None = None,
        stores: frozenset[str] = frozenset(),
        heard_at_once: bool = False,
        runs: Ground | None = None,
    ) -> None:
        require_one_start(*ground.system.every_table)
        self.ground: Final = ground
        self.ends: Final = make_ends(runs or ground, at_once=at_once, stores=stores)
        self.state = 0
        self.moves = RealRun(0)
        self.attempted: GroundRow | None = None
        self._heard_at_once: Final = heard_at_once
        self._rows: Final[dict[FiredRow, list[GroundRow]]] = {}
        for row in ground.rows:
            fired = row.row.name, tuple(row.environment.values())
            self._rows.setdefault(fired, []).append(row)
        self._by_name: Final = {end.name: end for end in self.ends}
        self._ends_of: Final = {id(row): self._find(row) for row in ground.rows}
        self._masks: Final = [
            sum(ground.layout.field(*cell).mask for cell in end.kept) for end in self.ends
        ]
        self._shared: Final = [
            (cell, ground.layout.field(*cell).mask, keepers)
            for cell, keepers in self._keepers().items() if len(keepers) > 1
        ]
        self._shared_bits: Final = sum(mask for _, mask, _ in self._shared)
        self._sends: Final[dict[int, tuple[Said, ...]]] = {}
        self._listeners: Final[dict[Said, tuple[str, ...]]] = {}
        self._carried: Final[dict[Said, Carried]] = {}
        self._unheard: Final[dict[str, int]] = {end.name: 0 for end in self.ends}
        self._heard = 0
        self._enabled: Final[dict[tuple[int, int, tuple[int, ...]], tuple[GroundRow, ...]]] = {}
        self._readers: Final = {end.name: messages_read(end.table) for end in self.ends}
        self._messages: Final = sum(
            field.mask for cell, field in ground.layout.fields.items()
            if isinstance(cell[0], Message) and cell[0].fifo is None)
        self._sent = 0

    def begin(self) -> None:
        """Go back to the initial state, at all ends."""
        self.state = self._heard = self._sent = 0
        self.moves = RealRun(0)
        self.attempted = None
        self._carried.clear()
        for end in self.ends:
            end.begin()
            self._unheard[end.name] = 0

    @property
    def history(self) -> int:
        """The state, with the bit of every message that was sent and that no row of the world took
        off the network.

        A property about a message asks for these, also if its delivery took it off the network
        (Fairness.CONSUMED). A message in a channel is there until its delivery.
        """
        return self.state | self._sent

    def _find(self, row: GroundRow) -> End | None:
        """The end that fires the row; None for a row of the world."""
        if row.table.machine.world:
            return None
        elements = (row.environment[v] for v in row.table.machine.own)
        named = zip(row.table.machine.sorts, elements, strict=True)
        words = [row.table.machine.name, *(sort.element(i) for sort, i in named)]
        return self._by_name[" ".join(words)]

    def _keepers(self) -> Mapping[Cell, list[End]]:
        keepers: dict[Cell, list[End]] = {}
        for end in self.ends:
            for cell in end.kept:
                keepers.setdefault(cell, []).append(end)
        return keepers

    def end_of(self, row: GroundRow) -> End | None:
        """The end that fires the row; None for a row of the world."""
        return self._ends_of[id(row)]

    def view_of(self, end: End) -> int:
        """The bits of the state that the end may know: its cells, and messages from or to it."""
        machine, layout = end.table.machine, self.ground.layout
        bits = self._masks[self.ends.index(end)]
        for (symbol, _), field in layout.fields.items():
            if isinstance(symbol, Message) and machine in (
                    symbol.receiver.machine, symbol.sender.machine):
                bits |= field.mask
        return bits

    # What can happen

    def enabled(self) -> tuple[GroundRow, ...]:
        """The rows that can fire, given the messages that each end has heard."""
        key = self.state, self._heard, tuple(self._unheard.values())
        known = self._enabled.get(key)
        if known is None:
            if len(self._enabled) >= CACHED_MAX:
                self._enabled.clear()
            known = self._enabled[key] = tuple(row for row in self.ground.rows if self.can(row))
        return known

    def can(self, row: GroundRow) -> bool:
        """Whether the row can fire, given the messages that its end has heard."""
        end = self._ends_of[id(row)]
        if end is not None:
            return row.action.guard.holds(self.state & ~self._unheard[end.name])
        # A message that has been heard can no longer be lost.
        lost = row.action.clear & ~row.action.assign
        return not lost & self._heard and row.action.guard.holds(self.state)

    @property
    def is_unheard(self) -> bool:
        """Whether an end has yet to hear a message."""
        return any(self._unheard.values())

    def unheard(self) -> Iterator[tuple[End, Cell]]:
        """Each message that an end has yet to hear, with that end."""
        for end in self.ends:
            bits = self._unheard[end.name]
            if bits:
                yield from (
                    (end, cell) for cell, field in self.ground.layout.fields.items()
                    if field.mask & bits
                )

    # What happens

    def fire(self, row: GroundRow) -> None:
        """Let the row fire at its end. Raises DivergenceError if the end does something else."""
        self.attempted = row
        end = self._ends_of[id(row)]
        if end is None:
            self._act(row)
        else:
            try:
                taken = end.fire(row, self._carried_by(row))
            except ProtocolError as error:
                raise DivergenceError(f"{end.name} refuses {row}: {error}") from error
            if not taken.rows or taken.rows[0] != (row.row.name, tuple(row.environment.values())):
                raise DivergenceError(
                    f"{end.name}: {_fired_text(taken)} where the tables take {row}")
            self._follow(end, taken)
        self.compare()
        self.attempted = None

    def hear(self, end: End, cell: Cell) -> None:
        """Let the end hear a message that has been sent. Raises DivergenceError."""
        message, indices = cell
        if not isinstance(message, Message):
            raise TypeError(f"{message} is no message")
        bit = self.ground.layout.field(message, indices).mask
        self._unheard[end.name] &= ~bit
        self._heard |= bit
        self._follow(end, end.hear(message, indices))
        self.compare()

    def hear_all(self) -> None:
        """Let every end hear all messages that it has yet to hear."""
        for end, cell in list(self.unheard()):
            self.hear(end, cell)

    def _follow(self, end: End, taken: Taken) -> None:
        """Compare the step of the end with the tables, and share its writes with other ends."""
        before = self.state
        expected: tuple[Said, ...] = ()
        for fired in taken.rows:
            row = self._ground_row(end, fired)
            expected += self._sent_by(row)
            self._move(row)
        if expected != taken.sent:
            raise DivergenceError(
                f"{end.name}: {_fired_text(taken)} sends {_sent_text(taken.sent)} where the tables "
                f"send {_sent_text(expected)}")
        changed = self.state ^ before
        if changed & self._shared_bits:
            self._share(end, changed)
        if taken.sent:
            self._say(taken.sent)

    def _sent_by(self, row: GroundRow) -> tuple[Said, ...]:
        known = self._sends.get(id(row))
        if known is None:
            known = self._sends[id(row)] = tuple(self.ground.sent(row.row, row.environment))
        return known

    def _share(self, end: End, changed: int) -> None:
        for (symbol, indices), mask, keepers in self._shared:
            if changed & mask:
                value = self.ground.layout.value(self.state, symbol, indices)
                for other in keepers:
                    if other is not end:
                        self._tell(end, other, (symbol, indices), value)

    def _tell(self, end: End, other: End, cell: Cell, value: Any) -> None:
        symbol = cell[0]
        if isinstance(symbol, Variable) and symbol.engine is end.table.machine:
            self._follow(other, other.write(((cell, value),)))
        else:
            other.put(cell, value)

    def _ground_row(self, end: End, fired: FiredRow) -> GroundRow:
        for row in self._rows.get(fired, ()):
            if row.action.guard.holds(self.state):
                return row
        name, indices = fired
        raise DivergenceError(f"{end.name} fires {name}{indices}, which the tables do not allow")

    def _move(self, row: GroundRow) -> None:
        after = row.action.apply(self.state)
        self.moves.append(Transition(row, self.state, after))
        self.state = after
        self._sent |= after & self._messages

    def _act(self, row: GroundRow) -> None:
        """Fire a row of the world: its writes reach the ends, and its messages the network."""
        before = self.state
        self._move(row)
        layout = self.ground.layout
        said: list[Said] = []
        written: dict[str, list[tuple[Cell, Any]]] = {}
        touched = row.action.clear | row.action.assign
        for (symbol, indices), field in layout.fields.items():
            if not field.mask & touched:
                continue
            value = layout.value(self.state, symbol, indices)
            if isinstance(symbol, Message):
                if value is True:
                    said.append((symbol, indices))
                else:
                    self._sent &= ~field.mask
                    self._forget((symbol, indices), field.mask)
            elif (before ^ self.state) & field.mask:
                for end in self._ends_that_keep((symbol, indices)):
                    # A value that no device may write is the effect of a fault or a defect.
                    if isinstance(symbol, Variable) and symbol.engine is row.table.machine and (
                            value in symbol.engine_writes):
                        written.setdefault(end.name, []).append(((symbol, indices), value))
                    else:
                        end.put((symbol, indices), value)
        for name, cells in written.items():
            self._follow(self._by_name[name], self._by_name[name].write(tuple(cells)))
        self._say(tuple(said))

    def _ends_that_keep(self, cell: Cell) -> Iterator[End]:
        return (end for end in self.ends if cell in end.kept)

    # The network

    def _say(self, sent: tuple[Said, ...]) -> None:
        for message, indices in sent:
            if message.carries:
                self._carried[message, indices] = self._carries(message, indices)
            listeners = self._listeners_to((message, indices))
            if listeners:
                bit = self.ground.layout.field(message, indices).mask
                for name in listeners:
                    self._unheard[name] |= bit & ~self._heard
        if self._heard_at_once and self.is_unheard:
            self.hear_all()

    def _listeners_to(self, said: Said) -> tuple[str, ...]:
        """The ends whose guards read the message."""
        known = self._listeners.get(said)
        if known is None:
            known = self._listeners[said] = tuple(
                end.name for end in self.ends
                if said[0] in self._readers[end.name] and self._is_for(end, *said))
        return known

    def _forget(self, said: Said, bit: int) -> None:
        self._carried.pop(said, None)
        for name in self._unheard:
            self._unheard[name] &= ~bit

    def _is_for(self, end: End, message: Message[*tuple[Any, ...]], indices: Indices) -> bool:
        given = dict(zip(message.formals, indices, strict=True))
        machine = end.table.machine
        choices = [
            (given[v],) if v in given else range(self.ground.sizes[type(v)])
            for v in message.receiver.variables
        ]
        return any(
            end.name == " ".join([machine.name, *(
                sort.element(i) for sort, i in zip(machine.sorts, elements, strict=True))])
            for elements in product(*choices)
        )

    def _carries(self, message: Message[*tuple[Any, ...]], indices: Indices) -> Carried:
        """The relations of the sender that travel with the message, where they hold now."""
        given = dict(zip(message.formals, indices, strict=True))
        own = tuple(given[v] for v in message.sender.variables)
        layout = self.ground.layout
        return tuple(
            (symbol, at) for symbol, at in layout.fields
            if symbol in message.carries and at[:len(own)] == own
            and layout.value(self.state, symbol, at) is True
        )

    def _carried_by(self, row: GroundRow) -> Carried:
        on = row.row.on
        if not isinstance(on, Sent) or not on.message.carries:
            return ()
        indices = self.ground.cell(on.arguments, row.environment)
        return self._carried.get((on.message, indices), ())

    # The comparison

    def compare(self) -> None:
        """Compare the cells of every end with the tables. Raises DivergenceError."""
        for end, mask in zip(self.ends, self._masks, strict=True):
            portrait = end.portrait()
            if portrait != self.state & mask:
                raise DivergenceError(f"{end.name} differs from the tables: "
                                      f"{self._differences(portrait, mask)}")

    def _differences(self, portrait: int, mask: int) -> str:
        layout = self.ground.layout
        return ", ".join(
            f"{cell_name(*cell)} is {value_name(layout.value(portrait, *cell))} and should be "
            f"{value_name(layout.value(self.state, *cell))}"
            for cell, field in layout.fields.items()
            if field.mask & mask and (portrait ^ self.state) & field.mask
        )


def _fired_text(taken: Taken) -> str:
    return ", ".join(f"{name}{indices}" for name, indices in taken.rows) or "nothing happens"


def _sent_text(sent: tuple[Said, ...]) -> str:
    return ", ".join(cell_name(*said) for said in sent) or "nothing"
