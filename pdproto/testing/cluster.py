"""A cluster of live ends beside the tables: what the ends do is held to the ground rows.

The network is the set of messages that have been sent: any of them may be delivered next, again,
or never. A message that no row is on, but that guards read, is *heard* by the ends that read it,
one by one and at any time. The world (crashes, losses, engines) acts on the ends as the rows of its
tables say.

Rule 1: each row that an end fires must be a ground row that the tables allow at that moment, must
        send what that row sends, and must leave what that row leaves.
Rule 2: whatever happens, what an end keeps is what the tables say that it keeps.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from pdproto.check.narrative import Transition
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.ground.layout import Cell, Indices, cell_name, value_name
from pdproto.runtime.errors import ProtocolError
from pdproto.spec.language.symbols import Message, Sent, Variable
from pdproto.testing.ends import Carried, End, FiredRow, Pacing, Said, Taken, ends, reads

REMEMBERED_MAX: Final = 1 << 14  # states of which the enabled rows are remembered


class DivergenceError(AssertionError):
    """A live end has done what the tables do not allow."""


class Cluster:
    """The ends of one ground system, and the state that the tables say they are in.

    heard_at_once: every message reaches whoever reads it as soon as it is sent; deliveries that
    trigger a row are always somebody's choice. at_once, stores: see `ends`. runs: the ground system
    whose tables the ends run, if not this one: then they are held to tables that they do not run.
    moves: what has happened since the beginning, row by row. attempted: the row that was to fire
    when an end diverged.
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
        self.ground: Final = ground
        self.ends: Final = ends(runs or ground, at_once=at_once, stores=stores)
        self.state = 0
        self.moves: list[Transition] = []
        self.attempted: GroundRow | None = None
        self._heard_at_once: Final = heard_at_once
        self._rows: Final = {(r.row.name, tuple(r.environment.values())): r for r in ground.rows}
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
        self._readers: Final = {end.name: reads(end.table) for end in self.ends}
        self._messages: Final = sum(
            field.mask for cell, field in ground.layout.fields.items()
            if isinstance(cell[0], Message))
        self._sent = 0

    def begin(self) -> None:
        """Everything becomes as at first."""
        self.state = self._heard = self._sent = 0
        self.moves = []
        self.attempted = None
        self._carried.clear()
        for end in self.ends:
            end.begin()
            self._unheard[end.name] = 0

    @property
    def history(self) -> int:
        """The state, with every message that has been sent, also where its delivery takes it off
        the network: a property that speaks of a message asks whether it was ever sent.
        """
        return self.state | self._sent

    def _find(self, row: GroundRow) -> End | None:
        """The end whose row it is; None for the world's."""
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
        """The end whose row it is; None for the world's."""
        return self._ends_of[id(row)]

    def view_of(self, end: End) -> int:
        """The bits of the state of which the end may know: what it keeps, reads, and is sent."""
        machine, layout = end.table.machine, self.ground.layout
        bits = self._masks[self.ends.index(end)]
        for (symbol, _), field in layout.fields.items():
            if isinstance(symbol, Message) and machine in (
                    symbol.receiver.machine, symbol.sender.machine):
                bits |= field.mask
        return bits

    # What can happen

    def enabled(self) -> tuple[GroundRow, ...]:
        """The rows that can fire, as far as everybody has heard."""
        key = self.state, self._heard, tuple(self._unheard.values())
        known = self._enabled.get(key)
        if known is None:
            if len(self._enabled) >= REMEMBERED_MAX:
                self._enabled.clear()
            known = self._enabled[key] = tuple(row for row in self.ground.rows if self.can(row))
        return known

    def can(self, row: GroundRow) -> bool:
        end = self._ends_of[id(row)]
        if end is not None:
            return row.action.guard.holds(self.state & ~self._unheard[end.name])
        # What has been heard cannot be lost any more.
        lost = row.action.clear & ~row.action.assign
        return not lost & self._heard and row.action.guard.holds(self.state)

    @property
    def is_unheard(self) -> bool:
        """Whether somebody has something left to hear."""
        return any(self._unheard.values())

    def unheard(self) -> Iterator[tuple[End, Cell]]:
        """The messages that somebody who reads them has not heard yet."""
        for end in self.ends:
            bits = self._unheard[end.name]
            if bits:
                yield from (
                    (end, cell) for cell, field in self.ground.layout.fields.items()
                    if field.mask & bits
                )

    # What happens

    def fire(self, row: GroundRow) -> None:
        """Let the row fire, at the end whose it is. Raises DivergenceError."""
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
                raise DivergenceError(f"{end.name}: {_did(taken)} where the tables take {row}")
            self._follow(end, taken)
        self.compare()
        self.attempted = None

    def hear(self, end: End, cell: Cell) -> None:
        """Let the end hear of a message that has been sent."""
        message, indices = cell
        if not isinstance(message, Message):
            raise TypeError(f"{message} is no message")
        bit = self.ground.layout.field(message, indices).mask
        self._unheard[end.name] &= ~bit
        self._heard |= bit
        self._follow(end, end.hear(message, indices))
        self.compare()

    def hear_all(self) -> None:
        for end, cell in list(self.unheard()):
            self.hear(end, cell)

    def _follow(self, end: End, taken: Taken) -> None:
        """Hold what the end did to the tables, and tell the others what they share with it."""
        before = self.state
        expected: tuple[Said, ...] = ()
        for fired in taken.rows:
            row = self._ground_row(end, fired)
            expected += self._sent_by(row)
            self._move(row)
        if expected != taken.sent:
            raise DivergenceError(f"{end.name}: {_did(taken)} says {_said(taken.sent)} where the "
                                  f"tables say {_said(expected)}")
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
        row = self._rows.get(fired)
        if row is None or not row.action.guard.holds(self.state):
            name, indices = fired
            raise DivergenceError(
                f"{end.name} fires {name}{indices}, which the tables do not allow")
        return row

    def _move(self, row: GroundRow) -> None:
        after = row.action.apply(self.state)
        self.moves.append(Transition(row, self.state, after))
        self.state = after
        self._sent |= after & self._messages

    def _act(self, row: GroundRow) -> None:
        """A row of the world: what it writes reaches the ends, and what it says the network."""
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
                    self._forget((symbol, indices), field.mask)
            elif (before ^ self.state) & field.mask:
                for end in self._ends_that_keep((symbol, indices)):
                    # What no device may write is the harm that a fault or a defect does.
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

    # What must be so

    def compare(self) -> None:
        """Hold what every end keeps to what the tables say. Raises DivergenceError."""
        for end, mask in zip(self.ends, self._masks, strict=True):
            portrait = end.portrait()
            if portrait != self.state & mask:
                raise DivergenceError(f"{end.name} is not what the tables make of it: "
                                      f"{self._differences(portrait, mask)}")

    def _differences(self, portrait: int, mask: int) -> str:
        layout = self.ground.layout
        return ", ".join(
            f"{cell_name(*cell)} is {value_name(layout.value(portrait, *cell))} and should be "
            f"{value_name(layout.value(self.state, *cell))}"
            for cell, field in layout.fields.items()
            if field.mask & mask and (portrait ^ self.state) & field.mask
        )


def _did(taken: Taken) -> str:
    return ", ".join(f"{name}{indices}" for name, indices in taken.rows) or "nothing happens"


def _said(sent: tuple[Said, ...]) -> str:
    return ", ".join(cell_name(*said) for said in sent) or "nothing"
