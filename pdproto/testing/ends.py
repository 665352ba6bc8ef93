"""The live ends of a system: one for each instance of a machine, run as servers run it.

An end counts by itself, and the ground rows of the checker count in the whole system: here the two
are translated. Which of the runtime's two forms runs a table is read off the table: a machine whose
other sorts the topology bounds is an automaton, any other is a shared store.
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
    """What an end did: the rows that fired and what they sent, each in its order."""

    rows: tuple[FiredRow, ...] = ()
    sent: tuple[Said, ...] = ()


class End(Protocol):
    """One instance that runs. Its elements are those of the whole system."""

    @property
    def name(self) -> str:
        """Its lane in a picture: "source p0, h1"."""

    @property
    def table(self) -> Table: ...

    @property
    def kept(self) -> tuple[Cell, ...]:
        """The cells whose values it knows for certain."""

    def fire(self, row: GroundRow, carried: Carried) -> Taken:
        """Make happen what the row answers. Raises ProtocolError, and then nothing has changed."""

    def hear(self, message: AnyMessage, indices: Indices) -> Taken:
        """The arrival of a message that triggers nothing."""

    def write(self, written: Written) -> Taken:
        """What a device writes at once. Raises LocalProtocolError for what none may write."""

    def put(self, cell: Cell, value: Value) -> None:
        """What a crash leaves, or what the owner of a variable has written that this end shares."""

    def portrait(self) -> int:
        """What it keeps, as bits of the whole system's state."""

    def begin(self) -> None:
        """Become as at first."""


def reads(table: Table) -> frozenset[AnyMessage]:
    """The messages to this machine that its guards read: hearing of them matters."""
    return frozenset(
        symbol for symbol in local_symbols(table)
        if isinstance(symbol, Message) and symbol.receiver.machine is table.machine
    )


def ends(
    ground: Ground, *, at_once: Pacing | None = None, stores: frozenset[str] = frozenset()
) -> list[End]:
    """An end for each instance of each machine but the world.

    at_once: the machines of which a row without a trigger fires as soon as it can, as in a server,
    each with those of its rows that wait all the same; of all others every such row waits until it
    is told to. stores: machines to run as stores although automata could.
    Raises SpecError for a table that the runtime cannot run.
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
    """Whether an automaton can run it: its own sorts occur as its own alone, and all elements are
    related to each other by what its rows mention.
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
    """An instance as a state of an automaton, in which its own elements are 0."""

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
            tuple((message, self._named(message.sorts, at)) for message, at in step.sent),
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
                    on.message, self._counted(on.message.sorts, arguments), bits)
            case Call(parameters=variables):
                event = automaton.call(on.name, self._arguments(variables, row))
            case Completion(parameters=variables):
                event = automaton.completion(on.name, self._arguments(variables, row))
            case Timer():
                return _only(automaton.timer(on.name), row.row, wanted)
            case None if row.row.name in automaton_paced(automaton):
                return _only(automaton.pace(row.row.name), row.row, wanted)
            case _:
                # It fires at once wherever it can, so no state is left in which it could.
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
        """The system's elements as this end counts them."""
        own = self._own
        return tuple([0 if sort in own else i for sort, i in zip(sorts, indices, strict=True)])

    def _named(self, sorts: tuple[type[Sort], ...], indices: Indices) -> Indices:
        """The other way round."""
        own = self._own
        return tuple([own.get(sort, i) for sort, i in zip(sorts, indices, strict=True)])


def automaton_paced(automaton: Automaton) -> Mapping[str, Event]:
    """The rows that wait until they are told to, by name."""
    return {name: automaton.pace(name) for name in automaton.paced}


def _only(event: Event, row: Row, parameters: Indices) -> Event:
    """The event, for one row at these parameters. A clock and a worker pick what they do."""
    rows = tuple(r for r in event.rows if r.row.name == row.name and r.parameters == parameters)
    return Event(event.name, rows, every=True)


def _choosing(event: Event, row: Row, parameters: Indices) -> Event:
    """The event when the caller chooses these parameters: of this row no others are looked at."""

    def chosen(local: LocalRow) -> bool:
        return local.row.name != row.name or local.parameters == parameters

    rows = tuple(filter(chosen, event.rows))
    if len(rows) == len(event.rows):
        return event
    return Event(event.name, rows, before=event.before, from_peer=event.from_peer)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Which sorts a store may loop over: the fewer, the more like a server."""

    sizes: Mapping[type[Sort], int]
    own: tuple[type[Sort], ...]

    def tries(self) -> Iterator[dict[type[Sort], range]]:
        yield {}
        unordered = {s: range(n) for s, n in self.sizes.items() if not s.ordered}
        yield {sort: of for sort, of in unordered.items() if sort not in self.own}
        yield unordered
        yield {sort: range(size) for sort, size in self.sizes.items()}


class StoreEnd:
    """An instance as a store of cells over unbounded sorts."""

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
        """By symbol, what each value of each of its cells is in the system's state."""
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
        # A store is made once: to compile its rows takes longer than a whole run.
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
        # Of another row than the wanted one, which is a mistake, only the trigger's are known.
        answered = next(r for r in self.table.rows if r.name == step.row)
        names = self.table.parameters(answered)
        return Taken(((answered.name, tuple(environment.get(v, 0) for v in names)),), step.sent)

    def hear(self, message: AnyMessage, indices: Indices) -> Taken:
        self._store.receive(message, *indices)
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
                # What is initial is 0 in the system's state, and is not stored here either.
                for key, value in cells.values.items():
                    bits |= of[key, value]
            else:
                for symbol_, key in self.kept:
                    if symbol_ is symbol:
                        bits |= of[key, cells.read(key)]
        return bits
