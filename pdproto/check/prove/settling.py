"""Finds the symbols that can only go forward by the rows of the protocol, without faults.

A variable goes only forward if its declared edges have no cycle, or if the protocol writes only one
value to it. A message does if only faults take it off the network.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from pdproto.check.prove.rewriting import hits, marked
from pdproto.spec.language.conflicts import overriding
from pdproto.spec.language.formula import FALSE, Atom, Formula, Not, Value, all_of, forall, implies
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Each, Message, Symbol, Update, Variable, sent_by
from pdproto.spec.language.system import System


def settling(system: System) -> frozenset[Symbol]:
    """The symbols whose cells change finitely often after the last fault."""
    alone = {symbol for symbol, values in _assigned(system).items() if _settles(symbol, values)}
    return frozenset(alone | by_edges(system))


def by_edges(system: System) -> frozenset[Symbol]:
    """Those of them of which this is true only if each row moves them along their edges."""
    return frozenset(
        symbol for symbol, values in _assigned(system).items()
        if isinstance(symbol, Variable) and not _settles(symbol, values)
        and symbol.edges is not None and _acyclic(symbol.edges))


def _assigned(system: System) -> Mapping[Symbol, Collection[Value]]:
    """By symbol, the values that rows of the protocol write to it."""
    assigned: dict[Symbol, set[Value]] = {symbol: set() for symbol in system.variables}
    for table in system.tables:
        for row in table.rows:
            for update in table.updates(row):
                assigned[update.symbol].add(update.value)
    return assigned


def _settles(symbol: Symbol, values: Collection[Value]) -> bool:
    """Whether the written values alone say so."""
    if isinstance(symbol, Message):
        return False not in values and symbol.fifo is None
    return len(values) <= 1


def _acyclic(edges: Mapping[Value, Collection[Value]]) -> bool:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return False
    return True


def written(table: Table, row: Row) -> Iterator[Symbol]:
    """The symbols that the row writes, including messages."""
    yield from (update.symbol for update in table.updates(row))
    yield from (sent_by(e).symbol for e in row.send)


def unmoved(table: Table, row: Row, symbols: Collection[Symbol]) -> Formula:
    """The formula about the state before the row: it does not change these symbols."""
    return all_of(*_unmoved(table, row, symbols))


def _unmoved(table: Table, row: Row, symbols: Collection[Symbol]) -> Iterator[Formula]:
    # An assignment of an element changes nothing where the cell has this value already.
    updates = table.assignments(row)
    for number, update in enumerate(updates):
        if update.symbol in symbols:
            there = everywhere(update.symbol, update.arguments, update.value,
                               overriding(updates, number))
            yield forall(update.variables, implies(update.where, there))
    for effect in row.send:
        sent = sent_by(effect)
        if sent.symbol not in symbols:
            continue
        # What is sent into a channel waits there beside what was there before.
        there = FALSE if sent.message.fifo else Atom(sent.symbol, sent.arguments, True)
        yield forall(effect.variable, implies(effect.where, there)) if isinstance(
            effect, Each) else there


def everywhere(
    symbol: Symbol, arguments: tuple[Sort, ...], value: Value, later: Sequence[Update] = ()
) -> Formula:
    """The formula: all cells of an update with these arguments have this value.

    later: updates that count in cells of this one; these cells may have any value.
    """
    cell: list[Sort] = []
    bulk: list[Sort] = []
    for place, (argument, sort) in enumerate(zip(arguments, symbol.sorts, strict=True)):
        if argument is ANY:
            bulk.append(marked(sort(f"any{place}"), "_"))
        cell.append(bulk[-1] if argument is ANY else argument)
    at = tuple(cell)
    there = Not(Atom(symbol, at, True)) if value is False else Atom(symbol, at, value)
    left = all_of(*(Not(hits(at, u.arguments, u.where, u.variables)) for u in later))
    return forall(tuple(bulk), implies(left, there) if later else there)
