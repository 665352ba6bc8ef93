"""Which symbols can only go forward, as the rows of the protocol are; faults happen finitely often.

A variable goes forward if its declared edges have no cycle, or if the protocol writes it with one
value only; a message if only faults take it off the network.
"""

from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from pdproto.check.prove.rewriting import marked
from pdproto.spec.language.formula import Atom, Formula, Not, Value, all_of, forall, implies
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Message, Symbol, Variable
from pdproto.spec.language.system import System


def settling(system: System) -> frozenset[Symbol]:
    """The symbols that change finitely often at each cell, once no fault happens any more."""
    assigned: dict[Symbol, set[Value]] = {symbol: set() for symbol in system.variables}
    for table in system.tables:
        for row in table.rows:
            for update in table.updates(row):
                assigned[update.symbol].add(update.value)
    return frozenset(symbol for symbol, values in assigned.items() if _settles(symbol, values))


def _settles(symbol: Symbol, values: Collection[Value]) -> bool:
    if isinstance(symbol, Message):
        return False not in values
    if isinstance(symbol, Variable) and symbol.edges is not None and _acyclic(symbol.edges):
        return True
    return len(values) <= 1


def _acyclic(edges: Mapping[Value, Collection[Value]]) -> bool:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return False
    return True


def written(table: Table, row: Row) -> Iterator[Symbol]:
    """The symbols that the row writes, messages among them."""
    yield from (update.symbol for update in table.updates(row))
    yield from ((e.sent if isinstance(e, Each) else e).symbol for e in row.send)


def unmoved(table: Table, row: Row, symbols: Collection[Symbol]) -> Formula:
    """The row leaves these symbols as they are, as a formula of the state before it."""
    return all_of(*_unmoved(table, row, symbols))


def _unmoved(table: Table, row: Row, symbols: Collection[Symbol]) -> Iterator[Formula]:
    for update in table.updates(row):
        if update.symbol in symbols:
            yield everywhere(update.symbol, update.arguments, update.value)
    for effect in row.send:
        sent = effect.sent if isinstance(effect, Each) else effect
        if sent.symbol not in symbols:
            continue
        there = Atom(sent.symbol, sent.arguments, True)
        yield forall(effect.variable, implies(effect.where, there)) if isinstance(
            effect, Each) else there


def everywhere(symbol: Symbol, arguments: tuple[Sort, ...], value: Value) -> Formula:
    """The cells that an update hits have this value."""
    cell: list[Sort] = []
    bulk: list[Sort] = []
    for place, (argument, sort) in enumerate(zip(arguments, symbol.sorts, strict=True)):
        if argument is ANY:
            bulk.append(marked(sort(f"any{place}"), "_"))
        cell.append(bulk[-1] if argument is ANY else argument)
    if value is False:
        return forall(tuple(bulk), Not(Atom(symbol, tuple(cell), True)))
    return forall(tuple(bulk), Atom(symbol, tuple(cell), value))
