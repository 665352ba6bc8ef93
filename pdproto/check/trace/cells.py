"""The state of a machine that many hand-overs share, reconstructed from its trace.

Its relations range over unbounded sorts, so masks cannot test them. Formulas are evaluated
directly, over the cells that are not initial. All elements without such a cell are alike, so one
stands for all of them. Some relations only grow, over elements that are counted (the decisions that
have been applied); for these a number, the floor, says up to where they hold. Rigid symbols are not
traced: the replay accepts the values that firing rows need, and keeps them.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import count
from typing import Any, Final, TypeAlias

from pdproto.ground.layout import value_name
from pdproto.spec.language.elements import UNSET, ElementFunction
from pdproto.spec.language.formula import (
    And,
    AtLeast,
    Atom,
    Before,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
    Summand,
    Value,
    atoms,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.numbered import IsNumber
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Rigid, Symbol, Update

Environment: TypeAlias = Mapping[Sort, Hashable]
Cell: TypeAlias = tuple[Symbol, tuple[Hashable, ...]]
Watcher: TypeAlias = Callable[[Symbol, tuple[Hashable, ...], Value], None]


class Fresh:
    """An element without a cell. It comes after all elements with cells."""

    __slots__ = ()


class UnknownError(Exception):
    """The answer depends on a rigid symbol with an unknown value."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        self.cell: Final = cell


