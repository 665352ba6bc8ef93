"""The live ends of a system: one for each instance of a machine, run as servers run it.

An end numbers elements by itself, and the ground rows of the checker number those of the whole
system. This module translates between the two. The table decides which form of the runtime runs
it: an automaton if the topology bounds the other sorts of the machine, and a shared store if not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final, Protocol, TypeAlias

from pdproto.check.narrative import lane_name
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.ground.layout import Cell, Indices, Layout
from pdproto.ground.local import local_symbols, rigid_relations
from pdproto.runtime.automaton import Automaton, Event, Step
from pdproto.runtime.compile import arguments_of
from pdproto.runtime.local_rows import AnyMessage, LocalRow
from pdproto.runtime.store import Shared
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Call, Completion, Row, Table, Timer
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sent, Symbol, Variable

FiredRow: TypeAlias = tuple[str, Indices]  # its name and all its parameters
Written: TypeAlias = tuple[tuple[Cell, Value], ...]
Said: TypeAlias = tuple[AnyMessage, Indices]
Pacing: TypeAlias = Mapping[str, tuple[str, ...]]
Carried: TypeAlias = tuple[Cell, ...]  # relations that travel with a message, where they hold


@dataclass(frozen=True, slots=True)
class Taken:
    """A step of an end: the rows that fired and the messages that they sent, in order."""

    rows: tuple[FiredRow, ...] = ()
    sent: tuple[Said, ...] = ()


class End(Protocol):
    """One running instance. Its elements are numbered as in the whole system."""

    @property
    def name(self) -> str:
        """The name of its lane in a picture: "source p0, h1"."""

    @property
    def table(self) -> Table:
        """The table that it runs."""

    @property
    def kept(self) -> tuple[Cell, ...]:
        """The cells of the variables that it owns or shares."""

    def fire(self, row: GroundRow, carried: Carried) -> Taken:
        """Let the event of the row happen. If it raises ProtocolError, nothing has changed."""

    def hear(self, message: AnyMessage, indices: Indices) -> Taken:
        """Note that a message has come which guards read, without a row."""

    def write(self, written: Written) -> Taken:
        """Take the writes of a device. Raises LocalProtocolError for a value it may not write."""

    def put(self, cell: Cell, value: Value) -> None:
        """Set a cell that a crash has reset, or that the owner of a shared variable has written."""

    def portrait(self) -> int:
        """The kept cells, as bits of the whole system's state."""

    def begin(self) -> None:
        """Go back to the initial state."""


def messages_read(table: Table) -> frozenset[AnyMessage]:
    """The messages to this machine that its guards read."""
    return frozenset(
        symbol for symbol in local_symbols(table)
        if isinstance(symbol, Message) and symbol.receiver.machine is table.machine
    )


def make_ends(
    ground: Ground, *, at_once: Pacing | None = None, stores: frozenset[str] = frozenset()
) -> list[End]:
    """An end for each instance of each machine but the world.

    at_once: the machines whose rows without a trigger fire as soon as they can, as in a server;
    each with the names of rows that wait nevertheless. In all other machines every row without a
    trigger waits until the caller fires it. stores: machines to run as stores although an automaton
    could run them. Raises SpecError for a table that the runtime cannot run.
    """
    made: list[End] = []
    for table in ground.system.tables:
        if table.machine.world:
            continue
        automaton = None
        if table.machine.name not in stores and _is_local(table, ground):
            own = dict.fromkeys(table.machine.sorts, 1)
            waiting = tuple(row.name for row in table.rows if row.on is None)
            paced = (at_once or {}).get(table.machine.name, waiting)
            automaton = Automaton(table, {**ground.sizes, **own}, paced)
        for indices in product(*(range(ground.sizes[sort]) for sort in table.machine.sorts)):
            if automaton is not None:
                made.append(AutomatonEnd(automaton, indices, ground.layout))
            else:
                made.append(StoreEnd(table, indices, ground))
    return made


def _is_local(table: Table, ground: Ground) -> bool:
    """Whether an automaton can run the table.

    Its own sorts must occur only as its own variables, and the rigid relations in its rows must
    hold for all elements.
    """
    own = set(table.machine.sorts)
    named = [symbol.sorts for symbol in local_symbols(table)]
    named += [tuple(type(v) for v in table.parameters(row)) for row in table.rows]
    if any(sorts.count(sort) > 1 for sorts in named for sort in own):
        return False
    return all(
        len(ground.given[rigid]) == prod(ground.sizes[sort] for sort in rigid.sorts)
        for rigid in rigid_relations(table)
    )


