"""The rule that two assignments of a row never give different values to one cell.

The guard must keep them apart: `p.differs(q)`, or `t.before(u)` in an ordered sort.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from .formula import And, Before, Formula, Not, Same, normal
from .machine import Row, Table
from .place import SpecError
from .sorts import ANY, Sort
from .symbols import Reading, Update


def check_conflicts(table: Table, row: Row, guard: Formula) -> None:
    """Raise SpecError for two updates that can hit one cell with different values."""
    kept = set(_kept_apart(guard))
    for one, two in combinations(table.assignments(row), 2):
        if one.symbol is not two.symbol:
            continue
        (here, value), (there, other) = _reading(one, "first"), _reading(two, "second")
        if value == other:
            continue
        pairs = list(zip(here, there, strict=True))
        apart = kept | _selected_apart(one, "first") | _selected_apart(two, "second")
        if not any(frozenset(pair) in apart for pair in pairs if ANY not in pair):
            raise SpecError(
                row.place,
                f"two updates can hit one cell of {one.symbol}: {one!r} and {two!r}; "
                f"{_how_to_part(pairs)}",
            )


def _reading(update: Update, mark: str) -> Reading:
    cell, value = update.symbol.reading(update.arguments, update.value)
    return tuple(_marked(argument, update, mark) for argument in cell), value


def _selected_apart(update: Update, mark: str) -> set[frozenset[Sort]]:
    """The pairs of variables that the update's `where` requires to be two elements."""
    return {frozenset(_marked(variable, update, mark) for variable in pair)
            for pair in _kept_apart(normal(update.where))}


def _marked(argument: Sort, update: Update, mark: str) -> Sort:
    """A variable of the update's own under a name that the other update does not have."""
    if argument not in update.variables:
        return argument
    return type(argument)(f"{argument.name}_of_{mark}")


def _how_to_part(cells: Sequence[tuple[Sort, Sort]]) -> str:
    """Advice that keeps two updates apart; none helps where one is for all cells of the other.

    cells: the arguments of one beside those of the other.
    """
    pairs = [(a, b) for a, b in cells if ANY not in (a, b) and a != b]
    if pairs:
        a, b = pairs[0]
        ordered = f", {a!r}.before({b!r})" if a.ordered else ""
        return f"write {a!r}.differs({b!r}){ordered} in `when`, or split the row"
    if any(ANY in pair for pair in cells):
        return "ANY is every element, also the other's: split it into two rows, one after the other"
    return "they are the same cell: leave one of them out"


def _kept_apart(guard: Formula) -> Iterator[frozenset[Sort]]:
    """The pairs of variables that the guard requires to be two elements."""
    match guard:
        case And(parts):
            for part in parts:
                yield from _kept_apart(part)
        case Not(Same(left, right)) | Before(left, right):
            yield frozenset((left, right))
