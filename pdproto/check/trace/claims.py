"""The properties of a system, evaluated over the cells of all machines of a run.

Only a certain violation counts: one in cells whose values lines tell. A property may not depend on
a rigid symbol, on a message that waits in a channel, on a variable that the world, a fault or a
device writes, or on a machine without a trace: no line tells their values in each state.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from pdproto.check.trace.cells import Cell, Environment, Fresh
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
    Value,
    atoms,
    free_variables,
    negated,
    normal,
)
from pdproto.spec.language.machine import Machine
from pdproto.spec.language.numbered import IsNumber
from pdproto.spec.language.properties import Always, OnRow
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Message, Symbol, Variable, sent_by
from pdproto.spec.language.system import System

Key: TypeAlias = tuple[Hashable, ...]
ALTERNATIVES_MAX: Final = 256  # of one conjunction; with more it is tested as a whole


class Case(NamedTuple):
    """One way to violate a property: all parts hold, for some elements of the variables."""

    claim: str
    variables: tuple[Sort, ...]
    parts: tuple[Formula, ...]


class Claims:
    """The properties of a system, as ways to violate them that lines can tell of.

    untold: the symbols with values that no line tells in each state. left_out: of each property
    that may be violated in a way that no line tells of, those symbols by their names.
    """

    def __init__(self, system: System) -> None:
        self.untold: Final = frozenset(_untold(system))
        self.left_out: Final[dict[str, dict[str, None]]] = {}
        self.always: Final[dict[Symbol, list[tuple[Case, Atom | None]]]] = {}
        self.on_row: Final[dict[str, list[Case]]] = {}
        for claim in system.properties:
            if isinstance(claim, Always):
                for case in self._cases(claim.name, claim.claim):
                    for symbol, at in _triggers(case):
                        self.always.setdefault(symbol, []).append((case, at))
            elif isinstance(claim, OnRow):
                self.on_row.setdefault(claim.row, []).extend(self._cases(claim.name, claim.claim))
        self.symbols: Final = {*self.always, *(
            atom.symbol for cases in self.on_row.values() for case in cases
            for part in case.parts for atom, _ in atoms(part))}

    def _cases(self, name: str, claim: Formula) -> Iterator[Case]:
        for variables, parts in _alternatives(negated(claim), free_variables(claim)):
            untold = [part for part in parts if self._is_untold(part)]
            if not untold:
                yield Case(name, variables, parts)
                continue
            self.left_out.setdefault(name, {}).update(
                (atom.symbol.name, None) for part in untold for atom, _ in atoms(part)
                if self._is_untold(atom))

    def _is_untold(self, part: Formula) -> bool:
        """Whether a conjunct cannot be certain. A disjunction may be, by its other parts."""
        match part:
            case Atom(symbol):
                return symbol in self.untold or not isinstance(
                    symbol, Variable | Message | IsNumber)
            case Not(inner):
                return self._is_untold(inner)
            case Forall(_, inner) | Exists(_, inner):
                return self._is_untold(inner)
            case Or(parts):
                return all(self._is_untold(one) for one in parts)
            case And(parts):
                return any(self._is_untold(one) for one in parts)
            case AtLeast():
                return any(self._is_untold(atom) for atom, _ in atoms(part))
        return False


def _untold(system: System) -> Iterator[Symbol]:
    for symbol in system.variables:
        match symbol:
            case Variable() if symbol.owner.world or symbol.engine_writes:
                yield symbol
            case Message() if symbol.fifo is not None or symbol.sender.machine.world:
                yield symbol
    for table, row in system.rows():
        for update in (one for given in table.updates(row) for one in given.symbol.plain(given)):
            owner = getattr(update.symbol, "owner", None)
            if owner is not table.machine or (  # a value for all elements is no value of a cell
                    ANY in update.arguments and update.value != update.symbol.values[0]):
                yield update.symbol
        if table.machine.world:
            yield from (sent_by(effect).symbol for effect in row.send)


def _alternatives(
    formula: Formula, bound: tuple[Sort, ...]
) -> Iterator[tuple[tuple[Sort, ...], tuple[Formula, ...]]]:
    """The formula, in negation normal form, as alternatives of conjuncts under `exists`."""
    match formula:
        case Or(parts):
            for part in parts:
                yield from _alternatives(part, bound)
        case And(parts):
            together: list[tuple[tuple[Sort, ...], tuple[Formula, ...]]] = [(bound, ())]
            for part in parts:
                together = [(more, (*before, *behind)) for variables, before in together
                            for more, behind in _alternatives(part, variables)]
                if len(together) > ALTERNATIVES_MAX:  # as in a comparison of two sums
                    together = [(bound, (formula,))]
                    break
            yield from together
        case Exists(variable, body) if variable not in bound:
            yield from _alternatives(body, (*bound, variable))
        case _:
            yield bound, (formula,)


def _triggers(case: Case) -> Iterator[tuple[Symbol, Atom | None]]:
    """The symbols whose change may violate the property. The atom, if only at its elements."""
    for part in case.parts:
        inner = part.part if isinstance(part, Not) else part
        if isinstance(inner, Atom):
            yield inner.symbol, inner
        else:
            yield from ((atom.symbol, None) for atom, _ in atoms(inner))


class Book:
    """The cells of all machines in one state.

    begun: the own elements of each machine's instances with a trace; None for all. elements: those
    of each sort that lines name. bounded: sorts without other elements.
    """

    def __init__(
        self, claims: Claims, begun: Mapping[Machine[*tuple[Any, ...]], Collection[Key] | None],
        elements: Mapping[type[Sort], Collection[Hashable]], bounded: Collection[type[Sort]],
    ) -> None:
        self._claims: Final = claims
        self._begun: Final = begun
        self._elements: Final = elements
        self._bounded: Final = bounded
        self._values: Final[dict[Symbol, dict[Key, Value]]] = {}

    def write(self, cell: Cell, value: Value) -> Value:
        """Give a cell a value. Returns the one before."""
        symbol, key = cell
        cells = self._values.setdefault(symbol, {})
        before = cells.get(key, symbol.values[0])
        if value == symbol.values[0]:
            cells.pop(key, None)
        else:
            cells[key] = value
        return before

    def broken(self, changed: Iterable[Cell]) -> str:
        """An `Always` that is violated since these cells have changed; empty if there is none."""
        for symbol, key in changed:
            for case, atom in self._claims.always.get(symbol, ()):
                bound = {} if atom is None else _bound(atom, key, {})
                if bound is not None and self._occurs(case, bound):
                    return case.claim
        return ""

    def broken_at(self, row: str, environment: Environment) -> str:
        """An `OnRow` of the row that is violated; empty if there is none."""
        return next((case.claim for case in self._claims.on_row.get(row, ())
                     if self._occurs(case, environment)), "")

    def _occurs(self, case: Case, bound: Environment) -> bool:
        """Whether all parts hold, with some elements for the other variables."""
        free = [variable for variable in case.variables if variable not in bound]
        for part in case.parts:
            atom = _stored(part)
            if atom is not None and any(variable in free for variable in atom.arguments):
                return any(self._occurs(case, more) for key in [*self._values.get(atom.symbol, ())]
                           if (more := _bound(atom, key, bound)) is not None)
        return any(
            all(self._holds(part, environment) for part in case.parts)
            for chosen in product(*(self._elements.get(type(one), ()) for one in free))
            for environment in [{**bound, **dict(zip(free, chosen, strict=True))}])

    def _holds(self, formula: Formula, environment: Environment) -> bool:
        """Whether the formula holds for certain."""
        match formula:
            case And(parts):
                return all(self._holds(part, environment) for part in parts)
            case Or(parts):
                return any(self._holds(part, environment) for part in parts)
            case Exists(variable, body):
                return any(self._holds(body, {**environment, variable: element})
                           for element in self._elements.get(type(variable), ()))
            case Forall(variable, body):
                sort = type(variable)
                others = () if sort in self._bounded else (Fresh(),)
                return all(self._holds(body, {**environment, variable: element})
                           for element in (*self._elements.get(sort, ()), *others))
            case AtLeast():
                return self._is_counted(formula, environment)
            case Not(inner):
                value = self._value(inner, environment)
                return value is not None and not value
        return bool(self._value(formula, environment))

    def _is_counted(self, formula: AtLeast, environment: Environment) -> bool:
        """Whether the numbers that are certain are enough, whatever the others are."""
        least = 0
        for one in formula.summands:
            unbounded = any(type(v) not in self._bounded for v in one.variables)
            if unbounded and any(number < 0 for _, number in one.cases):
                return False
            for chosen in product(*(self._elements.get(type(v), ()) for v in one.variables)):
                inner = {**environment, **dict(zip(one.variables, chosen, strict=True))}
                certain = (n for case, n in one.cases if self._holds(normal(case), inner))
                least += next(certain, min(number for _, number in one.cases))
        return least >= formula.bound

    def _value(self, formula: Formula, environment: Environment) -> bool | None:
        """Whether a formula without parts holds; None if no line tells it."""
        match formula:
            case Same(left, right):
                one, other = environment[left], environment[right]
                fresh = isinstance(one, Fresh) and isinstance(other, Fresh)
                return None if fresh and left != right else one == other
            case Before(left, right):
                first, then = environment[left], environment[right]
                if isinstance(first, Fresh) or isinstance(then, Fresh):
                    return None
                return bool(first < then)  # type: ignore[operator]  # elements of an ordered sort
            case Atom(IsNumber() as symbol, (variable,)):
                return symbol.holds(environment[variable])
            case Atom(symbol, arguments, value):
                key = tuple(environment[variable] for variable in arguments)
                if not self._is_told(symbol, key):
                    return None
                return self._values.get(symbol, {}).get(key, symbol.values[0]) == value
        raise AssertionError(formula)

    def _is_told(self, symbol: Symbol, key: Key) -> bool:
        if symbol in self._claims.untold or not isinstance(symbol, Message | Variable):
            return False
        if isinstance(symbol, Message):
            named = dict(zip(symbol.formals, key, strict=True))
            machine = symbol.sender.machine
            own = tuple(named[variable] for variable in symbol.sender.variables)
        else:
            machine = symbol.owner
            own = key[:len(machine.own)]
        begun = self._begun.get(machine, ())
        return begun is None or own in begun


def _stored(part: Formula) -> Atom | None:
    """The atom of a part that holds only in cells with a value that is not initial."""
    match part:
        case Atom(symbol, _, value) if value != symbol.values[0]:
            return part
        case Not(Atom(symbol, _, value) as atom) if value == symbol.values[0]:
            return atom
    return None


def _bound(atom: Atom, key: Key, environment: Environment) -> Environment | None:
    """The environment in which the atom is about this cell; None if there is none."""
    bound = dict(environment)
    for variable, element in zip(atom.arguments, key, strict=True):
        if bound.setdefault(variable, element) != element:
            return None
    return bound
