"""Formulas as Python expressions over stored cells (cells.py).

Variables keep their names. The store binds the names in capitals: a dict of cells, an index of
them, the elements of a bounded sort, a rigid predicate, a value.

A quantifier over a bounded sort becomes a loop over its elements. A quantifier over an unbounded
sort becomes a look-up among the stored cells. These forms can be looked up:

    exists(k, lease(d, k, b))              the index of lease by (d, b) has an entry
    exists(f, e.before(f) & cur(p, f))     one of the entries of the index of cur by p passes
    forall(k, ~lease(d, k, b))             not exists; every forall becomes a negated exists
    exists(p, p.before(n) & ~applied(p))   the floor of applied lies below n

Any other form raises SpecError with the row's name. If only the machine's own arguments bind an
index, the expression may ask whether it is empty. It loops over it only if the machine `scans`: the
loop grows with the number of stored cells.
"""

import enum
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn, TypeAlias

from pdproto.spec.language.elements import ElementFunction
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
    free_variables,
    negated,
    normal,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Rigid, Symbol, Variable


@dataclass(frozen=True, slots=True)
class CellsOf:
    """The dict of a symbol's stored values."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class HolderOf:
    """The `Cells` object of a symbol: effects write to it, and guards read its default."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class IndexOf:
    """The buckets of an index of a symbol. counted: guards only ask whether a bucket exists."""

    symbol: Symbol
    bound: tuple[int, ...]
    values: frozenset[Value]
    counted: bool


@dataclass(frozen=True, slots=True)
class FloorOf:
    """The floors of a relation over an ordered sort."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class ElementsOf:
    """The elements of a bounded sort."""

    sort: type[Sort]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: a value of an enum, a message, a rigid symbol."""

    thing: Value | Symbol


Need: TypeAlias = CellsOf | HolderOf | IndexOf | FloorOf | ElementsOf | Constant


@dataclass(frozen=True, slots=True)
class Generator:
    """Stored cells that give the candidates for a quantified variable, which is at `place`."""

    symbol: Symbol
    arguments: tuple[Sort, ...]
    values: frozenset[Value]
    place: int


