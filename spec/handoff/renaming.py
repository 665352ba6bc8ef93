"""A part's tables under other names, so that they can stand beside the tables of another part.

Each part of the hand-over is a system of its own and uses plain names: two of them have a `source`,
and two have a row `learn`. In a composed system every name must stand for one thing only. A renamed
part has only new symbols: it shares only its sorts with the part, and the places of its rows in the
source code. So a renamed row can still be traced to its original.

    BOOTSTRAP = Renamed((SOURCE, REGISTRY), machines={"source": "host"}, rows={"learn": "note"})
    phase = BOOTSTRAP.symbol(bootstrap.phase)
    Sometimes("a_hand_over_waits", phase(d, h) == Phase.WAITING_FOR_INPUT)
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar, assert_never, cast

from pdproto.spec.language import Formula, Machine, Message, Rigid, Row, SpecError, Table
from pdproto.spec.language.formula import And, Atom, Exists, Forall, Not, Or
from pdproto.spec.language.machine import Instance
from pdproto.spec.language.place import here
from pdproto.spec.language.properties import LeadsTo, OnRow, Property
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.symbols import Each, Sent, Symbol, Update, Variable
from pdproto.spec.language.wellformed import symbols_of_row

S = TypeVar("S", bound=Symbol)
F = TypeVar("F", bound=Formula)
AnyMachine: TypeAlias = Machine[*tuple[Any, ...]]
AnyRigid: TypeAlias = Rigid[*tuple[Any, ...]]
M = TypeVar("M", bound=AnyMachine)
Names: TypeAlias = Mapping[str, str]


class Renamed:
    """Copies of tables. machines, symbols, rows: the new names of those that get one.

    A message from or to a machine without a table here is left out, and no row may mention it. So
    is each symbol that no row mentions: another system has it on the same machine. Raises SpecError
    for a name that stands for nothing.
    """

    def __init__(
        self, tables: Iterable[Table], *, machines: Names, symbols: Names | None = None,
        rows: Names | None = None,
    ) -> None:
        old = tuple(tables)
        names, self._rows = symbols or {}, rows or {}
        self._machines: Final = {
            table.machine: Machine(
                machines.get(table.machine.name, table.machine.name), *table.machine.own,
                world=table.machine.world, host=table.machine.host)
            for table in old
        }
        self._symbols: Final[dict[Symbol, Symbol]] = {}
        used = {symbol for table in old for row in table.rows
                for symbol in symbols_of_row(table, row)}
        used |= {symbol for message in used if isinstance(message, Message)
                 for symbol in message.carries}
        every = [symbol for machine in self._machines for symbol in machine.symbols
                 if symbol in used]
        # A message may carry relations. They are copied before it.
        for symbol in sorted(every, key=lambda one: isinstance(one, Message)):
            self._add(symbol, names.get(symbol.name, symbol.name))
        _must_be_there(machines, {machine.name for machine in self._machines})
        _must_be_there(names, {symbol.name for symbol in every})
        _must_be_there(self._rows, {row.name for table in old for row in table.rows})
        self.tables: Final = tuple(map(self._table, old))

    def machine(self, machine: M) -> M:
        """The copy of a machine of the part."""
        return cast("M", self._machines[machine])

    def symbol(self, symbol: S) -> S:
        """The copy of a symbol of the part. A rigid relation without an owner stays as it is."""
        if isinstance(symbol, Rigid):
            return cast("S", self._rigid(symbol))
        if symbol not in self._symbols:
            raise SpecError(here(), f"{symbol}: its machine, or its receiver, has no table here")
        return cast("S", self._symbols[symbol])

    def formula(self, formula: F) -> F:
        """The same formula over the copies."""
        return cast("F", self._formula(formula))

    def update(self, update: Update) -> Update:
        """The same assignment to the copy."""
        return replace(update, symbol=self.symbol(update.symbol))

    def row(self, row: Row) -> Row:
        """The same row over the copies."""
        return replace(
            row,
            name=self._rows.get(row.name, row.name),
            on=self.formula(row.on) if isinstance(row.on, Sent) else row.on,
            when=tuple(map(self.formula, row.conditions)),
            do=tuple(map(self.update, row.do)),
            send=tuple(map(self._effect, row.send)),
        )

    def claim(self, claim: Property) -> Property:
        """The same property over the copies, under the same name."""
        match claim:
            case LeadsTo():
                return replace(claim, premise=self.formula(claim.premise),
                               goal=self.formula(claim.goal))
            case OnRow():
                return replace(claim, row=self._rows.get(claim.row, claim.row),
                               claim=self.formula(claim.claim))
            case Refines():
                raise SpecError(claim.place, f"property {claim.name!r} is of the whole system: "
                                             "say it of the composed one")
            case _:
                return replace(claim, claim=self.formula(claim.claim))

    def _add(self, symbol: Symbol, name: str) -> None:
        match symbol:
            case Variable():
                owner = self._machines[symbol.owner]
                variable = type(symbol)(owner, name, symbol.sorts, symbol.values, symbol.edges)
                if symbol.engine is not None:
                    variable.shared_with(self._machines[symbol.engine], symbol.engine_writes)
                owner.declare(variable)
                self._symbols[symbol] = variable
            case Message() if symbol.receiver.machine in self._machines:
                self._symbols[symbol] = Message(
                    name, *symbol.formals, sender=self._instance(symbol.sender),
                    receiver=self._instance(symbol.receiver),
                    carries=tuple(map(self.symbol, symbol.carries)), reliable=symbol.reliable)

    def _rigid(self, symbol: AnyRigid) -> Symbol:
        if not symbol.visible_to:
            return symbol
        if symbol not in self._symbols:
            self._symbols[symbol] = Rigid(
                symbol.name, *(sort("_") for sort in symbol.sorts), given=symbol.given,
                visible_to=[self._machines[machine] for machine in symbol.visible_to])
        return self._symbols[symbol]

    def _instance(self, instance: Instance) -> Instance:
        return Instance(self._machines[instance.machine], instance.variables)

    def _table(self, table: Table) -> Table:
        state = None if table.state is None else self.symbol(table.state)
        return replace(table, machine=self._machines[table.machine], state=state,
                       rows=tuple(map(self.row, table.rows)))

    def _effect(self, effect: Sent | Each) -> Sent | Each:
        match effect:
            case Each():
                return replace(effect, sent=self.formula(effect.sent))
            case Sent():
                return self.formula(effect)
            case _:
                assert_never(effect)

    def _formula(self, formula: Formula) -> Formula:
        match formula:
            case And(parts) | Or(parts):
                return replace(formula, parts=tuple(map(self._formula, parts)))
            case Not(part):
                return Not(self._formula(part))
            case Forall(_, body) | Exists(_, body):
                return replace(formula, body=self._formula(body))
            case Atom():
                return replace(formula, symbol=self.symbol(formula.symbol))
            case _:
                return formula  # Same and Before have no symbol


def _must_be_there(names: Names, known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise SpecError(here(), f"no machine, symbol or row is called {name!r}")
