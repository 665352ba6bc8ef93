"""An interpreter of the language, written from docs/reference/language.md alone: slow and plain.

It reads the values that a spec module builds, and shares no line with the checker: no ground form,
no masks, no normal forms, none of the helpers with which the checker reads a row. A state is a
mapping from cells to values. A function into a sort has an element as its value, a channel a tuple
of messages, a message the receivers that may still take it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from pdproto.spec.language.computed import Chosen
from pdproto.spec.language.elements import ElementCell, ElementFunction
from pdproto.spec.language.formula import (
    And,
    Atom,
    Before,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
)
from pdproto.spec.language.machine import Machine, Row, Table
from pdproto.spec.language.numbered import IsNumber, NumberOf
from pdproto.spec.language.numbers import Either, Extreme, Total
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.sequences import Item, NumberItem
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import (
    Cell,
    Computed,
    Each,
    Message,
    Number,
    Rigid,
    Sent,
    Symbol,
    Update,
)
from pdproto.spec.language.system import System
from pdproto.spec.language.terms import (
    Arithmetic,
    Comparison,
    Constant,
    NumberCell,
    NumberFunction,
    Term,
)
from pdproto.spec.language.triggers import Call, Completion, Timer
from tests.oracle.ends import passes_an_end

Indices: TypeAlias = tuple[int, ...]
Given: TypeAlias = Mapping[Any, frozenset[Indices]]
Cells: TypeAlias = dict[tuple[Any, Indices], Any]  # only those that are not as at the start
State: TypeAlias = frozenset[tuple[tuple[Any, Indices], Any]]
Env: TypeAlias = dict[Sort, int]

START: State = frozenset()


@dataclass(frozen=True, eq=False)
class Step:
    """A row of a table, or of a fault layer, for one choice of its parameters."""

    table: Table
    row: Row
    layer: str
    env: Env

    @property
    def own(self) -> Indices:
        """The elements of the instance that takes the row."""
        return tuple(self.env[v] for v in self.table.machine.own)

    @property
    def parameters(self) -> str:
        """The elements of the parameters as a report writes them."""
        return ", ".join(type(v).element(i) for v, i in self.env.items())

    def is_fair(self, fairness: Fairness) -> bool:
        """Whether the row must fire in the end where it stays enabled."""
        on = self.row.on
        if self.layer or (fairness is Fairness.DETECTORS and isinstance(on, Timer)
                          and not on.detector):
            return False
        return not isinstance(on, Call) if self.row.fair is None else bool(self.row.fair)


class PastEndError(Exception):
    """A step reads an element of a list that is not there."""


class Interpreter:
    """The steps of a system at given sizes, with some fault layers.

    fairness: with CONSUMED a delivery takes the message off the network, with NO_TIMERS no row is
    on a timer.
    """

    def __init__(
        self, system: System, sizes: Mapping[type[Sort], int], faults: tuple[str, ...],
        given: Given, fairness: Fairness = Fairness.TIMERS,
    ) -> None:
        self.system, self.sizes, self.given = system, sizes, given
        self.consume = fairness is Fairness.CONSUMED
        tables = [(table, "") for table in system.tables]
        tables += [(table, layer) for layer in faults for table in system.faults[layer]]
        self.steps = [
            Step(table, row, layer, env)
            for table, layer in tables for row in table.rows
            if not (fairness is Fairness.NO_TIMERS and isinstance(row.on, Timer))
            for env in self.choices(parameters(table.machine, row))
        ]

    def choices(self, variables: tuple[Sort, ...]) -> Iterator[Env]:
        """Every choice of elements for the variables."""
        for chosen in product(*(range(self.sizes[type(v)]) for v in variables)):
            yield dict(zip(variables, chosen, strict=True))

    # Formulas

    def holds(self, formula: Formula, cells: Cells, env: Env) -> bool:
        """Whether the formula holds. env: the elements of its free variables."""
        match formula:
            case Comparison():
                one, two = (self.number(side, cells, env) for side in (formula.left, formula.right))
                return {"==": one == two, "!=": one != two, "<": one < two, "<=": one <= two,
                        ">": one > two, ">=": one >= two}[formula.sign]
            case And():
                return all(self.holds(part, cells, env) for part in formula.parts)
            case Or():
                return any(self.holds(part, cells, env) for part in formula.parts)
            case Not():
                return not self.holds(formula.part, cells, env)
            case Same():
                return env[formula.left] == env[formula.right]
            case Before():
                return env[formula.left] < env[formula.right]
            case Forall():
                return all(self.holds(formula.body, cells, env | {formula.variable: i})
                           for i in range(self.sizes[type(formula.variable)]))
            case Exists():
                return any(self.holds(formula.body, cells, env | {formula.variable: i})
                           for i in range(self.sizes[type(formula.variable)]))
            case Atom():
                at = tuple(env[v] for v in formula.arguments)
                return bool(self._value(formula.symbol, at, cells) == formula.value)
        raise AssertionError(formula)

    def number(self, term: Term, cells: Cells, env: Env) -> int:
        """The number that a term is."""
        match term:
            case Constant():
                return term.number
            case NumberOf():
                return type(term.variable).values.low + env[term.variable]
            case NumberCell():
                at = tuple(env[v] for v in term.arguments)
                value: Number = self._value(term.symbol, at, cells)
                return int(value.value)
            case Arithmetic():
                one, two = (self.number(part, cells, env) for part in (term.left, term.right))
                match term.sign:
                    case "+":
                        return one + two
                    case "-":
                        return one - two
                    case "*":
                        return one * two
                    case "//":
                        return one // two
                    case "%":
                        return one % two
            case Either():
                side = self._side(term, cells, env)
                return self.number(side, cells, env)
            case Total() | Extreme():
                found = [self.number(term.each, cells, env | chosen)
                         for chosen in self.choices(term.variables)
                         if self.holds(term.where, cells, env | chosen)]
                if isinstance(term, Total):
                    return sum(found)
                extreme = min if term.word == "min_of" else max
                return extreme(found) if found else term.otherwise  # type: ignore[return-value]  # none is empty without
        raise AssertionError(term)

    def computed(self, value: Any, cells: Cells, env: Env) -> Any:
        """The value that an update assigns, from the state before the row."""
        match value:
            case Item() | NumberItem():
                index = self.number(value.index, cells, env)
                if not 0 <= index < self.number(value.cell.length, cells, env):
                    raise PastEndError
                place = value.cell.symbol.places[index]
                at = tuple(env[v] for v in value.cell.arguments)
                if isinstance(place, ElementFunction):
                    return cells.get((place, at))
                return self._value(place, at, cells)
            case Term():
                return self.number(value, cells, env)
            case Chosen():
                side = self._side(value, cells, env)
                return self.computed(side, cells, env)
            case Cell():
                return self._value(value.symbol, tuple(env[v] for v in value.arguments), cells)
            case ElementCell():
                return cells.get((value.symbol, tuple(env[v] for v in value.arguments)))
            case Sort():
                return env[value]
            case Formula():
                return self.holds(value, cells, env)
        return value

    def _value(self, symbol: Symbol, at: Indices, cells: Cells) -> Any:
        if isinstance(symbol, IsNumber):
            sort: Any = symbol.sorts[0]
            return sort.values.low + at[0] == symbol.number
        if isinstance(symbol, Rigid):
            return at in self.given[symbol]
        if isinstance(symbol, ElementFunction):
            return cells.get((symbol, at[:-1])) == at[-1]
        if isinstance(symbol, Message):
            if symbol.fifo is None:
                return bool(cells.get((symbol, at)))
            queue = cells.get(channel(symbol, at), ())
            return at[-1] < len(queue) and queue[at[-1]] == (symbol, at[:-1])
        return cells.get((symbol, at), symbol.values[0])

    def _side(self, chosen: Any, cells: Cells, env: Env) -> Any:
        if passes_an_end(self.holds, self.sizes, chosen.where, cells, env):
            raise PastEndError
        return chosen.yes if self.holds(chosen.where, cells, env) else chosen.no

    # Steps

    def after(self, step: Step, cells: Cells) -> Cells | None:
        """The cells after the step; None where it cannot fire."""
        if not self._is_in_state(step, cells) or not self._has_come(step, cells):
            return None
        when = step.row.when
        wanted = (when,) if isinstance(when, Formula) else when
        if not all(self.holds(formula, cells, step.env) for formula in wanted):
            return None
        after = dict(cells)
        self._take(step, after)
        if step.row.to is not None:
            after[step.table.state, step.own] = step.row.to
        try:
            if not self._update(step, cells, after):
                return None
        except PastEndError:
            return None
        if not all(self._send(message, at, after) for message, at in self.sent(step)):
            return None
        return {cell: value for cell, value in after.items() if value != initial(cell[0])}

    def _update(self, step: Step, cells: Cells, after: Cells) -> bool:
        """Make the updates; False where a number is out of range, or a list has no such place."""
        for update in step.row.do:
            for chosen in self.choices(update.variables):
                env, where = step.env | chosen, update.where
                if passes_an_end(self.holds, self.sizes, where, cells, env):
                    return False
                if self.holds(where, cells, env) and not self._assign(update, env, cells, after):
                    return False
        return True

    def _is_in_state(self, step: Step, cells: Cells) -> bool:
        at = step.row.at if isinstance(step.row.at, tuple) else (step.row.at,)
        state: Any = step.table.state
        return not at or cells.get((state, step.own), state.values[0]) in at

    def _has_come(self, step: Step, cells: Cells) -> bool:
        """Whether the trigger lets the step fire. Calls, timers and completions come at any time.
        """
        on = step.row.on
        if on is None or isinstance(on, Call | Timer | Completion):
            return True
        message, at = on.message, tuple(step.env[v] for v in on.arguments)
        if message.fifo is not None:
            queue = cells.get(channel(message, at), ())
            return bool(queue) and queue[0] == (message, at)
        waiting = cells.get((message, at), ())
        return step.own in waiting if self.consume else bool(waiting)

    def _take(self, step: Step, after: Cells) -> None:
        """Take the message of the trigger off its channel, or off the network."""
        on = step.row.on
        if not isinstance(on, Sent):
            return
        message, at = on.message, tuple(step.env[v] for v in on.arguments)
        if message.fifo is not None:
            cell = channel(message, at)
            after[cell] = after[cell][1:]
        elif self.consume:
            after[message, at] = after[message, at] - {step.own}

    def _assign(self, update: Update, env: Env, cells: Cells, after: Cells) -> bool:
        """Make the update; False where its number is out of range."""
        symbol, value = update.symbol, update.value
        if isinstance(value, Computed):
            value = self.computed(value.term, cells, env)
        if isinstance(symbol, NumberFunction) and not isinstance(value, Number):
            numbers = {one.value: one for one in symbol.range.values}
            if symbol.range.saturates:
                value = max(min(numbers), min(max(numbers), value))
            if value not in numbers:
                return False
            value = numbers[value]
        arguments, sorts = update.arguments, symbol.sorts
        if isinstance(symbol, ElementFunction):
            element = arguments[-1]
            if not isinstance(update.value, Computed):
                value = None if element is ANY else env[element]
            arguments, sorts = arguments[:-1], sorts[:-1]
        every = (range(self.sizes[sort]) if argument is ANY else (env[argument],)
                 for argument, sort in zip(arguments, sorts, strict=True))
        for at in product(*every):
            if isinstance(symbol, Message):
                after[symbol, at] = self.receivers(symbol, at) if value is True else frozenset()
            else:
                after[symbol, at] = value
        return True

    def sent(self, step: Step) -> Iterator[tuple[Message[*tuple[Any, ...]], Indices]]:
        """The messages that the step sends, in the order of the row. An `each` reads nothing that
        changes.
        """
        for effect in step.row.send:
            if not isinstance(effect, Each):
                yield effect.message, tuple(step.env[v] for v in effect.arguments)
                continue
            for chosen in self.choices((effect.variable,)):
                env = step.env | chosen
                if self.holds(effect.where, {}, env):
                    yield effect.sent.message, tuple(env[v] for v in effect.sent.arguments)

    def _send(self, message: Message[*tuple[Any, ...]], at: Indices, after: Cells) -> bool:
        """Send it; False where its channel is full."""
        if message.fifo is None:
            after[message, at] = self.receivers(message, at)
            return True
        cell = channel(message, at)
        queue = after.get(cell, ())
        after[cell] = (*queue, (message, at))
        return len(queue) < self.sizes[message.fifo]

    def receivers(self, message: Message[*tuple[Any, ...]], at: Indices) -> frozenset[Indices]:
        """The instances that a message goes to: one that it names, or all."""
        named = dict(zip(message.formals, at, strict=True))
        return frozenset(product(*(
            (named[v],) if v in named else range(self.sizes[type(v)])
            for v in message.receiver.variables)))

    def successors(self, state: State) -> Iterator[tuple[Step, State]]:
        """Every step that can fire in the state, and the state after it."""
        cells = dict(state)
        for step in self.steps:
            after = self.after(step, cells)
            if after is not None:
                yield step, frozenset(after.items())


def initial(symbol: Any) -> object:
    """The value of a cell at the start."""
    if isinstance(symbol, ElementFunction):
        return None
    if isinstance(symbol, tuple):  # a channel
        return ()
    return frozenset() if isinstance(symbol, Message) else symbol.values[0]


def parameters(machine: Machine[*tuple[Any, ...]], row: Row) -> tuple[Sort, ...]:
    """The machine's own variables, then the trigger's, then the chosen ones."""
    on = row.on
    named: tuple[Sort, ...] = ()
    if isinstance(on, Sent):
        named = on.arguments
    elif isinstance(on, Call | Completion):
        named = on.parameters
    return tuple(dict.fromkeys((*machine.own, *named, *row.choose)))


def channel(message: Message[*tuple[Any, ...]], at: Indices) -> tuple[Any, Indices]:
    """The cell of the channel in which a message with these arguments waits."""
    named = dict(zip(message.formals, at, strict=False))  # a place may follow
    ends = (*message.sender.variables, *message.receiver.variables)
    kind = message.sender.machine, message.receiver.machine, message.fifo
    return kind, tuple(named[v] for v in ends)