class AutomatonEnd:
    """An instance that an automaton runs; there its own elements have the number 0."""

    def __init__(self, automaton: Automaton, own: Indices, layout: Layout) -> None:
        self.automaton: Final = automaton
        self.table: Final = automaton.table
        self.name: Final = lane_name(self.table.machine, own)
        self.state = automaton.initial
        self._layout: Final = layout
        self._portraits: Final[dict[int, int]] = {}
        self._own: Final = dict(zip(self.table.machine.sorts, own, strict=True))
        self._events: Final[dict[tuple[FiredRow, Carried], Event]] = {}
        self._taken: Final[dict[int, tuple[Step, Taken]]] = {}
        machine = self.table.machine
        self.kept: Final[tuple[Cell, ...]] = tuple(
            (symbol, self._named(symbol.sorts, indices))
            for symbol, indices in automaton.layout.fields
            if isinstance(symbol, Variable) and machine in (symbol.owner, symbol.engine)
            and symbol in layout.symbols  # and not one that only another system of it uses
        )

    def begin(self) -> None:
        self.state = self.automaton.initial

    def fire(self, row: GroundRow, carried: Carried) -> Taken:
        key = (row.row.name, tuple(row.environment.values())), carried
        event = self._events.get(key) or self._keep(key, self._event(row, carried))
        return self._take(event)

    def _keep(self, key: tuple[FiredRow, Carried], event: Event) -> Event:
        self._events[key] = event
        return event

    def hear(self, message: AnyMessage, indices: Indices) -> Taken:
        counted = self._counted(message.sorts, indices)
        return self._take(self.automaton.noted_message(message, counted))

    def _take(self, event: Event) -> Taken:
        step = event.steps.get(self.state) or self.automaton.take(event, self.state)
        self.state = step.state
        known = self._taken.get(id(step))
        if known is None or known[0] is not step:
            known = self._taken[id(step)] = step, self._translated(step)
        return known[1]

    def _translated(self, step: Step) -> Taken:
        return Taken(
            tuple((row.name, self._named(tuple(type(v) for v in self.table.parameters(row)), at))
                  for row, at in step.rows),
            tuple((message, self._named(message.domain, at)) for message, at in step.sent),
        )

    def _event(self, row: GroundRow, carried: Carried) -> Event:
        automaton, on = self.automaton, row.row.on
        parameters = tuple(type(v) for v in row.environment)
        wanted = self._counted(parameters, tuple(row.environment.values()))
        match on:
            case Sent():
                arguments = tuple(row.environment[v] for v in on.arguments)
                bits = 0
                for symbol, indices in carried:
                    if symbol in automaton.layout.symbols:
                        bits |= automaton.bits(symbol, self._counted(symbol.sorts, indices))
                event = automaton.message(
                    on.message, self._counted(on.message.domain, arguments), bits)
            case Call(parameters=variables):
                event = automaton.call(on.name, self._arguments(variables, row))
            case Completion(parameters=variables):
                event = automaton.completion(on.name, self._arguments(variables, row))
            case Timer():
                return _only(automaton.timer(on.name), row.row, wanted)
            case None if row.row.name in automaton_paced(automaton):
                return _only(automaton.pace(row.row.name), row.row, wanted)
            case _:
                # This row fires as soon as it can, so there is no state in which it is enabled.
                return Event(row.row.name, (), every=True)
        return _choosing(event, row.row, wanted)

    def _arguments(self, variables: tuple[Sort, ...], row: GroundRow) -> Indices:
        sorts = tuple(type(v) for v in variables)
        return self._counted(sorts, tuple(row.environment[v] for v in variables))

    def write(self, written: Written) -> Taken:
        return self._take(self.automaton.device(*(
            (symbol, self._counted(symbol.sorts, indices), value)
            for (symbol, indices), value in written)))

    def put(self, cell: Cell, value: Value) -> None:
        symbol, indices = cell
        local = self._counted(symbol.sorts, indices)
        field = self.automaton.layout.field(symbol, local)
        self.state = self.state & ~field.mask | self.automaton.bits(symbol, local, value)

    def portrait(self) -> int:
        known = self._portraits.get(self.state)
        if known is None:
            known = 0
            for symbol, indices in self.kept:
                local = self._counted(symbol.sorts, indices)
                value = self.automaton.value(self.state, symbol, local)
                known |= self._layout.literal(symbol, indices, value).value
            self._portraits[self.state] = known
        return known

    def _counted(self, sorts: tuple[type[Sort], ...], indices: Indices) -> Indices:
        """The system's elements as this end numbers them."""
        own = self._own
        return tuple([0 if sort in own else i for sort, i in zip(sorts, indices, strict=True)])

    def _named(self, sorts: tuple[type[Sort], ...], indices: Indices) -> Indices:
        """The elements of this end as the system numbers them."""
        own = self._own
        return tuple([own.get(sort, i) for sort, i in zip(sorts, indices, strict=True)])


def automaton_paced(automaton: Automaton) -> Mapping[str, Event]:
    """The events of the paced rows, by the row's name."""
    return {name: automaton.pace(name) for name in automaton.paced}


def _only(event: Event, row: Row, parameters: Indices) -> Event:
    """The event for one row at these parameters alone."""
    rows = tuple(r for r in event.rows if r.row.name == row.name and r.parameters == parameters)
    return Event(event.name, rows, every=True)


