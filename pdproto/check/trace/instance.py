"""An endpoint in a trace: its own elements, the elements that it counts, and its local state."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pdproto.check.trace.events import Event
from pdproto.check.trace.lines import Counted, Element
from pdproto.check.trace.table import GroundedRow, LocalTable, TracedRow
from pdproto.ground.layout import Indices, TooLargeError
from pdproto.spec.language.machine import Table
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Symbol
from pdproto.spec.language.system import System

Places: TypeAlias = Mapping[Element, int]

UNNAMED: Final[Places] = {None: 0}  # of its own sorts, until a line names them
COUNT_MAX: Final = 4_096  # elements of a sort: far more than any endpoint has


class MismatchError(Exception):
    """A line that no row explains. grounds: rows that it may mean. state: where they were tried."""

    def __init__(
        self, why: str, grounds: tuple[GroundedRow, ...] = (), state: int | None = None
    ) -> None:
        super().__init__(why)
        self.grounds: Final = grounds
        self.state: Final = state


class Tables:
    """The tables of a system, at each size that occurs in a trace. Each is made at its first use.
    """

    def __init__(self, system: System) -> None:
        self.system: Final = system
        self.by_machine: Final = {table.machine.name: table for table in system.tables}
        self._tables: Final[dict[tuple[object, ...], LocalTable]] = {}
        self._counting: Final[dict[tuple[object, ...], Counting]] = {}

    def named(self, machine: str) -> Table:
        """The table of that machine. Raises MismatchError if there is none."""
        table = self.by_machine.get(machine)
        if table is None or table.machine.world:
            known = ", ".join(n for n, t in self.by_machine.items() if not t.machine.world)
            raise MismatchError(f"{self.system.name} has no machine {machine!r}; it has: {known}")
        return table

    def counting(self, table: Table, counted: Mapping[str, Counted]) -> "Counting":
        """The table for an instance that counts these elements. Equal arguments, equal object."""
        key = table.machine.name, *counted.items()
        known = self._counting.get(key)
        if known is None:
            known = self._counting[key] = self._count(table, counted)
        return known

    def _count(self, table: Table, counted: Mapping[str, Counted]) -> "Counting":
        sorts = {sort.__name__: sort for sort in self.system.sorts}
        names: dict[type[Sort], tuple[Element, ...]] = {}
        for name, of in counted.items():
            sort = sorts.get(name)
            if sort is None or sort in table.machine.sorts:
                raise MismatchError(f"{table.machine} counts no elements of {name!r}")
            size = of if isinstance(of, int) else len(of)
            if not 0 <= size <= COUNT_MAX:
                raise MismatchError(f"{size} elements of {name}: want 0 to {COUNT_MAX:,}")
            names[sort] = tuple(range(of)) if isinstance(of, int) else of or (None,)
            if len(set(names[sort])) != size and of:
                raise MismatchError(f"an element of {name} is counted twice: {listed(names[sort])}")
        return Counting(self._at(table, {sort: len(of) for sort, of in names.items()}), names)

    def _at(self, table: Table, counted: Mapping[type[Sort], int]) -> LocalTable:
        sizes = {**dict.fromkeys(table.machine.sorts, 1), **counted}
        key = table.machine.name, *sizes.items()
        known = self._tables.get(key)
        if known is None:
            try:
                known = self._tables[key] = LocalTable(self.system, table, sizes)
            except KeyError as error:
                missing = getattr(error.args[0], "__name__", error.args[0])
                raise MismatchError(f"it lacks the number of elements of {missing}") from error
            except TooLargeError as error:
                raise MismatchError(f"it counts too many elements: {error}") from error
        return known


class Counting:
    """A table with the names of its elements by sort (`names`), and their indices (`indices`)."""

    def __init__(self, local: LocalTable, names: Mapping[type[Sort], tuple[Element, ...]]) -> None:
        self.local: Final = local
        self.names: Final = names
        self.indices: Final[Mapping[type[Sort], Places]] = {
            sort: {name: index for index, name in enumerate(of)} for sort, of in names.items()}


class Instance:
    """One endpoint.

    key: the numbers of its file, of its process there, and of the endpoint. events: its lines so
    far, without those that only count elements. rows: how many it has
    fired. identified: its own elements are known, and no other endpoint of the process has them.
    names: the elements that it counts, by sort; indices: the index of each by its name. An element
    of its own sorts is None until a line names it.
    """

    __slots__ = ("events", "identified", "indices", "key", "local", "names", "node", "rows",
                 "state")

    def __init__(self, key: tuple[int, int, int], node: str) -> None:
        self.key: Final = key
        self.node: Final = node
        self.rows = 0
        self.identified = False
        self.state = 0
        self.events: list[Event] = []
        self.local: LocalTable
        self.names: dict[type[Sort], tuple[Element, ...]] = {}
        self.indices: dict[type[Sort], Places] = {}

    @property
    def own(self) -> tuple[Element, ...]:
        """Its own elements; None for an element that no line has named yet."""
        return tuple([self.names[sort][0] for sort in self.local.own])

    def begin(self, tables: Tables, machine: str, counted: Mapping[str, Counted]) -> None:
        """Set its first elements. Raises MismatchError, as all methods do."""
        table = tables.named(machine)
        counting = tables.counting(table, counted)
        self.local = counting.local
        unnamed = dict.fromkeys(self.local.own, (None,))
        self.names = {**counting.names, **unnamed}
        self.indices = {**counting.indices, **dict.fromkeys(unnamed, UNNAMED)}

    def recount(self, tables: Tables, machine: str, counted: Mapping[str, Counted]) -> None:
        """Change the elements that it counts. Named and used elements must remain."""
        if machine != self.local.table.machine.name:
            raise MismatchError(f"this endpoint is a {self.local.table.machine}, not a {machine}")
        counting = tables.counting(self.local.table, counted)
        changed = False
        for sort, names in counting.names.items():
            before = self.names.get(sort, ())
            changed = changed or before != names
            if isinstance(names[0] if names else None, str) and before != (None,) and (
                    before != names[:len(before)]):
                raise MismatchError(f"it counted other elements of {sort.__name__} before: "
                                    f"{listed(before)}")
        if not changed:
            raise MismatchError("it counts the same elements as before")
        try:
            self.state = self.local.translate(self.state, counting.local)
        except KeyError as error:
            symbol, _ = error.args[0]
            raise MismatchError(
                f"it no longer counts elements that it has used: {symbol}") from error
        self.local = counting.local
        self.names = {**self.names, **counting.names}
        self.indices = {**self.indices, **counting.indices}

    def _name(self, sort: type[Sort], element: Element) -> None:
        self.names[sort] = (element,)
        self.indices[sort] = {element: 0}

    def parameters(self, row: TracedRow, given: Mapping[str, Element]) -> Indices:
        """The row's parameters as indices. The first line that names its own elements sets them."""
        wanted = [name for name, _ in row.parameters]
        if set(given) != set(wanted):
            raise MismatchError(f"{row.row.name} takes {', '.join(wanted)}, but the line gives "
                                f"{', '.join(given) or 'nothing'}")
        return tuple(self.index(sort, given[name], name) for name, sort in row.parameters)

    def index(self, sort: type[Sort], element: Element, name: str) -> int:
        """The index of an element. name: of the parameter, for an error."""
        index = self.indices[sort].get(element) if sort in self.indices else None
        if index is not None:
            return index
        if sort in self.local.own and self.names[sort] == (None,):
            if isinstance(element, str) and element != self.node:
                raise MismatchError(f"{name} is {element}, but this endpoint is at {self.node}")
            self._name(sort, element)
            return 0
        if sort in self.local.own:
            raise MismatchError(f"{name} is {words(element)}, but this endpoint belongs to "
                                f"{words(self.names[sort][0])}")
        known = listed(self.names.get(sort, ()))
        raise MismatchError(f"{name} is {words(element)}, but this endpoint counts {known}")

    def elements(self, symbol: Symbol, indices: Indices) -> tuple[Element, ...]:
        """The arguments of a symbol, as names. Raises MismatchError for an unknown element."""
        found = tuple([self.names[s][i] for s, i in zip(_sorts(symbol), indices, strict=True)])
        if None in found:
            raise MismatchError(f"{symbol} has an element that this endpoint does not know yet")
        return found

    def at(self, symbol: Symbol, elements: tuple[Any, ...]) -> Indices:
        """The arguments of a symbol, as indices."""
        sorts = _sorts(symbol)
        if len(elements) != len(sorts):
            raise MismatchError(f"{symbol.signature}: the line gives {len(elements)} arguments")
        indices = self.indices
        try:
            return tuple([indices[s][e] for s, e in zip(sorts, elements, strict=True)])
        except KeyError:
            return tuple(self.index(sort, element, sort.prefix)
                         for sort, element in zip(sorts, elements, strict=True))


def _sorts(symbol: Symbol) -> tuple[type[Sort], ...]:
    """The sorts of the elements in a line. A line about a message in a channel gives no place."""
    return symbol.domain if isinstance(symbol, Message) else symbol.sorts


def words(element: Element) -> str:
    """The text of an element, as in its line."""
    if isinstance(element, tuple):
        return f"[{', '.join(map(str, element))}]"
    return "not known yet" if element is None else str(element)


def listed(names: tuple[Element, ...]) -> str:
    """The names as text."""
    return ", ".join(map(words, names)) or "none"
