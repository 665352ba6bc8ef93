"""The machines of the hand-over that are shared, at small sizes, beside their interpreter."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from pdproto.check.interpret import Cell, Interpreter
from pdproto.runtime.compile import arguments_of
from pdproto.runtime.store import Shared, SharedStep
from pdproto.spec.handoff import (
    agreement,
    attempts,
    dp_rank,
    ended,
    group,
    keep,
    optimistic,
    optimistic_retracted,
    registry,
    routing,
    transfer,
)
from pdproto.spec.handoff import sink as sink_tables
from pdproto.spec.handoff.roles import (
    Attempt,
    Incarnation,
    Life,
    Page,
    Sink,
    Slot,
    Source,
    Use,
)
from pdproto.spec.language.formula import And, Atom, Formula, Not, Or, Value, normal
from pdproto.spec.language.machine import Call, Completion, Row, Table
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid, Sent, Symbol
from pdproto.spec.language.system import System
from tests.runtime import desk

Environment = dict[Sort, int]


@dataclass(frozen=True, slots=True)
class Case:
    """A table of a system, the sizes to walk it at, and the sorts that its machine may loop over.

    own: None for all instances of the machine at once. never: rows that cannot fire at these sizes.
    """

    system: System
    table: Table
    own: tuple[int, ...] | None
    sizes: Mapping[type[Sort], int]
    bounded: tuple[type[Sort], ...] = ()
    faults: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    @property
    def fixed(self) -> Environment:
        """The machine's own variables, if they are fixed."""
        if self.own is None:
            return {}
        return dict(zip(self.table.machine.own, self.own, strict=True))

    def machine(self, given: Mapping[Any, frozenset[tuple[int, ...]]]) -> Shared:
        def predicate(symbol: Rigid[*tuple[Any, ...]]) -> Any:
            return lambda *elements: elements in given[symbol]

        return Shared(
            self.table, self.own, {sort: range(self.sizes[sort]) for sort in self.bounded},
            {symbol: predicate(symbol) for symbol in self.system.rigids},
        )

    def interpreter(self, random_: random.Random) -> Interpreter:
        """The system by the book, at one interpretation of its rigid symbols."""
        given = {
            symbol: frozenset(symbol.given(self.sizes))
            if symbol.given is not None
            else frozenset(t for t in self.tuples(symbol) if random_.random() < 0.5)
            for symbol in self.system.rigids
        }
        return Interpreter(self.system, self.sizes, self.faults, given)

    def tuples(self, symbol: Symbol) -> Iterator[tuple[int, ...]]:
        """Every choice of arguments."""
        return product(*(range(self.sizes[sort]) for sort in symbol.sorts))

    def environments(self, row: Row) -> Iterator[Environment]:
        """Every choice of parameters, with the machine's own as they are."""
        own = self.fixed
        free = [v for v in self.table.parameters(row) if v not in own]
        for choice in product(*(range(self.sizes[type(v)]) for v in free)):
            yield own | dict(zip(free, choice, strict=True))


