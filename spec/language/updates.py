"""Updates of variables."""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from .formula import TRUE, Formula
from .kinds import require, shown
from .no_formula import NoFormula
from .place import Place, here
from .sorts import Sort

if TYPE_CHECKING:
    from .symbols import Symbol


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """The value of an update that depends on the state before the row (computed.py).

    term: a number, a formula, a function at its arguments, or a choice between two of these.
    """

    term: Any

    def __eq__(self, other: object) -> bool:
        # The texts of two may be equal where their variables are of two sorts.
        return isinstance(other, Computed) and _same(self.term, other.term)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return repr(self.term)


def _same(one: Any, two: Any) -> bool:
    """Whether the values are built alike. `==` of two numbers in a state is a formula."""
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if isinstance(one, tuple):
        return len(one) == len(two) and all(map(_same, one, two))
    parts: Any = one if isinstance(one, NoFormula) else None
    if is_dataclass(parts):
        return all(_same(getattr(one, f.name), getattr(two, f.name)) for f in fields(parts))
    return bool(one == two)


@dataclass(frozen=True, slots=True)
class Update:
    """An assignment. Arguments may be ANY.

    value: a constant, or the `Computed` one of numbers.py.
    variables: those that stand for every choice of elements for which `where` holds before the row
    (shorthands.py:each). An update without them is made where `where` holds.
    """

    symbol: "Symbol"
    arguments: tuple[Sort, ...]
    value: Any
    variables: tuple[Sort, ...] = ()
    where: Formula = TRUE
    place: Place = field(default_factory=here, compare=False)

    def __repr__(self) -> str:
        arguments, value = self.symbol.reading(self.arguments, self.value)
        text = f"{self.symbol}({', '.join(map(repr, arguments))}) := {shown(value)}"
        if not self.variables:
            return text
        return f"{text} for each {', '.join(map(repr, self.variables))} where {self.where!r}"


class Updates(tuple[Update, ...]):
    """The updates of the parts of a sequence that one word makes (sequences.py)."""

    __slots__ = ()


def flat(updates: Any) -> Any:
    """A list of updates without those inside it; anything else as it is."""
    if not isinstance(updates, list | tuple) or not any(
            isinstance(one, Updates) for one in updates):
        return updates
    return [inner for one in updates for inner in (one if isinstance(one, Updates) else (one,))]


def names_no_cell(variable: Sort) -> str:
    """The problem with a variable of `each` for which an update has no cell of its own."""
    return (f"{variable!r} names no cell of the update: leave it out, or write "
            f"exists({variable!r}, ...) in where=")


def check_each(update: Update, place: Place) -> None:
    """Raise SpecError for an `each` over values; only a mapping may have one (refines.py)."""
    cell, _ = update.symbol.reading(update.arguments, update.value)
    for variable in update.variables:
        require(variable in cell, f"{update!r}: {names_no_cell(variable)}", place)
