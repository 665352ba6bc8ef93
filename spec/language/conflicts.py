"""The rule for two assignments of a row that give different values to one cell.

The guard keeps them apart: `p.differs(q)`, or `t.before(u)` in an ordered sort. Or the first is for
all cells, or for each of some, and a later one for fewer of them: `held(w, ANY).to(False)`, then
`held(w, g).to(True)`. Then the later one counts. Or the conditions of two `each` exclude each
other. All other pairs are refused, because the order of the list would decide between two
assignments that look alike.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from .exclusive import exclude_each_other
from .formula import And, Before, Formula, Not, Same, normal
from .machine import Row, Table
from .place import SpecError
from .sorts import ANY, Sort
from .symbols import Reading, Update


def check_conflicts(table: Table, row: Row, guard: Formula) -> None:
    """Raise SpecError for two updates that can hit one cell with different values."""
    kept = set(_kept_apart(guard))
    for one, two in combinations(table.written(row), 2):
        if one.symbol is not two.symbol or overrides(two, one):
            continue
        (here, value), (there, other) = _reading(one, "first"), _reading(two, "second")
        if value == other:
            continue
        pairs = list(zip(here, there, strict=True))
        apart = kept | _selected_apart(one, "first") | _selected_apart(two, "second")
        if not any(frozenset(pair) in apart for pair in pairs if ANY not in pair) and (
                not _exclude(one, two, guard)):
            raise SpecError(
                row.place,
                f"two updates can hit one cell of {one.symbol}: {one!r} and {two!r}; "
                f"{_how_to_part(one, two, pairs)}",
            )


def _exclude(one: Update, two: Update, guard: Formula) -> bool:
    """Whether no cell is one of both, because their conditions and the guard exclude each other."""
    cells, others = (update.symbol.reading(update.arguments, update.value)[0]
                     for update in (one, two))
    first: dict[Sort, Sort] = {}
    second: dict[Sort, Sort] = {}
    for here, there in zip(cells, others, strict=True):
        if ANY in (here, there):
            continue
        if here in one.variables and there in two.variables:
            first[here] = second[there] = _marked(here, one, "both")
        elif there in two.variables:
            second[there] = here
        elif here in one.variables:
            first[here] = there
        elif here != there:
            return False
    return bool(one.variables or two.variables) and exclude_each_other([
        (one.where, first), (two.where, second), (guard, {})])


def overrides(later: Update, earlier: Update) -> bool:
    """Whether the later one of two updates of a symbol counts where both are for one cell.

    It names an element in a place where the earlier one is for many, and never the other way round.
    """
    places = list(zip(_for_many(earlier), _for_many(later), strict=True))
    return (True, False) in places and (False, True) not in places


def overriding(updates: Sequence[Update], number: int) -> tuple[Update, ...]:
    """The later updates that count in cells of this one, as updates of single values.

    updates: those of a row, as they are written.
    """
    update = updates[number]
    return tuple(plain for later in updates[number + 1:]
                 if later.symbol is update.symbol and overrides(later, update)
                 for plain in later.symbol.plain(later))


def _for_many(update: Update) -> tuple[bool, ...]:
    """For each argument of the cell, whether the update is for many elements there."""
    cell, _ = update.symbol.reading(update.arguments, update.value)
    return tuple(argument is ANY or argument in update.variables for argument in cell)


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


def _how_to_part(one: Update, two: Update, cells: Sequence[tuple[Sort, Sort]]) -> str:
    """Advice that keeps two updates apart, or gives them an order.

    cells: the arguments of one beside those of the other.
    """
    if overrides(one, two):
        return "put the update of many cells first: then the later one counts in its cells"
    if one.variables and two.variables:
        return ("give them conditions that exclude each other, as where=busy(p) and "
                "where=~busy(p), or compute the value, as in to(if_then_else(busy(p), ..., ...))")
    pairs = [(a, b) for a, b in cells if ANY not in (a, b) and a != b]
    if pairs:
        a, b = pairs[0]
        ordered = f", {a!r}.before({b!r})" if a.ordered else ""
        return f"write {a!r}.differs({b!r}){ordered} in `when`, or split the row"
    if any(ANY in pair for pair in cells):
        return ("neither is for fewer cells of the other: split it into two rows, one after the "
                "other")
    return "they are the same cell: leave one of them out"


def _kept_apart(guard: Formula) -> Iterator[frozenset[Sort]]:
    """The pairs of variables that the guard requires to be two elements."""
    match guard:
        case And(parts):
            for part in parts:
                yield from _kept_apart(part)
        case Not(Same(left, right)) | Before(left, right):
            yield frozenset((left, right))
