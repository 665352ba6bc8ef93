"""The local state of one instance of a machine, read from its table."""

from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

from pdproto.ground.layout import Indices
from pdproto.spec.language.formula import atoms
from pdproto.spec.language.machine import Table
from pdproto.spec.language.numbered import Numbers
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid, Sent, Sizes, Symbol, Variable, sent_by
from pdproto.spec.language.system import sorts_in


def require_one_start(*tables: Table) -> None:
    """Raise SpecError for a variable with `init=ANY`: what runs starts with one value."""
    for table in tables:
        for symbol in table.machine.symbols:
            if symbol.starts_free:
                raise SpecError(symbol.place, f"{symbol} of {table.machine} starts with any value "
                                "(init=ANY), and a machine that runs or is fuzzed starts with one, "
                                "which its trace needs too: give it one, as init=")


def local_symbols(table: Table) -> Iterator[Symbol]:
    """The symbols of an instance: its variables, and the messages that its rows read."""
    yield from (s for s in table.machine.symbols if isinstance(s, Variable))
    for row in table.rows:
        for condition in (*row.conditions, *(update.where for update in row.do)):
            for atom, _ in atoms(condition):
                if not isinstance(atom.symbol, Rigid):
                    yield atom.symbol


def rigid_relations(table: Table) -> Iterator[Rigid[*tuple[Any, ...]]]:
    """The rigid relations that the rows mention in conditions or in the receivers of a message."""
    for row in table.rows:
        wheres = [effect.where for effect in (*row.do, *row.send) if not isinstance(effect, Sent)]
        for formula in (*row.conditions, *wheres):
            for atom, _ in atoms(formula):
                if isinstance(atom.symbol, Rigid):
                    yield atom.symbol


def index_tuples(symbol: Symbol, sizes: Sizes) -> Iterator[Indices]:
    """Every choice of elements for the symbol's arguments."""
    return product(*(range(sizes[sort]) for sort in symbol.sorts))


def own_elements(table: Table) -> dict[type[Sort], Collection[int]]:
    """The elements of each sort of numbers that the table names: the numbers themselves."""
    sorts = {*sorts_in(
        (*table.machine.symbols, *(sent_by(one).symbol for row in table.rows for one in row.send)),
        ((table, row) for row in table.rows),
        (formula for row in table.rows for formula in table.formulas(row)))}
    return {sort: sort.values.numbers for sort in sorts if issubclass(sort, Numbers)}