@dataclass(slots=True)
class Expressions:
    """Writes formulas (in negation normal form) as expressions, and collects the objects they name.

    own: the machine's own variables, if their elements are fixed. bounded: the sorts over which
    loops may run. scans: whether they may run over all stored cells of a symbol. needs: name in the
    source -> the object that the store binds to it. everywhere: the symbols to which some row gives
    one value for all elements of an unbounded sort; a cell of theirs that is not stored may have a
    value other than the initial one. floors: the relations that are read through a floor, with the
    place of their ordered sort. row: for error messages.
    """

    table: Table
    bounded: Collection[type[Sort]]
    own: tuple[Sort, ...]
    scans: bool = False
    needs: dict[str, Need] = field(default_factory=dict)
    everywhere: set[Symbol] = field(default_factory=set)
    floors: dict[Symbol, int] = field(default_factory=dict)
    row: Row | None = None
    _names: dict[Need, str] = field(default_factory=dict)

    def refuse(self, problem: str) -> NoReturn:
        """Raise SpecError about the row that is being written."""
        row = self.row
        place = self.table.place if row is None else row.place
        named = "" if row is None else f"row {row.name!r}: "
        raise SpecError(place, f"{named}{problem}")

    def name(self, need: Need, wanted: str) -> str:
        """The name of this object in the generated source: `wanted`, perhaps with a number."""
        if need not in self._names:
            tried = (wanted if n == 0 else f"{wanted}_{n}" for n in count())
            name = next(name for name in tried if name not in self.needs)
            self._names[need] = name
            self.needs[name] = need
        return self._names[need]

    def cells(self, symbol: Symbol) -> str:
        """The name of the dict of a symbol's stored values."""
        return self.name(CellsOf(symbol), symbol.name.upper())

    def value(self, value: Value) -> str:
        """The source of a constant value."""
        if isinstance(value, enum.Enum):
            return self.name(Constant(value), f"V_{value.name}")
        return repr(value)

    def elements(self, sort: type[Sort]) -> str:
        """The name of the elements of a bounded sort."""
        return self.name(ElementsOf(sort), f"EVERY_{sort.__name__.upper()}")

    def index(
        self, symbol: Symbol, bound: tuple[int, ...], values: frozenset[Value], *,
        counted: bool = False,
    ) -> str:
        """The name of an index of a symbol."""
        by = "_".join(map(str, bound)) or "NOTHING"
        return self.name(
            IndexOf(symbol, bound, values, counted), f"{symbol.name.upper()}_BY_{by}")

    def formula(self, formula: Formula) -> str:
        """The expression that is true where the formula holds."""
        match formula:
            case And(parts):
                return " and ".join(map(self.formula, parts)) if parts else "True"
            case Or(parts):
                return self._any_of(parts)
            case Forall(variable, body):
                if type(variable) in self.bounded:
                    everyone = self.elements(type(variable))
                    return f"all({self.formula(body)} for {variable.name} in {everyone})"
                return f"not ({self.exists(variable, negated(body))})"
            case Exists(variable, body):
                return self.exists(variable, body)
            case Atom():
                return self._atom(formula)
            case Not(Atom() as atom):
                return f"not ({self._atom(atom)})"
            case AtLeast(summands, bound):
                return f"{' + '.join(map(self._counted, summands)) or '0'} >= {bound}"
        return _identity(formula)

    def _counted(self, summand: Summand) -> str:
        """The sum over all elements of bounded sorts."""
        for variable in summand.variables:
            if type(variable) not in self.bounded:
                self.refuse(f"a count of all of {type(variable).__name__}: bound the sort")
        loops = " ".join(f"for {v.name} in {self.elements(type(v))}" for v in summand.variables)
        numbers = [f"{n} * ({self.formula(normal(case))})" for case, n in summand.cases if n]
        return f"sum({' + '.join(numbers) or '0'} {loops})"

    def _any_of(self, parts: tuple[Formula, ...]) -> str:
        cell = one_cell(parts)
        if len(parts) > 1 and cell is not None and len(cell[2]) > 1:
            symbol, arguments, values = cell
            wanted = ", ".join(self.value(v) for v in symbol.values if v in values)
            return f"{self._value_of(symbol, arguments)} in ({wanted})"
        return "(" + " or ".join(map(self.formula, parts)) + ")" if parts else "False"

    def _atom(self, atom: Atom) -> str:
        symbol, key = atom.symbol, key_of(atom.arguments)
        if isinstance(symbol, Rigid):
            name = self.name(Constant(symbol), f"IS_{symbol.name.upper()}")
            return f"{name}({', '.join(v.name for v in atom.arguments)})"
        if symbol in self.floors:
            ordered = atom.arguments[self.floors[symbol]].name
            return f"({ordered} < {self._floor(atom)} or {key} in {self.cells(symbol)})"
        if symbol in self.everywhere:
            return f"{self._value_of(symbol, atom.arguments)} is {self.value(atom.value)}"
        if atom.value == symbol.values[0]:
            return f"{key} not in {self.cells(symbol)}"
        if isinstance(atom.value, bool):
            return f"{key} in {self.cells(symbol)}"
        return f"{self.cells(symbol)}.get({key}) is {self.value(atom.value)}"

    def _value_of(self, symbol: Symbol, arguments: tuple[Sort, ...]) -> str:
        default = self.value(symbol.values[0])
        if symbol in self.everywhere:
            default = f"{self.holder(symbol)}.default"
        return f"{self.cells(symbol)}.get({key_of(arguments)}, {default})"

    def holder(self, symbol: Symbol) -> str:
        """The name of the `Cells` object of a symbol."""
        return self.name(HolderOf(symbol), f"CELLS_OF_{symbol.name.upper()}")

    def _floor(self, atom: Atom) -> str:
        place = self.floors[atom.symbol]
        rest = tuple(v for i, v in enumerate(atom.arguments) if i != place)
        floor = self.name(FloorOf(atom.symbol), f"FLOOR_OF_{atom.symbol.name.upper()}")
        return f"{floor}.get({key_of(rest)}, 0)"

    def exists(self, variable: Sort, body: Formula) -> str:
        """The expression that is true where some element satisfies the body."""
        if type(variable) in self.bounded:
            everyone = self.elements(type(variable))
            return f"any({self.formula(body)} for {variable.name} in {everyone})"
        if isinstance(body, Or):
            return "(" + " or ".join(self.exists(variable, part) for part in body.parts) + ")"
        parts = tuple(conjuncts(body))
        outside = [part for part in parts if variable not in free_variables(part)]
        inside = [part for part in parts if variable in free_variables(part)]
        found = self._decided(variable, inside)
        if found is None:
            for choice in (part for part in inside if isinstance(part, Or)):
                others = tuple(part for part in inside if part is not choice)
                found = self.exists(variable, Or(tuple(And((p, *others)) for p in choice.parts)))
                break
        if found is None:
            self.refuse(
                f"{And(parts)!r} cannot be decided for all of {type(variable).__name__} from the "
                f"stored cells: bound the sort, or ask for cells that are not initial"
            )
        return "(" + " and ".join([*map(self.formula, outside), str(found)]) + ")"

    def _decided(self, variable: Sort, parts: list[Formula]) -> str | None:
        """The look-up that decides the conjunction; None if no look-up has its form."""
        floor = _below(variable, parts)
        if floor is not None and floor[0].symbol in self.floors:
            atom, end = floor
            return f"{self._floor(atom)} < {end.name}"
        for part in parts:
            rest = And(tuple(other for other in parts if other is not part))
            if isinstance(part, Same):
                other = part.right if part.left == variable else part.left
                return f"any({self.formula(rest)} for {variable.name} in ({other.name},))"
            found = self.generator(variable, part)
            if found is not None and (not rest.parts or self.narrow(found)):
                buckets, key, targets = self.bucket(found, counted=not rest.parts)
                if not rest.parts:
                    return f"{key} in {buckets}"
                return f"any({self.formula(rest)} for {targets} in {buckets}.get({key}, ()))"
        return None

    def generator(self, variable: Sort, part: Formula) -> Generator | None:
        """The stored cells that satisfy the conjunct; None if cells that are not stored may too."""
        cell = one_cell(part.parts if isinstance(part, Or) else (part,))
        if cell is None:
            return None
        symbol, arguments, values = cell
        known = isinstance(symbol, Variable | Message) and symbol not in self.everywhere
        if not known or symbol in self.floors or symbol.values[0] in values:
            return None
        places = [i for i, argument in enumerate(arguments) if argument == variable]
        return Generator(symbol, arguments, values, places[0]) if len(places) == 1 else None

    def narrow(self, found: Generator) -> bool:
        """Whether an argument other than the machine's own narrows the cells down, or need not.

        A cell of a function into a sort has one value at most, so the look-up finds one at most.
        """
        if isinstance(found.symbol, ElementFunction) and (
                found.place == len(found.arguments) - 1):
            return True
        others = (v for i, v in enumerate(found.arguments) if i != found.place)
        return self.scans or any(v not in self.own for v in others)

    def bucket(self, found: Generator, *, counted: bool = False) -> tuple[str, str, str]:
        """The index, the key of its bucket, and the names into which a cell is unpacked."""
        bound = tuple(i for i in range(len(found.arguments)) if i != found.place)
        key = key_of(tuple(found.arguments[i] for i in bound))
        names = [v.name if i == found.place else "_" for i, v in enumerate(found.arguments)]
        index = self.index(found.symbol, bound, found.values, counted=counted)
        return index, key, f"({', '.join(names)},)"

    def find_floors(self, formula: Formula) -> None:
        """Note the relations of which a formula asks whether they hold for all earlier elements."""
        match formula:
            case And(parts) | Or(parts):
                for part in parts:
                    self.find_floors(part)
            case Forall(_, body):
                self.find_floors(body)
            case Exists(variable, body):
                floor = _below(variable, list(conjuncts(body)))
                # A relation that holds at the start has no first element at which it does not.
                if floor is not None and type(variable) not in self.bounded and (
                        not floor[0].symbol.values[0]):
                    atom = floor[0]
                    self.floors[atom.symbol] = atom.arguments.index(variable)
                self.find_floors(body)


