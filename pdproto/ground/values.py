"""The values that an update can assign, each with the condition under which it does."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from pdproto.ground.layout import Indices, Layout
from pdproto.ground.program import CellCopy, Effect, Literal, copied
from pdproto.spec.language.computed import Chosen, alternatives, both
from pdproto.spec.language.computed import copied as copied_element
from pdproto.spec.language.elements import ElementCell
from pdproto.spec.language.formula import TRUE, Atom, Formula, Not, all_of
from pdproto.spec.language.machine import Row
from pdproto.spec.language.numbers import Either
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Cell, Computed, Sizes, Symbol, Update, Variable
from pdproto.spec.language.terms import NumberCell

Environment: TypeAlias = Mapping[Sort, int]
Choice: TypeAlias = tuple[Formula, Environment, tuple[Literal, ...]]


class Assigning(Protocol):
    """A ground system, as far as it makes literals of assignments."""

    @property
    def sizes(self) -> Sizes:
        """Of each sort."""

    @property
    def layout(self) -> Layout:
        """The cells."""

    def cells(self, update: Update, environment: Environment) -> Iterator[Indices]:
        """The cells that an update is for."""

    def assigned(self, update: Update, environment: Environment) -> Iterator[Literal]:
        """The literals that an update of a constant makes true."""


def values_of(ground: Assigning, update: Update, environment: Environment) -> Iterator[Choice]:
    """The values where the update's `where` holds: a condition, its elements, and the literals.

    In each state in which `where` holds, one of the conditions does, and no two.
    """
    copy = copied_element(update)
    if copy is None:
        for conditions, one in alternatives(update):
            literals = () if one is None else tuple(ground.assigned(one, environment))
            yield all_of(update.where, *conditions), environment, literals
        return
    cleared = tuple(ground.assigned(copy.cleared, environment))
    for i in range(ground.sizes[type(copy.element)]):
        inner = {**environment, copy.element: i}
        yield (all_of(update.where, copy.alone), inner,
               (*cleared, *ground.assigned(copy.assigned, inner)))
    yield all_of(update.where, copy.none), environment, cleared


def is_told(row: Row, carried: Container[Symbol]) -> bool:
    """Whether a claim compares what the row assigns with constants (check/questions.py).

    carried: the relations that travel with a message.
    """
    written = (one.symbol for one in row.do if isinstance(one.symbol, Variable))
    return bool(row.on is None and row.send) or any(
        one.edges is not None or one in carried for one in written)


def changes_of(
    ground: Assigning, update: Update, environment: Environment
) -> Iterator[tuple[Formula, Environment, tuple[Effect, ...]]]:
    """The same, but with one choice for the value of another cell, which is copied."""
    of = update.value.term if isinstance(update.value, Computed) else None
    if not _has_copies(update.symbol, of):
        yield from values_of(ground, update, environment)
    elif (source := _source(update.symbol, of)) is None:
        for condition, value in _sides(of):
            one = replace(update, value=Computed(value), where=both(update.where, condition))
            yield from changes_of(ground, one, environment)
    else:
        yield update.where, environment, tuple(_copies(ground, update, source, environment))


def _has_copies(symbol: Symbol, of: Any) -> bool:
    """Whether the value is that of another cell, or one of its sides is."""
    return _source(symbol, of) is not None or any(
        _has_copies(symbol, value) for _, value in _sides(of))


def _sides(of: Any) -> tuple[tuple[Formula, Any], ...]:
    """The values of a choice, each with its condition; none for what is no choice."""
    match of:
        case Chosen():
            return of.sides
        case Either(where, yes, _) if where == TRUE:  # the element of a list at a known index
            return ((TRUE, yes),)
        case Either(where, yes, no):
            return (where, yes), (Not(where), no)
    return ()


def _source(symbol: Symbol, of: Any) -> tuple[Symbol, tuple[Sort, ...]] | None:
    """The cell whose value is assigned, as its symbol and arguments; None if it is no cell, or has
    other values.
    """
    if isinstance(of, ElementCell | Cell | NumberCell) or (
            isinstance(of, Atom) and of.value is True):
        other: Symbol = of.symbol
        if isinstance(other, Variable) and (
                isinstance(of, ElementCell) or other.values == symbol.values):
            return other, of.arguments
    return None


def _copies(
    ground: Assigning, update: Update, source: tuple[Symbol, tuple[Sort, ...]],
    environment: Environment,
) -> Iterator[CellCopy]:
    symbol, arguments = source
    at = tuple(environment[v] for v in arguments)
    for cell in ground.cells(update, environment):
        behind = cell[len(cell) - (len(symbol.sorts) - len(at)):]  # the element, of a function
        yield copied(ground.layout.field(symbol, (*at, *behind)).mask,
                     ground.layout.field(update.symbol, cell).mask)
