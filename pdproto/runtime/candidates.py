"""The rows that an event can have enabled, as the guards of a table say.

A caller that tries rows on its own, or asks which timers run, need not try the others. Each answer
may name a row whose guard does not hold, and never leaves out one whose guard holds.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pdproto.runtime.expressions import conjuncts, one_cell
from pdproto.spec.language.formula import Or, Value, atoms, normal
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.symbols import Cell, Sent, Symbol


def rows_by_value(
    table: Table, rows: Iterable[Row], cell: Cell[Any]
) -> Mapping[Value, tuple[Row, ...]]:
    """For each value of a cell, the rows that its guards allow there, in the given order."""
    allowed = [(row, _values(table, row, cell)) for row in rows]
    return {value: tuple(row for row, values in allowed if value in values)
            for value in cell.symbol.values}


def rows_after(table: Table, rows: Iterable[Row], symbol: Symbol) -> tuple[Row, ...]:
    """The rows whose guard reads the message, or a cell that a row on this message changes."""
    changed = {update.symbol for row in table.rows for update in table.updates(row)
               if isinstance(row.on, Sent) and row.on.symbol is symbol}
    return tuple(row for row in rows if not changed.isdisjoint(_read(table, row))
                 or symbol in _read(table, row))


def _read(table: Table, row: Row) -> frozenset[Symbol]:
    return frozenset(atom.symbol for atom, _ in atoms(table.condition(row)))


def _values(table: Table, row: Row, cell: Cell[Any]) -> frozenset[Value]:
    """The values of the cell that the guard of the row allows."""
    values = frozenset(cell.symbol.values)
    for part in conjuncts(normal(table.condition(row))):
        found = one_cell(part.parts if isinstance(part, Or) else (part,))
        if found is not None and found[:2] == (cell.symbol, cell.arguments):
            values &= found[2]
    return values