def _identity(formula: Formula) -> str:
    """The expression that compares two variables."""
    match formula:
        case Same(left, right):
            return f"{left.name} == {right.name}"
        case Not(Same(left, right)):
            return f"{left.name} != {right.name}"
        case Before(left, right):
            return f"{left.name} < {right.name}"
        case Not(Before(left, right)):
            return f"{left.name} >= {right.name}"
    raise AssertionError(f"not in negation normal form: {formula!r}")


def key_of(arguments: tuple[Sort, ...]) -> str:
    """The source of a tuple of the arguments, also for one argument or none."""
    names = ", ".join(v.name for v in arguments)
    return f"({names},)" if len(arguments) == 1 else f"({names})"


def conjuncts(formula: Formula) -> Iterator[Formula]:
    """The parts of nested conjunctions."""
    if isinstance(formula, And):
        for part in formula.parts:
            yield from conjuncts(part)
    else:
        yield formula


def one_cell(
    parts: tuple[Formula, ...],
) -> tuple[Symbol, tuple[Sort, ...], frozenset[Value]] | None:
    """The one cell of all literals of a disjunction, with the values that satisfy it; or None."""
    cells: set[tuple[Symbol, tuple[Sort, ...]]] = set()
    values: set[Value] = set()
    for part in parts:
        match part:
            case Atom(symbol=Rigid()) | Not(Atom(symbol=Rigid())):
                return None
            case Atom(symbol, arguments, value):
                values.add(value)
            case Not(Atom(symbol, arguments, value)):
                values.update(v for v in symbol.values if v != value)
            case _:
                return None
        cells.add((symbol, arguments))
    if len(cells) != 1:
        return None
    symbol, arguments = cells.pop()
    return symbol, arguments, frozenset(values)


def _below(variable: Sort, parts: list[Formula]) -> tuple[Atom, Sort] | None:
    """For the conjunction "v comes before n, and not rel(v)": the atom and n; otherwise None."""
    if len(parts) != 2 or not type(variable).ordered:
        return None
    ends = [p.right for p in parts if isinstance(p, Before) and p.left == variable]
    missing = [p.part for p in parts if isinstance(p, Not) and isinstance(p.part, Atom)]
    if len(ends) != 1 or len(missing) != 1 or ends[0] == variable:
        return None
    atom = missing[0]
    fits = not isinstance(atom.symbol, Rigid) and atom.value is True
    return (atom, ends[0]) if fits and atom.arguments.count(variable) == 1 else None
