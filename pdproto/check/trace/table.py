"""One machine's table for the replay of traces: a mask test for each row and choice of parameters.

An instance has a small local state of its own, over the cells that its rows read and write. Rows of
other machines (a pool, an engine) may write its variables too. For these rows, the replay tests
only the part of the guard about this instance, because the trace shows no more of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, TypeAlias

from pdproto.check.trace.lines import Element
from pdproto.ground.grounding import Environment, Grounder
from pdproto.ground.layout import Indices, Layout, value_name
from pdproto.ground.local import index_tuples, local_symbols, rigid_relations
from pdproto.ground.program import Action, Guard, Literal, assignment
from pdproto.spec.language.formula import TRUE, And, Formula, Value, atoms, normal
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import (
    Each,
    Message,
    Sent,
    Sizes,
    Symbol,
    Update,
    Variable,
    sent_by,
)
from pdproto.spec.language.system import System

AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
Line: TypeAlias = tuple[str, Indices, str]  # variable, arguments, value as a word
Written: TypeAlias = tuple[Line, ...]


Trigger: TypeAlias = tuple[AnyMessage, Indices, tuple[str, ...]]  # the names of its arguments too


@dataclass(frozen=True, slots=True)
class GroundedRow:
    """A row at its parameters. guard: None if it can never hold. trigger: if it is a message.

    actions: its updates; if one has a `where`, one action for each choice of the cells that satisfy
    it, and only one of their guards holds. parts: the conjuncts of the guard, as formulas; for a
    row of another machine, only the conjuncts about this instance.
    """

    row: Row
    parts: tuple[Formula, ...]
    environment: Environment
    guard: Guard | None
    actions: tuple[Action, ...]
    sent: tuple[tuple[AnyMessage, Indices], ...] = ()
    trigger: Trigger | None = None

    def holds(self, state: int) -> bool:
        """Whether the guard holds in the state."""
        return self.guard is not None and self.guard.holds(state)

    def apply(self, state: int) -> int:
        """The state after the row."""
        if len(self.actions) == 1:
            return self.actions[0].apply(state)
        return next(action for action in self.actions if action.guard.holds(state)).apply(state)


@dataclass(frozen=True, slots=True)
class TracedRow:
    """A row with the form of its lines: the trigger and the names of its parameters."""

    row: Row
    on: str | None
    parameters: tuple[tuple[str, type[Sort]], ...]
    ground: dict[Indices, GroundedRow] = field(default_factory=dict)


class LocalTable:
    """A table for an instance that counts so many elements of each sort; 1 of its own sorts."""

    def __init__(self, system: System, table: Table, sizes: Sizes) -> None:
        self.system: Final = system
        self.table: Final = table
        self.sizes: Final = sizes
        self.own: Final = table.machine.sorts
        self.symbols: Final = {symbol.name: symbol for symbol in local_symbols(table)}
        # The values that devices may write: (variable, value as text).
        self.writable: Final = {(s.name, value_name(value)) for s in self.symbols.values()
                                if isinstance(s, Variable) for value in s.engine_writes}
        self.layout: Final = Layout(tuple(self.symbols.values()), sizes)
        given = {rigid: frozenset(index_tuples(rigid, sizes)) for rigid in rigid_relations(table)}
        self.grounder: Final = Grounder(self.layout, given, table.place)
        self.rows: Final[Mapping[str, TracedRow]] = {
            row.name: TracedRow(
                row, None if row.on is None else str(row.on),
                tuple((v.name, type(v)) for v in table.parameters(row)))
            for row in table.rows
        }
        self._device: Final[dict[Written, tuple[GroundedRow, ...]]] = {}
        self._moved: Final[dict[tuple[int, int], int]] = {}
        self._pending: Final[dict[int, tuple[GroundedRow, ...]]] = {}
        self._words: Final[dict[int, str]] = {}

    def ground(self, local: TracedRow, indices: Indices) -> GroundedRow:
        """The row at these parameters; it is kept."""
        known = local.ground.get(indices)
        if known is None:
            environment = dict(zip(self.table.parameters(local.row), indices, strict=True))
            known = local.ground[indices] = self._ground(local.row, environment)
        return known

    def _ground(self, row: Row, environment: Environment) -> GroundedRow:
        guard = self.grounder.guard(normal(self.table.condition(row)), environment, row)
        sent = tuple(self.grounder.sent(row, environment))
        marks = [self.mark(message, indices) for message, indices in sent]
        cases = () if guard is None else self.grounder.cases(self.table, row, environment, guard)
        actions = tuple(Action(case, *assignment([*assigned, *marks])) for case, assigned in cases)
        trigger = None
        if isinstance(row.on, Sent):
            trigger = (row.on.message, self.grounder.cell(row.on.arguments, environment),
                       tuple(v.name for v in row.on.arguments))
        parts = self.table.condition(row).parts
        return GroundedRow(row, parts, environment, guard, actions, sent, trigger)

    def mark(self, message: AnyMessage, indices: Indices) -> Literal:
        """The literal that a message has been sent; empty if no row reads it."""
        if message.name not in self.symbols:
            return Literal(0, 0)
        return self.layout.literal(message, indices, True)

    def device(self, written: Written) -> tuple[GroundedRow, ...]:
        """The rows of other machines, with parameters, that write exactly these values here."""
        known = self._device.get(written)
        if known is None:
            known = self._device[written] = tuple(self._writing(frozenset(written)))
        return known

    def _writing(self, written: frozenset[Line]) -> Iterator[GroundedRow]:
        for table in self.system.tables:
            if table.machine is self.table.machine:
                continue
            for row in table.rows:
                updates = [u for u in table.updates(row) if self.owns(u.symbol)]
                if not {name for name, _, _ in written} <= {u.symbol.name for u in updates}:
                    continue
                parts = tuple(p for p in table.guard(row).parts if self._local(p))
                guard = normal(And(parts))
                for environment in self.grounder.environments(table.parameters(row)):
                    always, perhaps = self._cells_of(updates, environment)
                    if always.keys() <= written <= always.keys() | perhaps.keys():
                        literals = {**always, **perhaps}
                        action = Action(Guard(), *assignment(literals[one] for one in written))
                        condition = self.grounder.guard(guard, environment, row)
                        yield GroundedRow(row, parts, environment, condition, (action,))

    def _cells_of(
        self, updates: Sequence[Update], environment: Environment
    ) -> tuple[dict[Line, Literal], dict[Line, Literal]]:
        """The lines of the updates: of those that are made, and of those that may be made.

        A `where` may read variables of the other machine, so it is not tested. Of two updates of a
        cell the later one counts.
        """
        always: dict[Line, Literal] = {}
        perhaps: dict[Line, Literal] = {}
        for one in updates:
            for chosen in self.grounder.environments(one.variables):
                for at in self.grounder.cells(one, {**environment, **chosen}):
                    before = [line for line in (*always, *perhaps)
                              if line[:2] == (one.symbol.name, at)]
                    for line in before:
                        literal = always.pop(line, None) or perhaps.pop(line)
                        if one.where != TRUE:
                            perhaps[line] = literal
                    line = one.symbol.name, at, value_name(one.value)
                    found = perhaps if one.where != TRUE else always
                    found[line] = self.layout.literal(one.symbol, at, one.value)
        return always, perhaps

    def owns(self, symbol: Symbol) -> bool:
        """Whether the symbol is a variable of this machine."""
        return isinstance(symbol, Variable) and symbol.owner is self.table.machine

    def _local(self, formula: Formula) -> bool:
        return all(self.owns(atom.symbol) for atom, _ in atoms(formula))

    def translate(self, state: int, other: "LocalTable") -> int:
        """The same state for other sizes. Raises KeyError if a cell that is set does not exist."""
        key = (id(other), state)
        known = self._moved.get(key)
        if known is None:
            cells = self.layout.decode(state).items()
            known = other.layout.encode({c: v for c, v in cells if v != c[0].values[0]})
            self._moved[key] = known
        return known

    def word(self, state: int) -> str:
        """The value of the machine's state variable, as text."""
        known = self._words.get(state)
        if known is None:
            symbol = self.table.state
            value = "" if symbol is None else value_name(
                self.layout.value(state, symbol, (0,) * len(symbol.sorts)))
            known = self._words[state] = value
        return known

    def pending(self, state: int) -> tuple[GroundedRow, ...]:
        """The fair rows without a trigger that can fire and would change the state."""
        known = self._pending.get(state)
        if known is None:
            known = self._pending[state] = tuple(
                ground
                for local in self.rows.values() if local.row.on is None and local.row.is_fair
                for ground in self.every(local)
                if ground.holds(state) and ground.apply(state) != state)
        return known

    def every(self, local: TracedRow) -> Iterator[GroundedRow]:
        """The row at all parameters."""
        for environment in self.grounder.environments(self.table.parameters(local.row)):
            yield self.ground(local, tuple(environment.values()))

    def cells(self, symbol: Symbol, own: Indices) -> Iterator[Indices]:
        """The cells of a symbol that begin with these elements."""
        rest = (range(self.sizes[sort]) for sort in symbol.sorts[len(own):])
        return ((*own, *indices) for indices in product(*rest))

    def value(self, state: int, symbol: Symbol, indices: Indices) -> Value:
        """The value of a cell in the state."""
        return self.layout.value(state, symbol, indices)

    def failing(self, ground: GroundedRow, state: int) -> tuple[Formula, ...]:
        """The conjuncts of the row's guard, without its trigger, that do not hold."""
        return tuple(part for part in ground.parts if not self._holds(part, ground, state))

    def _holds(self, part: Formula, ground: GroundedRow, state: int) -> bool:
        guard = self.grounder.guard(normal(part), ground.environment, ground.row)
        return guard is not None and guard.holds(state)


def may_send(
    table: Table, row: str, given: Mapping[str, Element], message: str,
    arguments: tuple[Element, ...],
) -> bool:
    """Whether a row with these parameters sends such a message; its guard is not tested."""
    for effect in (effect for other in table.rows if other.name == row for effect in other.send):
        sent = sent_by(effect)
        anybody = effect.variable if isinstance(effect, Each) else None
        if sent.message.name == message and all(
                variable == anybody or given.get(variable.name) == argument
                for variable, argument in zip(sent.arguments, arguments, strict=True)):
            return True
    return False
