"""A machine that many hand-overs share, run from its table: a registry, a pool, a queue.

Its relations range over unbounded sorts (lives, decisions, pages), so its state is not an integer
of known width. Cells that are not initial are kept in dicts with indices (cells.py). The rows are
Python functions, made once from the table (compile.py, rows.py).

    registry = Shared(REGISTRY, bounded={Source: range(4)})
    step = registry.receive("register", 0, 17)      # step.row == "record"
    registry.fire("complete")                       # None while its guard does not hold

Rule 1: the table alone decides. No code here depends on the meaning of a row.
Rule 2: decide, then change; or raise and change nothing. Reading never changes anything.
Rule 3: the time of an operation does not grow with the number of open lives
        (tests/runtime/test_store_speed.py).
Rule 4: the caller never uses an id twice. A forgotten cell has its initial value again, so the
        second use of an id would count as a new life.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

from pdproto.ground.local import own_elements
from pdproto.runtime import checked
from pdproto.runtime.cells import Cells, Floor, Key, element_text, fault_key
from pdproto.runtime.compile import Writer
from pdproto.runtime.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from pdproto.runtime.expressions import (
    CellsOf,
    Constant,
    ElementsOf,
    FloorOf,
    HolderOf,
    IndexOf,
    Need,
)
from pdproto.runtime.rows import (
    CompiledRow,
    Trigger,
    calls,
    compiled_rows,
    fixed_places,
    messages,
    require_instance,
    retractable_relations,
)
from pdproto.runtime.witness import Witness
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.formula import Value
from pdproto.spec.language.kinds import require
from pdproto.spec.language.machine import RowKind, Table
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Rigid, Symbol, Variable

AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
Predicate: TypeAlias = Callable[..., bool]

SHOWN_MAX: Final = 20  # cells in a repr


class SharedStep(NamedTuple):
    """The result of an event.

    row: the name of the row that fired. It is "" for a message that triggers no row: only its
    arrival is noted, because guards read it. kind: an "ignore" and a "reject" change nothing. sent:
    messages with their arguments, in the order of the row. changed: the cells with a new value;
    their arguments are None if all elements got it.
    """

    row: str
    kind: RowKind
    sent: tuple[tuple[AnyMessage, Key], ...] = ()
    changed: tuple[tuple[Symbol, Key | None, Value], ...] = ()


class Shared:
    """One instance of a table's machine, whose relations range over unbounded sorts; or all of its
    instances at once.

    own: the elements of the machine's own variables. None stands for all instances: then these
    variables are parameters like others (in `choose`, if the trigger does not name them). bounded:
    the elements of the sorts over which quantifiers may loop. rigid: the rigid relations, as
    predicates of elements. witness: observes every step. scans: guards may loop over all stored
    cells of a relation, so that rule 3 does not hold.

    Elements of an unbounded ordered sort are 0, 1, 2, ... if the table reads "all earlier ones",
    and otherwise any values that compare. Elements of other sorts are any hashable values.
    Arguments are in the order of the declaration, the machine's own included. Use it from one
    thread at a time. Raises SpecError for a table that cannot run in this way, with the row and the
    formula.
    """

    def __init__(
        self,
        table: Table,
        own: Sequence[Hashable] | None = (),
        bounded: Mapping[type[Sort], Collection[Hashable]] | None = None,
        rigid: Mapping[Rigid[*tuple[Any, ...]], Predicate] | None = None,
        witness: Witness | None = None,
        *,
        scans: bool = False,
    ) -> None:
        require_instance(table, own, bounded)
        checked.mapping("rigid", {} if rigid is None else rigid)
        checked.flag("scans", scans)
        if witness is not None:
            checked.parts("witness", witness, Witness)
        machine = table.machine
        self.table: Final = table
        self.own: Final = None if own is None else tuple(own)
        self._witness: Final = witness
        given = {**own_elements(table), **(bounded or {})}
        self._bounded: Final = {sort: tuple(all_) for sort, all_ in given.items()}
        self._members: Final = {sort: frozenset(all_) for sort, all_ in self._bounded.items()}
        writer = Writer(table, self._bounded, () if own is None else machine.own, scans)
        self.source: Final = writer.source()
        self._cells: Final = {
            of.symbol: Cells(of.symbol, fixed_places(table, of.symbol, self.own), self._bounded)
            for of in writer.needs.values()
            if isinstance(of, CellsOf | FloorOf | HolderOf | IndexOf)
        }
        every = self._cells.values()
        self._with: Final = {of: [c for c in every if of in c.free] for c in every for of in c.free}
        for symbol, place in writer.floors.items():
            self._cells[symbol].floor = self._floor(symbol, place)
        namespace = self._namespace(writer.needs, rigid or {})
        self._rows: Final = compiled_rows(writer, self.source, namespace)
        rows = self._rows.values()
        self._messages: Final = messages(table, self.own, rows, self._cells, self._bounded)
        self._calls: Final = calls(rows, self._bounded)
        self._holdings: Final = retractable_relations(table)

    def _floor(self, symbol: Symbol, place: int) -> Floor:
        fixed = self._cells[symbol].fixed
        free = [sort for i, sort in enumerate(symbol.sorts) if i != place and i not in fixed]
        if len(free) > 1:
            raise SpecError(symbol.place, f"{symbol.signature}: guards read it by its floor (all "
                            f"earlier ones hold), so it may have one other argument at most, not "
                            f"{free!r}")
        return Floor(place, len(symbol.sorts))

    def _namespace(
        self, needs: Mapping[str, Need], rigid: Mapping[Rigid[*tuple[Any, ...]], Predicate]
    ) -> dict[str, Any]:
        """The objects behind the names of the generated source."""
        named = zip(self.table.machine.own, self.own or (), strict=self.own is not None)
        bound: dict[str, Any] = {variable.name: element for variable, element in named}
        for name, need in needs.items():
            match need:
                case CellsOf(symbol):
                    bound[name] = self._cells[symbol].values
                case HolderOf(symbol):
                    bound[name] = self._cells[symbol]
                case IndexOf(symbol, places, values, counted):
                    bound[name] = self._cells[symbol].index(places, values, counted=counted).buckets
                case FloorOf(symbol):
                    floor = self._cells[symbol].floor
                    bound[name] = {} if floor is None else floor.at
                case ElementsOf(sort):
                    bound[name] = self._bounded[sort]
                case Constant(Rigid() as symbol):
                    bound[name] = rigid.get(symbol, symbol.holds)
                    require(bound[name] is not None,
                            f"pass a predicate for it: rigid={{{symbol}: ...}}", symbol.place)
                case Constant(thing):
                    bound[name] = thing
                case _:
                    assert_never(need)
        return bound

    # Events.

    def receive(
        self,
        message: AnyMessage | str,
        *arguments: Hashable,
        choose: Mapping[str, Any] | None = None,
    ) -> SharedStep:
        """Take a message from a peer; its arguments in the order of its declaration.

        choose: as in `call`. Raises RemoteProtocolError if no row allows the message, and
        LocalProtocolError for a wrong number of arguments.
        """
        name = message.name if isinstance(message, Message) else checked.text("message", message)
        trigger = self._messages.get(name)
        if trigger is None:
            raise RemoteProtocolError(f"{self.table.machine.name} takes no message {name!r}")
        trigger.check(arguments, self.own, self._members, RemoteProtocolError)
        noted = None if trigger.noted is None else self._cells[trigger.noted]
        if noted is None or noted.read(arguments):
            return self._take(trigger, arguments, choose, RemoteProtocolError)
        noted.write(arguments, True)
        try:
            step = self._take(trigger, arguments, choose, RemoteProtocolError)
        except (ProtocolError, TypeError):
            noted.write(arguments, False)
            raise
        return SharedStep(step.row, step.kind, step.sent,
                          (*step.changed, (noted.symbol, arguments, True)))

    def call(
        self, name: str, *arguments: Hashable, choose: Mapping[str, Any] | None = None
    ) -> SharedStep:
        """Take a call of the application, or a completion of the device.

        choose: chosen parameters by name, each an element or a list of candidates. A parameter that
        is missing there is looked up, if the row's guard names stored cells.
        Raises LocalProtocolError if no row allows the call.
        """
        trigger = self._calls.get(checked.text("name", name))
        if trigger is None:
            raise LocalProtocolError(f"{self.table.machine.name} has no call {name!r}")
        trigger.check(arguments, self.own, self._members, LocalProtocolError)
        return self._take(trigger, arguments, choose, LocalProtocolError)

    def fire(self, row_name: str, **parameters: Any) -> SharedStep | None:
        """Take a row on a timer or without a trigger, at these parameters (by variable name).

        A parameter that is missing, or given as a list of candidates, is looked up as in `call`.
        Returns None if the row's guard does not hold. Raises LocalProtocolError for a row or a
        parameter that the table lacks.
        """
        found = self.found(row_name, **parameters)
        return None if found is None else self._fire(self._rows[row_name], found)

    def found(self, row_name: str, **parameters: Any) -> Key | None:
        """The parameters at which `fire` would take the row, in their order; None if it would not.
        """
        row = self._row(row_name)
        if not row.unasked:
            raise LocalProtocolError(f"{self.table.machine.name} has no row {row_name!r} on a "
                                     "timer or without a trigger")
        if unknown := [name for name in parameters if name not in row.names]:
            raise LocalProtocolError(f"row {row_name!r} has no parameter {min(unknown)!r}")
        return row.found((), parameters)

    def enabled(self, row_name: str, **parameters: Any) -> bool:
        """Whether the row's guard holds at these parameters. The trigger is not part of it."""
        row = self._row(row_name)
        if parameters.keys() != {*row.names}:
            raise LocalProtocolError(f"row {row_name!r}: want the parameters {row.names!r}, not "
                                     f"{checked.shown([*parameters])}")
        return bool(row.guard(*(parameters[name] for name in row.names)))

    def _row(self, row_name: str) -> CompiledRow:
        row = self._rows.get(checked.text("row_name", row_name))
        if row is None:
            raise LocalProtocolError(f"{self.table.machine.name} has no row {row_name!r}")
        return row

    def _take(
        self,
        trigger: Trigger,
        arguments: Key,
        choose: Mapping[str, Any] | None,
        error: type[ProtocolError],
    ) -> SharedStep:
        chosen = {} if choose is None else checked.mapping("choose", choose)
        for row in trigger.rows:
            given = arguments if row.whole else tuple([arguments[place] for place in row.places])
            found = row.found(given, chosen)
            if found is not None:
                return self._fire(row, found)
        if trigger.noted is not None and not trigger.rows:
            if self._witness is not None:
                self._witness.heard(trigger.noted, arguments)
            return SharedStep("", "ignore")
        raise error(f"{trigger.name}{checked.shown(arguments)} has no row in {self!r}")

    def _fire(self, row: CompiledRow, parameters: Key) -> SharedStep:
        if self._witness is not None:
            self._witness.fired(row.row, row.names, parameters)
        changes, sent = row.effects(*parameters)
        changed = []
        for cells, key, value in changes:
            if key is None:
                cells.write_everywhere(value)
            elif not cells.write(key, value):
                continue
            changed.append((cells.symbol, key, value))
        for message, arguments in sent:
            if message in self._cells:
                self._cells[message].write(arguments, True)
        return SharedStep(row.row.name, row.row.kind, sent, tuple(changed))

    # State.

    def value(self, symbol: Symbol, *arguments: Hashable) -> Value:
        """The value of a cell. Raises LocalProtocolError for a symbol that the table never uses."""
        return self._cells_of(symbol).read(checked.hashable("arguments", arguments))

    def element(
        self, function: ElementFunction[Any, *tuple[Any, ...]], *arguments: Hashable
    ) -> Hashable | None:
        """The value of a function into a sort; None if it has none. Raises as `value` does."""
        return self._cells_of(function, "function").last_of(
            checked.hashable("arguments", arguments))

    def stored(self, symbol: Symbol) -> dict[Key, Value]:
        """The cells that are not initial, with their values. Raises as `value` does."""
        return dict(self._cells_of(symbol).values)

    def set(self, symbol: Symbol, arguments: Sequence[Hashable], value: Value) -> None:
        """Store a value that another machine of this process has written.

        The symbol is a device variable, a relation that a message carries, or a message that has
        arrived. Raises LocalProtocolError for a variable that only this machine may write.
        """
        cells, key = self._cells_of(symbol), checked.elements("arguments", arguments)
        Trigger(symbol.name, symbol.sorts, self._bounded).check(
            key, self.own, self._members, LocalProtocolError)
        machine = self.table.machine
        if isinstance(symbol, Variable) and symbol.owner is machine and symbol.engine is None:
            raise LocalProtocolError(f"only rows of {machine.name} may write {symbol}")
        if value not in symbol.values:
            raise LocalProtocolError(f"{checked.shown(value)} is no value of {symbol.signature}")
        if cells.floor is not None and value is not True:
            raise LocalProtocolError(f"{symbol}{key!r} can never become false again")
        if self._witness is not None and isinstance(symbol, Message):
            self._witness.heard(symbol, key)
        elif self._witness is not None:
            self._witness.written(symbol, key, value)
        cells.write(key, value)

    def apply_fault(self, table: Table, row_name: str, **elements: Hashable) -> None:
        """Make the changes that a row of the world's table makes to this machine.

        For example, its process starts. elements: the row's parameters, by name. Raises
        LocalProtocolError if the table is not the world's or lacks the row.
        """
        rows = checked.one_of("table", table, Table).rows
        row = next((row for row in rows if row.name == checked.text("row_name", row_name)), None)
        if row is None or not table.machine.world:
            raise LocalProtocolError(f"the world has no row {row_name!r} in this table")
        for update in (u for u in table.updates(row) if u.symbol in self._cells):
            cells = self._cells[update.symbol]
            for one in cells.matching(fault_key(row_name, update, elements), update.value):
                if self._witness is not None:
                    self._witness.written(update.symbol, one, update.value)
                cells.write(one, update.value)

    def forget(self, sort: type[Sort], element: Hashable) -> None:
        """Drop every cell of an element that has concluded.

        An element has concluded when the tables allow no further change of it. That means: every
        function with a last value (by its declared edges) has reached one, and every relation that
        a row can make initial is initial. Numbers of an ordered sort must also lie below the floor.
        Raises LocalProtocolError, and drops nothing, for an element that has not concluded.
        """
        checked.hashable("sort", sort)
        checked.hashable("element", element)
        if sort in self._bounded:
            raise LocalProtocolError(f"{sort.__name__} is bounded: its elements stay")
        floors = [(c, c.floor) for c in self._cells.values() if c.floor is not None]
        for cells, floor in floors:
            if cells.symbol.sorts[floor.place] is sort and not floor.covers(element):
                behind = f"the floor of {cells.symbol} is not above it"
                raise LocalProtocolError(f"{sort.__name__} {element!r} has not concluded: {behind}")
        every = self._with.get(sort, ())
        dropped = [(c, key) for c in every for key in c.of_element(sort, element)]
        for cells, key in dropped:
            self._check_concluded(cells, key)
        for cells, key in dropped:
            cells.drop(key)
        for cells, _ in floors:
            cells.drop_floor(sort, element)

    def _check_concluded(self, cells: Cells, key: Key) -> None:
        symbol, value = cells.symbol, cells.read(key)
        if symbol in self._holdings:
            holds = "still holds" if value is True else "does not hold yet"
            raise LocalProtocolError(f"{symbol}{key!r} {holds}: it has not concluded")
        edges = symbol.edges if isinstance(symbol, Variable) else None
        if edges and edges.get(value) and any(not edges.get(end) for end in symbol.values):
            raise LocalProtocolError(f"{symbol}{key!r} is {value}: it has not concluded")

    def __len__(self) -> int:
        """The number of stored cells."""
        return sum(len(cells.values) for cells in self._cells.values())

    def __repr__(self) -> str:
        """The state in the names of the table: the first SHOWN_MAX stored cells."""
        machine = self.table.machine
        own = ["all"] if self.own is None else map(element_text, machine.sorts, self.own)
        shown = []
        stored = ((c, key, value) for c in self._cells.values() for key, value in c.values.items())
        for cells, key, value in islice(stored, SHOWN_MAX):
            cell = f"{cells.symbol}({', '.join(map(element_text, cells.symbol.sorts, key))})"
            shown.append(cell if value is True else f"{cell} = {value}")
        shown += [f"... {len(self) - SHOWN_MAX:,} more"] if len(self) > SHOWN_MAX else []
        return f"{machine.name}({', '.join(own)}): {', '.join(shown) or 'initial'}"

    def _cells_of(self, symbol: Symbol, name: str = "symbol") -> Cells:
        checked.hashable(name, symbol)
        cells = self._cells.get(symbol)
        if cells is None:
            raise LocalProtocolError(f"{self.table.machine.name} keeps no {checked.shown(symbol)}")
        return cells
