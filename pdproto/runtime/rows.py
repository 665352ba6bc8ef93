"""A table's rows as compiled functions (compile.py writes them), sorted by their triggers."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any, Final, NoReturn, TypeAlias

from pdproto.ground.local import require_one_start
from pdproto.runtime import checked
from pdproto.runtime.cells import Cells, Key
from pdproto.runtime.compile import Writer, arguments_of
from pdproto.runtime.errors import LocalProtocolError, ProtocolError
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Call, Completion, Row, Table
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Relation, Sent, Symbol, Variable

Change: TypeAlias = tuple[Cells, Key | None, Value]
Outcome: TypeAlias = tuple[tuple[Change, ...], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class CompiledRow:
    """A row as functions of its parameters.

    names: the names of the parameters, without the machine's own. places: for each parameter that
    the trigger gives, its place among the trigger's arguments. whole: these parameters are exactly
    the trigger's arguments, in order. chosen: the names of the other parameters. effects: returns
    the changes and the messages. search: only for a row with chosen parameters; takes the given
    parameters and candidates, and returns all parameters, or None. unasked: the row is on a timer,
    or has no trigger.
    """

    row: Row
    names: tuple[str, ...]
    places: tuple[int, ...]
    whole: bool
    chosen: tuple[str, ...]
    guard: Callable[..., bool]
    effects: Callable[..., Outcome]
    search: Callable[..., Key | None] | None
    unasked: bool

    def found(self, given: Key, choose: Mapping[str, Any]) -> Key | None:
        """The parameters at which the row is enabled; None if there are none.

        given: the parameters that the trigger gives. choose: for a chosen parameter, by its name,
        an element or a list of candidates. A parameter that is missing there is looked up.
        """
        try:
            if self.search is None:
                return given if self.guard(*given) else None
            among = [choose.get(name) for name in self.chosen]
            return self.search(
                *given, *[one if one is None or isinstance(one, list) else (one,) for one in among]
            )
        except TypeError as error:  # two elements do not compare, or one has no hash
            raise TypeError(f"row {self.row.name!r}: arguments {checked.shown(given)}, choose "
                            f"{checked.shown(choose)}: {error}") from None


class Trigger:
    """A message, call or completion, with its rows in the order of the table.

    sorts: the sorts of its arguments. limited: the places of arguments that must be elements of a
    bounded sort, with the sort. fixed: place -> element, for arguments that name this instance.
    noted: the message, if guards read whether it has arrived.
    """

    __slots__ = ("fixed", "limited", "name", "noted", "rows", "sorts")

    def __init__(
        self,
        name: str,
        sorts: tuple[type[Sort], ...],
        bounded: Collection[type[Sort]],
        rows: Iterable[CompiledRow] = (),
        fixed: Mapping[int, Hashable] | None = None,
        *,
        noted: Symbol | None = None,
    ) -> None:
        self.name: Final = name
        self.sorts: Final = sorts
        self.limited: Final = [(i, sort) for i, sort in enumerate(sorts) if sort in bounded]
        self.rows: Final = tuple(rows)
        self.fixed: Final = fixed or {}
        self.noted: Final = noted

    def check(
        self, arguments: Key, own: Key | None, members: Mapping[type[Sort], frozenset[Hashable]],
        error: type[ProtocolError],
    ) -> None:
        """Raise for a wrong number of arguments (LocalProtocolError), for one that has no hash
        (TypeError), for one outside its bounded sort, and for those of another instance.
        """
        problem = ""
        if len(arguments) != len(self.sorts):
            error, problem = LocalProtocolError, f"it takes {len(self.sorts)} arguments"
        else:
            checked.hashable("arguments", arguments)
            for place, sort in self.limited:
                if arguments[place] not in members[sort]:
                    problem = f"{checked.shown(arguments[place])} is no {sort.__name__} here"
            for place, element in self.fixed.items():
                if arguments[place] != element:
                    problem = f"it is for another instance than {own!r}"
        if problem:
            raise error(f"{self.name}{checked.shown(arguments)}: {problem}")


def compiled_rows(
    writer: Writer, source: str, namespace: dict[str, Any]
) -> Mapping[str, CompiledRow]:
    """The rows by name, compiled from the source.

    namespace: name in the source -> object. Raises SpecError for a trigger that names a variable
    twice.
    """
    require_one_start(writer.table)
    namespace |= {"MISSING": _refuse_missing, "LAST": _last_of_each}
    exec(_code(source, writer.table.machine.name), namespace)  # noqa: S102 - our own source
    rows = {}
    for row in writer.table.rows:
        parameters, trigger = writer.parameters(row), arguments_of(row)
        if len(set(trigger)) != len(trigger):
            raise SpecError(row.place, f"row {row.name!r}: its trigger names a variable twice")
        places = tuple(trigger.index(v) for v in parameters if v in trigger)
        rows[row.name] = CompiledRow(
            row,
            tuple(v.name for v in parameters),
            places,
            places == tuple(range(len(trigger))),
            tuple(v.name for v in parameters if v not in trigger),
            namespace[f"guard_{row.name}"],
            namespace[f"effects_{row.name}"],
            namespace.get(f"search_{row.name}"),
            not isinstance(row.on, Sent | Call | Completion),
        )
    return rows


@cache
def _code(source: str, name: str) -> CodeType:
    return compile(source, f"<rows of {name}>", "exec")


def _refuse_missing(row: str, variable: str) -> NoReturn:
    raise LocalProtocolError(
        f"row {row!r} needs the parameter {variable}: pass it in `choose`, or to `fire` by name"
    )


def _last_of_each(changes: tuple[Change, ...]) -> Iterable[Change]:
    """The changes without those of a cell to which a later one gives its value."""
    last: dict[tuple[int, Key | None], Change] = {}
    for change in changes:
        place = id(change[0]), change[1]
        last.pop(place, None)
        last[place] = change
    return last.values()


def messages(
    table: Table,
    own: Key | None,
    rows: Iterable[CompiledRow],
    read: Iterable[Symbol],
    bounded: Collection[type[Sort]],
) -> Mapping[str, Trigger]:
    """Every message that the machine takes, by name. read: the symbols that its guards read."""
    noted = [symbol for symbol in read if isinstance(symbol, Message)]
    on: dict[Message[*tuple[Any, ...]], list[CompiledRow]] = {
        message: [] for message in noted if message.receiver.machine is table.machine
    }
    for row in rows:
        if isinstance(row.row.on, Sent):
            on.setdefault(row.row.on.message, []).append(row)
    return {
        message.name: Trigger(
            message.name, message.domain, bounded, those, fixed_places(table, message, own),
            noted=message if message in noted else None,
        )
        for message, those in on.items()
    }


def calls(
    rows: Iterable[CompiledRow], bounded: Collection[type[Sort]]
) -> Mapping[str, Trigger]:
    """Every call of the application and every completion of a device, by name."""
    on: dict[str, list[CompiledRow]] = {}
    for row in rows:
        if isinstance(row.row.on, Call | Completion):
            on.setdefault(row.row.on.name, []).append(row)
    return {
        name: Trigger(name, tuple(type(v) for v in arguments_of(those[0].row)), bounded, those)
        for name, those in on.items()
    }


def fixed_places(table: Table, symbol: Symbol, own: Key | None) -> Mapping[int, Hashable]:
    """The places of a symbol that belong to the machine's own variables, with their elements."""
    machine = table.machine
    if own is None:
        return {}
    match symbol:
        case Variable() if machine in (symbol.owner, symbol.engine):
            return dict(enumerate(own))
        case Message():
            for end in (symbol.receiver, symbol.sender):
                if end.machine is machine:
                    named = zip(end.variables, own, strict=True)
                    return {symbol.formals.index(v): e for v, e in named if v in symbol.formals}
    return {}


def require_instance(
    table: Table, own: Sequence[Hashable] | None,
    bounded: Mapping[type[Sort], Collection[Hashable]] | None,
) -> None:
    """Raise unless the table can be run for this instance, over these elements: see store.Shared.
    """
    machine = checked.one_of("table", table, Table).machine
    for sort, elements in checked.mapping("bounded", {} if bounded is None else bounded).items():
        checked.elements(f"bounded[{checked.shown(sort)}]", elements)
    if machine.world or (
            own is not None and len(checked.elements("own", own)) != len(machine.own)):
        what = ("is the world, which has no instances" if machine.world
                else f"needs an element for each of {machine.own!r}, not own={own!r}")
        raise SpecError(table.place, f"{machine.name} {what}")


def retractable_relations(table: Table) -> frozenset[Symbol]:
    """The relations that can have their initial value again: by a row, or by their other owner."""
    written = [update for row in table.rows for update in table.updates(row)]
    return frozenset(
        update.symbol
        for update in written
        if isinstance(update.symbol, Relation | ElementFunction)
        and (update.value == update.symbol.values[0] or update.symbol.engine is not None)
    )
