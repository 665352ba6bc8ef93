"""The rule that two assignments of a row never give different values to one cell.

The guard must keep them apart: `p.differs(q)`, or `t.before(u)` in an ordered sort.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from .formula import And, Before, Formula, Not, Same
from .machine import Row, Table
from .place import SpecError
from .sorts import ANY, Sort
from .symbols import Reading, Update


def check_conflicts(table: Table, row: Row, guard: Formula) -> None:
    """Raise SpecError for two updates that can hit one cell with different values."""
    apart = set(_kept_apart(guard))
    for one, two in combinations(table.assignments(row), 2):
        if one.symbol is not two.symbol:
            continue
        (here, value), (there, other) = _reading(one), _reading(two)
        if value == other:
            continue
        pairs = list(zip(here, there, strict=True))
        if not any(frozenset(pair) in apart for pair in pairs if ANY not in pair):
            raise SpecError(
                row.place,
                f"two updates can hit one cell of {one.symbol}: {one!r} and {two!r}; "
                f"{_how_to_part(pairs)}",
            )


def _reading(update: Update) -> Reading:
    return update.symbol.reading(update.arguments, update.value)


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