CASES = {
    "registry": Case(registry.SYSTEM, registry.REGISTRY, (),
                     {Source: 2, Incarnation: 2, Sink: 1, Life: 1}, (Source,),
                     ("crash", "outage", "lossy")),
    "dp-rank": Case(dp_rank.SYSTEM, dp_rank.REGISTRY, (), {routing.Group: 2, Life: 2},
                    (routing.Group,)),
    "dp-rank's senders": Case(dp_rank.SYSTEM, dp_rank.SENDER, None, {routing.Group: 2, Life: 2},
                              (routing.Group,)),
    "dp-rank's receivers": Case(dp_rank.SYSTEM, dp_rank.RECEIVER, None,
                                {routing.Group: 2, Life: 2}, (routing.Group,),
                                never=("resolve_alone",)),
    "dp-rank's receivers, one rank": Case(dp_rank.SYSTEM, dp_rank.RECEIVER, None,
                                          {routing.Group: 1, Life: 2}, (routing.Group,),
                                          never=("resolve_by_rule", "ask")),
    "rank": Case(agreement.SYSTEM, group.RANK, (1,),
                 {group.Rank: 2, Life: 2, Slot: 1, group.Decision: 4}, (group.Rank,), ("crash",)),
    "entry": Case(agreement.SYSTEM, group.ENTRY, (),
                  {group.Rank: 2, Life: 2, Slot: 1, group.Decision: 4}, (group.Rank,), ("crash",)),
    "prefill": Case(optimistic_retracted.RETRACTED, optimistic_retracted.PREFILL_RETRACTING, (),
                    {Life: 2, Slot: 2, attempts.RunningSlot: 2, Page: 1, Attempt: 2},
                    (Slot, attempts.RunningSlot, Attempt)),
    "decode": Case(optimistic.SYSTEM, attempts.DECODE, (),
                   {Life: 2, Slot: 1, attempts.RunningSlot: 1, Page: 2, Attempt: 1}),
    "pool": Case(transfer.SYSTEM, sink_tables.POOL, (0,),
                 {sort: 1 if sort is Source else 2 for sort in transfer.SYSTEM.sorts}),
    "kept rooms": Case(keep.SYSTEM, keep.KEEPER, (), {keep.KeptRoom: 2, Life: 2, Slot: 2}, (Slot,)),
    "ended rooms": Case(ended.SYSTEM, ended.ROOMS, (), {ended.AskedRoom: 2, Life: 2, Use: 2}),
    "desk": Case(desk.SYSTEM, desk.TABLE, (), {desk.Job: 2, desk.Tray: 2}, (desk.Tray,)),
}


def chance(seed: int | str) -> random.Random:
    """The same chances for the same seed."""
    return random.Random(seed)  # noqa: S311 - nothing secret


def untriggered(table: Table, row: Row) -> Formula:
    """The row's guard without its trigger."""
    return And(tuple(part for part in table.guard(row).parts if part is not row.on))


def take(case: Case, machine: Shared, row: Row, environment: Environment) -> SharedStep | None:
    """Do to the machine what makes the row fire at these parameters."""
    given = arguments_of(row)
    chosen = {
        v.name: environment[v] for v in case.table.parameters(row)
        if v not in given and v not in case.fixed
    }
    match row.on:
        case Sent(arguments=arguments) as sent:
            return machine.receive(sent.message, *(environment[v] for v in arguments),
                                   choose=chosen)
        case Call(name=name, parameters=parameters) | Completion(name=name, parameters=parameters):
            return machine.call(name, *(environment[v] for v in parameters), choose=chosen)
        case _:
            return machine.fire(row.name, **chosen)


def kept(case: Case, machine: Shared) -> Iterator[Cell]:
    """The cells that the machine keeps: those of other instances it does not."""
    for symbol, cells in machine._cells.items():
        for arguments in case.tuples(symbol):
            if all(arguments[place] == own for place, own in cells.fixed.items()):
                yield symbol, arguments


def put(machine: Shared, cell: Cell, value: Value) -> None:
    """Give a cell a value behind the rows' back."""
    cells = machine._cells.get(cell[0])
    if cells is None or any(cell[1][place] != own for place, own in cells.fixed.items()):
        return
    if cells.read(cell[1]) != value:
        cells.write(cell[1], value)


def force(formula: Formula, environment: Environment, state: dict[Cell, Value],
          random_: random.Random) -> None:
    """Change the state so that the formula's literals hold where that is easy to see."""
    match normal(formula):
        case And(parts):
            for part in parts:
                force(part, environment, state, random_)
        case Or(parts) if parts:
            force(random_.choice(parts), environment, state, random_)
        case Atom(symbol, arguments, value) if _known(symbol, arguments, environment):
            state[symbol, tuple(environment[v] for v in arguments)] = value
        case Not(Atom(symbol, arguments, value)) if _known(symbol, arguments, environment):
            others = [v for v in symbol.values if v != value]
            state[symbol, tuple(environment[v] for v in arguments)] = random_.choice(others)
        case _:
            pass


def _known(symbol: Symbol, arguments: tuple[Sort, ...], environment: Environment) -> bool:
    return not isinstance(symbol, Rigid) and all(v in environment for v in arguments)