def _choosing(event: Event, row: Row, parameters: Indices) -> Event:
    """The event with this row at these parameters alone; other rows keep all parameters."""

    def chosen(local: LocalRow) -> bool:
        return local.row.name != row.name or local.parameters == parameters

    rows = tuple(filter(chosen, event.rows))
    if len(rows) == len(event.rows):
        return event
    return Event(event.name, rows, before=event.before, from_peer=event.from_peer)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The sorts over which a store may loop: first none, as in a server, then more."""

    sizes: Mapping[type[Sort], int]
    own: tuple[type[Sort], ...]

    def tries(self) -> Iterator[dict[type[Sort], range]]:
        numbers = {s: range(n) for s, n in self.sizes.items() if s.own_size() is not None}
        unordered = {s: range(n) for s, n in self.sizes.items() if not s.ordered}
        yield numbers
        yield numbers | {sort: of for sort, of in unordered.items() if sort not in self.own}
        yield numbers | unordered
        yield {sort: range(size) for sort, size in self.sizes.items()}


class StoreEnd:
    """An instance that a shared store runs, over unbounded sorts."""

    def __init__(self, table: Table, own: Indices, ground: Ground) -> None:
        self.table: Final = table
        self.name: Final = lane_name(table.machine, own)
        self._layout: Final = ground.layout
        self._rigid: Final = {
            rigid: (lambda *elements, of=ground.given[rigid]: elements in of)
            for rigid in rigid_relations(table)
        }
        self._store: Final = self._compiled(_Bounds(ground.sizes, table.machine.sorts), own)
        machine = table.machine
        places = dict(enumerate(own))
        self.kept: Final[tuple[Cell, ...]] = tuple(
            (symbol, indices)
            for symbol in self._store._cells
            if isinstance(symbol, Variable) and machine in (symbol.owner, symbol.engine)
            for indices in product(*(range(ground.sizes[sort]) for sort in symbol.sorts))
            if all(indices[place] == element for place, element in places.items())
        )

        self._bits: Final = self._all_bits()

    def _all_bits(self) -> Mapping[Symbol, Mapping[tuple[Indices, Value], int]]:
        """By symbol, the bits of each value of each of its cells in the system's state."""
        bits: dict[Symbol, dict[tuple[Indices, Value], int]] = {}
        for symbol, indices in self.kept:
            for value in symbol.values:
                literal = self._layout.literal(symbol, indices, value)
                bits.setdefault(symbol, {})[indices, value] = literal.value
        return bits

    def _compiled(self, bounds: _Bounds, own: Indices) -> Shared:
        refused: SpecError | None = None
        for bounded in bounds.tries():
            try:
                return Shared(self.table, own, bounded, self._rigid)
            except SpecError as error:
                refused = error
        raise refused or AssertionError(self.table)

    def begin(self) -> None:
        # A store is made only once: compiling its rows takes longer than a whole run.
        for symbol, cells in self._store._cells.items():
            cells.write_everywhere(symbol.values[0])
            if cells.floor is not None:
                cells.floor.at.clear()

    def fire(self, row: GroundRow, carried: Carried) -> Taken:
        environment, on = row.environment, row.row.on
        for symbol, indices in carried:
            if symbol in self._store._cells:
                self._store.set(symbol, indices, True)
        given = (*self.table.machine.own, *arguments_of(row.row))
        chosen = {v.name: i for v, i in environment.items() if v not in given}
        arguments = tuple(environment[v] for v in arguments_of(row.row))
        match on:
            case Sent():
                step = self._store.receive(on.message, *arguments, choose=chosen)
            case Call() | Completion():
                step = self._store.call(on.name, *arguments, choose=chosen)
            case _:
                fired = self._store.fire(row.row.name, **chosen)
                if fired is None:
                    return Taken()
                step = fired
        # If another row fired, which is an error, only the trigger's parameters are known.
        answered = next(r for r in self.table.rows if r.name == step.row)
        names = self.table.parameters(answered)
        return Taken(((answered.name, tuple(environment.get(v, 0) for v in names)),), step.sent)

    def hear(self, message: AnyMessage, indices: Indices) -> Taken:
        # Not `receive`: where the message triggers a row too, taking that row is another event.
        self._store.set(message, indices, True)
        return Taken()

    def write(self, written: Written) -> Taken:
        for (symbol, indices), value in written:
            self._store.set(symbol, indices, value)
        return Taken()

    def put(self, cell: Cell, value: Value) -> None:
        symbol, indices = cell
        cells = self._store._cells.get(symbol)
        if cells is not None:
            cells.write(indices, value)

    def portrait(self) -> int:
        bits = 0
        for symbol, of in self._bits.items():
            cells = self._store._cells[symbol]
            if cells.floor is None and cells.default is symbol.values[0]:
                # An initial value has the bits 0 in the system's state, and is not stored here.
                for key, value in cells.values.items():
                    bits |= of[key, value]
            else:
                for symbol_, key in self.kept:
                    if symbol_ is symbol:
                        bits |= of[key, cells.read(key)]
        return bits