class TracedCells:
    """The cells of one machine.

    bounded: the elements of the bounded sorts, by the name of the sort. fixed: the number of first
    places in which the machine's variables always have its own elements.
    """

    def __init__(
        self, table: Table, bounded: Mapping[str, tuple[Hashable, ...]], fixed: int
    ) -> None:
        self._place: Final = table.place
        self._bounded: Final = bounded
        self._fixed: Final = fixed
        # The relations that hold for all elements below a number, with that number.
        self._floors: Final = dict.fromkeys(
            (symbol for symbol, values in _written(table).items()
             if values == {True} and not symbol.values[0] and len(symbol.sorts) == fixed + 1
             and symbol.sorts[-1].ordered and symbol.sorts[-1].__name__ not in bounded), 0)
        self._values: Final[dict[Symbol, dict[tuple[Hashable, ...], Value]]] = {}
        self._everywhere: Final[dict[Symbol, Value]] = {}
        self._rigid: Final[dict[Cell, bool]] = {}
        self.watcher: Watcher | None = None  # is called with each cell that changes

    # Reading

    def explains(self, formula: Formula, environment: Environment) -> bool:
        """Whether the formula holds for some values of the rigid symbols that are unknown.

        If only one choice of values fits, it is kept.
        """
        believed = list(self._beliefs(formula, environment, {}))
        if len(believed) == 1:
            self._rigid.update(believed[0])
        return bool(believed)

    def _beliefs(
        self, formula: Formula, environment: Environment, assumed: dict[Cell, bool]
    ) -> Iterator[dict[Cell, bool]]:
        """The choices of unknown rigid values for which the formula holds."""
        try:
            if self._holds(formula, environment, assumed):
                yield assumed
        except UnknownError as unknown:
            for value in (False, True):
                yield from self._beliefs(formula, environment, {**assumed, unknown.cell: value})

    def _holds(
        self, formula: Formula, environment: Environment, assumed: Mapping[Cell, bool]
    ) -> bool:
        match formula:
            case And(parts):
                return all(self._holds(part, environment, assumed) for part in parts)
            case Or(parts):
                return any(self._holds(part, environment, assumed) for part in parts)
            case Not(part):
                return not self._holds(part, environment, assumed)
            case Same(left, right):
                return environment[left] == environment[right]
            case Before(left, right):
                return _before(environment[left], environment[right])
            case Forall(variable, body):
                return all(self._holds(body, one, assumed)
                           for one in self._each(variable, body, environment))
            case Exists(variable, body):
                return any(self._holds(body, one, assumed)
                           for one in self._each(variable, body, environment))
            case Atom(symbol, arguments, value):
                key = tuple([environment[variable] for variable in arguments])
                return self._value(symbol, key, assumed) == value
            case AtLeast(summands, bound):
                return sum(self._number(one, environment, assumed) for one in summands) >= bound
        raise AssertionError(formula)

    def _number(
        self, summand: Summand, environment: Environment, assumed: Mapping[Cell, bool]
    ) -> int:
        """The sum over all choices of elements. Raises SpecError where it has no end."""
        chosen: list[Environment] = [environment]
        body = Or(tuple(case for case, _ in summand.cases))
        for variable in summand.variables:
            chosen = [inner for one in chosen for inner in self._each(variable, body, one)]
        total = 0
        for one in chosen:
            number = next(n for case, n in summand.cases if self._holds(case, one, assumed))
            if number and any(isinstance(one[v], Fresh) for v in summand.variables):
                sorts = ", ".join(type(v).__name__ for v in summand.variables)
                raise SpecError(self._place, f"a count of all of {sorts}: a trace does not tell "
                                             "how many there are: bound the sort")
            total += number
        return total

    def _each(
        self, variable: Sort, body: Formula, environment: Environment
    ) -> Iterator[Environment]:
        return ({**environment, variable: element}
                for element in self._elements(variable, body, environment))

    def _elements(
        self, variable: Sort, body: Formula, environment: Environment
    ) -> Iterator[Hashable]:
        """Elements that together give the body all of its possible values."""
        sort = type(variable)
        if sort.__name__ in self._bounded:
            yield from self._bounded[sort.__name__]
            return
        seen: dict[Hashable, None] = {
            element: None for of, element in environment.items() if type(of) is sort}
        for atom, _ in atoms(body):
            for place in (i for i, v in enumerate(atom.arguments) if v == variable):
                seen.update((key[place], None) for key in self._values.get(atom.symbol, ()))
        yield from seen
        yield Fresh()
        if sort.ordered and all(isinstance(element, int) for element in seen):
            # Counted elements without a cell exist below each known one. The least of them comes
            # before everything that another of them comes before. A floor distinguishes the
            # elements below it from the others.
            for floor in {0, *self._floors.values()}:
                yield next(number for number in count(floor) if number not in seen)

    def value(self, symbol: Symbol, key: tuple[Hashable, ...]) -> Value:
        """The value of a variable at these elements."""
        return self._value(symbol, key, {})

    def text(self, symbol: Symbol, key: tuple[Hashable, ...]) -> str:
        """The value of a variable at these elements, as text."""
        if not isinstance(symbol, ElementFunction):
            return value_name(self.value(symbol, key))
        stored = self._values.get(symbol, {})
        return next((str(cell[-1]) for cell in stored if cell[:-1] == key), UNSET)

    def _value(
        self, symbol: Symbol, key: tuple[Hashable, ...], assumed: Mapping[Cell, bool]
    ) -> Value:
        if isinstance(symbol, IsNumber):
            return symbol.holds(key[0])
        if isinstance(symbol, Rigid):
            cell = symbol, key
            if cell not in self._rigid and cell not in assumed:
                raise UnknownError(cell)
            return self._rigid[cell] if cell in self._rigid else assumed[cell]
        if symbol in self._floors and _before(key[-1], self._floors[symbol]):
            return True
        return self._values.get(symbol, {}).get(key, self._default(symbol))

    def _default(self, symbol: Symbol) -> Value:
        return self._everywhere.get(symbol, symbol.values[0])

    # Writing

    def write(self, symbol: Symbol, key: tuple[Hashable, ...], value: Value) -> None:
        """Give a cell a value."""
        if self.watcher is not None and self.value(symbol, key) != value:
            self.watcher(symbol, key, value)
        cells = self._values.setdefault(symbol, {})
        if symbol in self._floors and key[-1] == self._floors[symbol]:
            cells[key] = value
            while (key := (*key[:-1], self._floors[symbol])) in cells:
                del cells[key]
                self._floors[symbol] += 1
        elif value == self._default(symbol):
            cells.pop(key, None)
        else:
            cells[key] = value

    def apply(self, table: Table, row: Row, environment: Environment) -> None:
        """Carry out the updates of the row."""
        assigned = [(update, one) for update in table.assignments(row)
                    for one in self.selected(update, environment)]
        for update, one in assigned:
            for plain in update.symbol.plain(update):
                self._assign(plain, one)

    def selected(self, update: Update, environment: Environment) -> Iterator[Environment]:
        """The environment with the elements for which the update is, by its `where`.

        An element without a cell is none of them: a running machine looks them up in its cells.
        """
        chosen: list[Environment] = [environment]
        for variable in update.variables:
            chosen = [inner for one in chosen
                      for inner in self._each(variable, update.where, one)
                      if not isinstance(inner[variable], Fresh)]
        return (one for one in chosen if self.explains(update.where, one))

    def _assign(self, update: Update, environment: Environment) -> None:
        if ANY not in update.arguments:
            key = tuple(environment[variable] for variable in update.arguments)
            self.write(update.symbol, key, update.value)
        elif all(argument is ANY for argument in update.arguments[self._fixed:]):
            for key in [*self._values.get(update.symbol, ())]:
                self.write(update.symbol, key, update.value)
            self._values.pop(update.symbol, None)
            self._everywhere[update.symbol] = update.value
        else:
            for key in list(self._values.get(update.symbol, ())):
                if all(argument is ANY or environment[argument] == element
                       for argument, element in zip(update.arguments, key, strict=True)):
                    self.write(update.symbol, key, update.value)

    def sent(self, row: Row, environment: Environment) -> Iterator[Cell]:
        """The messages that the row sends at these parameters."""
        for effect in row.send:
            if not isinstance(effect, Each):
                yield effect.symbol, tuple(environment[v] for v in effect.arguments)
                continue
            for one in self._each(effect.variable, effect.sent, environment):
                if self.explains(effect.where, one):
                    yield effect.sent.symbol, tuple(one[v] for v in effect.sent.arguments)


def sent_by(row: Row) -> Iterator[Symbol]:
    """The messages that a row sends, without their arguments."""
    return (effect.sent.symbol if isinstance(effect, Each) else effect.symbol
            for effect in row.send)


def _written(table: Table) -> Mapping[Symbol, set[Value]]:
    """The values that the rows write, by variable."""
    written: dict[Symbol, set[Value]] = {}
    for update in (update for row in table.rows for update in table.updates(row)):
        written.setdefault(update.symbol, set()).add(update.value)
    return written


def _before(left: Any, right: Any) -> bool:
    if isinstance(left, Fresh) or isinstance(right, Fresh):
        return isinstance(right, Fresh) and not isinstance(left, Fresh)
    return bool(left < right)
