"""The whole system at the sizes of one hand-over: what replay.py tests of one endpoint, together.

The states of all endpoints of a hand-over, and the messages that were sent, are one state of the
system. Its properties, and the rows of machines that write no trace (an engine, a pool, a fault),
are masks over that state.

An endpoint may count fewer elements than another: a sink counts all chunks of a source as one. Then
its last element stands for that element of the whole, and for all after it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Final, TypeAlias

from pdproto.check.trace.table import LocalTable
from pdproto.check.words import formula_text
from pdproto.ground.grounding import Environment, Grounder
from pdproto.ground.layout import Indices, Layout
from pdproto.ground.program import Action, Guard
from pdproto.spec.language.formula import normal
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.properties import Always, OnRow
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Message, Rigid, Sent, Sizes, Symbol, Variable, sent_by
from pdproto.spec.language.system import System

AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
AnyRigid: TypeAlias = Rigid[*tuple[Any, ...]]
Claim: TypeAlias = tuple[str, Guard]  # a property, and states in which it is violated
Images: TypeAlias = Mapping[type[Sort], tuple[tuple[int, ...], ...]]
# of each element of an endpoint, by its index: the elements of the whole for which it stands


@dataclass(frozen=True, slots=True, eq=False)
class WorldRow:
    """A row of a machine without a trace, at its parameters. layer: of faults, or "".

    guard: None if it never holds. claims: those of `OnRow` properties. variables: the mask of the
    variables that it writes.
    """

    table: Table
    row: Row
    layer: str
    environment: Environment
    guard: Guard | None
    action: Action
    claims: tuple[Claim, ...]
    variables: int
    fields: tuple[int, ...]

    @property
    def reads(self) -> int:
        """The mask of the bits on which its guard depends."""
        return 0 if self.guard is None else self.guard.reads


class Whole:
    """The system at these sizes, with these rigid relations. Everything is made at its first use.
    """

    def __init__(
        self, system: System, sizes: Sizes, given: Mapping[AnyRigid, frozenset[Indices]]
    ) -> None:
        self.system: Final = system
        self.layout: Final = Layout(system.variables, sizes)
        self.grounder: Final = Grounder(self.layout, given, system.place)
        self._always: Final = [
            (claim.name, guard) for claim in system.properties if isinstance(claim, Always)
            for environment in self.grounder.instances(claim.claim)
            for guard in self.grounder.failures(claim.claim, environment)]
        self._broken: Final[dict[tuple[int, int], str]] = {}
        self._on_row: Final[dict[tuple[str, Indices], tuple[Claim, ...]]] = {}
        self._world: Final[dict[tuple[str, Indices], WorldRow]] = {}
        self._states: Final[dict[tuple[object, ...], int]] = {}
        self._faults: Final[dict[int, tuple[WorldRow, ...]]] = {}
        self._owned: Final[dict[tuple[object, Indices], int]] = {}

    # States

    def state(self, local: LocalTable, state: int, images: Images, key: object) -> int:
        """The bits of an endpoint's variables. key: of the images."""
        known = self._states.get((id(local), state, key))
        if known is None:
            bits = 0
            for (symbol, at), value in local.layout.decode(state).items():
                if value != symbol.values[0] and local.owns(symbol):
                    for indices in self.cells(symbol, at, images):
                        bits |= self.layout.literal(symbol, indices, value).value
            known = self._states[id(local), state, key] = bits
        return known

    @staticmethod
    def cells(symbol: Symbol, at: Indices, images: Images) -> Iterator[Indices]:
        """The cells for which one of an endpoint stands."""
        return product(*(images[sort][index] for sort, index in zip(symbol.sorts, at, strict=True)))

    def owned(self, machine: object, own: Indices) -> int:
        """The mask of the variables of one instance, by its own elements."""
        known = self._owned.get((machine, own))
        if known is None:
            known = 0
            for (symbol, at), place in self.layout.fields.items():
                if (isinstance(symbol, Variable) and symbol.owner is machine
                        and at[:len(own)] == own):
                    known |= place.mask
            self._owned[machine, own] = known
        return known

    def sender(self, message: AnyMessage, at: Indices) -> int:
        """The mask of the variables of the instance that sends the message."""
        named = dict(zip(message.formals, at, strict=True))
        return self.owned(message.sender.machine, tuple(named[v] for v in message.sender.variables))

    def message(self, symbol: AnyMessage, at: Indices) -> int:
        """The bits of a message that has been sent."""
        return self.layout.literal(symbol, at, True).value

    # Properties

    def broken(self, state: int, unknown: int) -> str:
        """The name of an `Always` that the state violates; empty if there is none.

        unknown: bits whose values no trace shows. A property is violated if they do not matter.
        """
        known = self._broken.get((state, unknown))
        if known is None:
            known = self._broken[state, unknown] = violated(self._always, state, unknown)
        return known

    def on_row(self, row: Row, environment: Environment) -> tuple[Claim, ...]:
        """The `OnRow` properties of the row at its parameters."""
        key = row.name, tuple(environment.values())
        known = self._on_row.get(key)
        if known is None:
            known = self._on_row[key] = tuple(
                (claim.name, guard) for claim in self.system.properties
                if isinstance(claim, OnRow) and claim.row == row.name
                for rest in self._instances(claim, environment)
                for guard in self.grounder.failures(claim.claim, rest))
        return known

    def _instances(self, claim: OnRow, environment: Environment) -> Iterator[Environment]:
        """The environment of the row, with every choice for the claim's other variables."""
        for chosen in self.grounder.instances(claim.claim):
            if all(environment.get(variable, index) == index
                   for variable, index in chosen.items()):
                yield {**environment, **chosen}

    # Rows without a trace

    def world(self, table: Table, row: Row, layer: str, environment: Environment) -> WorldRow:
        """A row of a machine without a trace, at these parameters."""
        key = row.name, tuple(environment.values())
        known = self._world.get(key)
        if known is None:
            known = self._world[key] = self._world_row(table, row, layer, environment)
        return known

    def _world_row(
        self, table: Table, row: Row, layer: str, environment: Environment
    ) -> WorldRow:
        guard = self.grounder.guard(normal(table.guard(row)), environment, row)
        cases = () if guard is None else self.grounder.cases(table, row, environment, guard)
        literals = list(cases[0][1]) if cases else []
        fields = tuple(dict.fromkeys(literal.mask for literal in literals))
        clear = assign = variables = 0
        kinds = {place.mask: symbol for (symbol, _), place in self.layout.fields.items()}
        for literal in literals:
            clear |= literal.mask
            assign = assign & ~literal.mask | literal.value
            if isinstance(kinds[literal.mask], Variable):
                variables |= literal.mask
        for message, at in self.grounder.sent(row, environment):
            assign |= self.message(message, at)
            clear |= self.message(message, at)
        return WorldRow(table, row, layer, environment, guard, Action(Guard(), clear, assign),
                        self.on_row(row, environment), variables, fields)

    def faults(self, reads: int) -> tuple[WorldRow, ...]:
        """The rows of faults that change any of these bits of variables."""
        known = self._faults.get(reads)
        if known is None:
            known = self._faults[reads] = tuple(
                row for row in self._every_fault if row.variables & reads)
        return known

    @cached_property
    def _every_fault(self) -> tuple[WorldRow, ...]:
        return tuple(
            self.world(table, row, layer, environment)
            for layer, tables in self.system.faults.items() for table in tables
            for row in table.rows if not isinstance(row.on, Sent)
            for environment in self.grounder.environments(table.parameters(row)))

    def senders(self, message: AnyMessage, at: Indices) -> Iterator[WorldRow]:
        """The rows of the world and of faults that bring this message into being."""
        layers = [(table, "") for table in self.system.tables if table.machine.world]
        layers += [(table, name) for name, tables in self.system.faults.items()
                   for table in tables]
        for table, layer in layers:
            for row in table.rows:
                for arguments in _brings(table, row, message):
                    bound = {variable: index for variable, index in zip(arguments, at, strict=True)
                             if variable is not ANY}
                    for environment in self.grounder.environments(table.parameters(row)):
                        if all(environment.get(v, i) == i for v, i in bound.items()):
                            yield self.world(table, row, layer, environment)

    def missing(self, world: WorldRow, state: int, unknown: int) -> tuple[str, ...]:
        """The conjuncts of the row's guard that do not hold in the state, as text."""
        return tuple(
            formula_text(part) for part in world.table.guard(world.row).parts
            if (guard := self.grounder.guard(normal(part), world.environment, world.row)) is None
            or not may_hold(guard, state, unknown))


def _brings(table: Table, row: Row, message: AnyMessage) -> Iterator[tuple[Any, ...]]:
    for update in table.updates(row):
        if update.symbol is message and update.value is True:
            yield update.arguments
    for effect in row.send:
        sent = sent_by(effect)
        if sent.message is message and isinstance(effect, Sent):
            yield sent.arguments


def may_hold(guard: Guard, state: int, unknown: int) -> bool:
    """Whether the guard holds for some values of the unknown bits (of each literal alone)."""
    if (state ^ guard.value) & guard.mask & ~unknown:
        return False
    return all(any(not (state ^ literal.value) & literal.mask & ~unknown for literal in clause)
               for clause in guard.clauses) and all(
                   decision.may_hold(state, unknown) for decision in guard.decisions)


def violated(claims: "tuple[Claim, ...] | list[Claim]", state: int, unknown: int) -> str:
    """The first property that is violated, whatever the unknown bits are; empty if there is none.
    """
    for name, guard in claims:
        if guard.holds(state) and not guard.reads & unknown:
            return name
    return ""
