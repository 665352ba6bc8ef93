"""Sequences: bounded lists as values, for logs and queues of one's own.

    log = server.function("log", Seq(Value, most=4))
    Row("write", on=Call("write", v), when=~log(s).full, do=log(s).append(v))
    Always("starts_alike", implies(~log(s).empty & ~log(r).empty, log(s).head.same(log(r).head)))

Rule 1: A sequence is a number, `log_length`, and a function for each place, `log_0`, `log_1`, ...
Its words are formulas and updates of these, so each reader of the tables knows it already. Behind
its end each place has its first value, or none: two sequences with equal elements are equal states.
Rule 2: A row that would append to a full sequence, or take from an empty one, cannot fire. A state
in which that alone stops it violates `ROW_stays_in_range`, and so does one in which a row or a
claim reads behind the end of a sequence (ranges of numbers: numbers.py, rule 2; defined.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Any, Final, Generic, TypeVarTuple

from .computed import Chosen
from .elements import ElementCell, ElementFunction
from .formula import TRUE, And, Formula, Not, Or, all_of, any_of
from .kinds import require, shown
from .no_formula import NoFormula
from .numbered import Numbers
from .numbers import Either
from .place import SpecError, here
from .ranges import Int
from .sorts import Sort
from .symbols import Cell, Update
from .terms import Case, Constant, NumberCell, NumberFunction, Operand, Term, term
from .updates import Updates

Ss = TypeVarTuple("Ss")
LONGEST: Final = 64  # elements of one sequence


@dataclass(frozen=True, slots=True, repr=False)
class Seq:
    """The values of a function: lists of at most `most` elements.

    values: of an element: a sort, an enum, or numbers, as Int(0, 5).
    """

    values: type[Sort] | type[Enum] | Int  # of a sort of numbers its range
    most: int = field(kw_only=True)

    def __post_init__(self) -> None:
        given: object = self.values
        if isinstance(given, type) and issubclass(given, Numbers):
            object.__setattr__(self, "values", given := given.values)
        right = isinstance(given, Int) or (
            isinstance(given, type) and issubclass(given, Sort | Enum))
        instead = ("; a list of pairs is two lists, which a row changes together"
                   if isinstance(given, tuple | list | Seq) else "")
        require(right, f"Seq({shown(given)}, ...): want the values of an element first: a sort, an "
                       f"enum, or numbers, as Int(0, 5){instead}")
        require(type(self.most) is int and 1 <= self.most <= LONGEST, f"{self!r}: want most= from "
                f"1 to {LONGEST}, the greatest length")

    def __repr__(self) -> str:
        return f"Seq({shown(self.values)}, most={shown(self.most)})"


@dataclass(frozen=True, slots=True, repr=False)
class Sequence(Generic[*Ss]):
    """A variable with sequences as its values, empty at the start. length, places: its parts."""

    name: str
    of: Seq
    length: NumberFunction[*Ss]
    places: tuple[Any, ...]

    def __call__(self, *arguments: *Ss) -> "SequenceCell":
        given: tuple[Any, ...] = arguments
        right = len(given) == len(self.length.sorts)
        require(right, f"{self.name}{given}: want {len(self.length.sorts)} arguments, those of "
                       f"{self.length.signature}")
        return SequenceCell(self, self.length.checked(given))

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SequenceCell(NoFormula):
    """A sequence at its arguments."""

    symbol: Sequence[*tuple[Any, ...]]
    arguments: tuple[Sort, ...]

    def __repr__(self) -> str:
        return f"{self.symbol}({', '.join(map(repr, self.arguments))})"

    @property
    def advice(self) -> str:
        return (f"a sequence is no formula: write {self!r}.length == 1, {self!r}.empty, or "
                f"{self!r}.same(...)")

    @property
    def length(self) -> NumberCell:
        """How many elements it has."""
        return self.symbol.length(*self.arguments)

    @property
    def empty(self) -> Formula:
        """It has no element."""
        return self.length == 0

    @property
    def full(self) -> Formula:
        """It has as many elements as fit."""
        return self.length == self.symbol.of.most

    def at(self, index: Operand) -> Any:
        """An element, counted from 0."""
        wanted = term(index, self, ".at of")
        most = self.symbol.of.most
        if isinstance(wanted, Constant):
            require(0 <= wanted.number < most, f"{self!r}.at({wanted!r}): the index is past the "
                    f"end: {self.symbol} has at most {most} elements, which are counted from 0: "
                    f"write 0 to {most - 1}, or declare more with most=")
        kind = NumberItem if isinstance(self.symbol.of.values, Int) else Item
        where, yes, no = _picked(wanted, self.cells, kind.__base__)
        return kind(where, yes, no, self, wanted)

    @property
    def head(self) -> Any:
        """The first element."""
        return self.at(0)

    @property
    def last(self) -> Any:
        """The last element."""
        return self.at(self.length - 1)

    def has(self, value: Any) -> Formula:
        """Some element is this one."""
        return any_of(*(all_of(self.length > k, place == value)
                        for k, place in enumerate(self.cells)))

    def same(self, other: "SequenceCell") -> Formula:
        """Both have the same elements in the same order."""
        pairs = zip(self.cells, self._alike(other).cells, strict=True)
        return all_of(self.length == other.length, *(
            _equal(one, two, unset=True) for one, two in pairs))

    def append(self, value: Any) -> Updates:
        """The updates that put an element behind the last one."""
        return Updates((*(replace(place.to(value), where=self.length == k)
                          for k, place in enumerate(self.cells)),
                        self.length.to(self.length + 1)))

    def tail(self) -> Updates:
        """The updates that take the first element off."""
        return Updates((*(place.to(behind) for place, behind in pairwise(self.cells)),
                        self._cleared(-1), self.length.to(self.length - 1)))

    def keep(self, number: Operand) -> Updates:
        """The updates that leave so many elements, from the first one on."""
        kept, most = term(number, self, ".keep of"), self.symbol.of.most
        if isinstance(kept, Constant):
            cleared = [self._cleared(k) for k in range(kept.number, most)]
        else:
            cleared = [replace(self._cleared(k), where=kept <= k) for k in range(most)]
        needs = all_of() if isinstance(kept, Constant) and not kept.number else (
            kept <= self.length)
        return Updates((*cleared, replace(
            self.length.to(number), where=needs if needs == TRUE else Needing((), needs))))

    def clear(self) -> Updates:
        """The updates that leave no element."""
        return self.keep(0)

    def to(self, other: "SequenceCell") -> Updates:
        """The updates that copy another sequence."""
        pairs = zip(self.cells, self._alike(other).cells, strict=True)
        return Updates((*(one.to(two) for one, two in pairs), self.length.to(other.length)))

    @property
    def cells(self) -> tuple[Any, ...]:
        """The places, as functions at their arguments."""
        return tuple(place(*self.arguments) for place in self.symbol.places)

    def _cleared(self, index: int) -> Update:
        place, cell = self.symbol.places[index], self.cells[index]
        cleared: Update = cell.clear() if isinstance(place, ElementFunction) else (
            cell.to(place.values[0]))
        return cleared

    def _alike(self, other: object) -> "SequenceCell":
        if isinstance(other, SequenceCell) and other.symbol.of == self.symbol.of:
            return other
        raise SpecError(here(), f"{self!r} and {shown(other)}: want another sequence with "
                                f"{self.symbol.of!r}")


def _equal(one: Any, two: Any, *, unset: bool) -> Formula:
    """Two places have one value. unset: or both have none."""
    if isinstance(one, ElementCell):
        return any_of(one.same(two), all_of(one.unset, two.unset)) if unset else one.same(two)
    if isinstance(one, Cell):
        return any_of(*(all_of(one == value, two == value) for value in one.symbol.values))
    equal: Formula = one == two
    return equal


def _picked(index: Term, cells: tuple[Any, ...], choice: Any) -> tuple[Formula, Any, Any]:
    """The cell with this index, as the parts of an if_then_else."""
    if isinstance(index, Constant):
        return TRUE, cells[index.number], cells[index.number]
    below = cells[-1]
    for k in reversed(range(1, len(cells) - 1)):
        below = choice(index == k, cells[k], below)
    return index == 0, cells[0], below


def _needs(cell: SequenceCell, index: Term) -> Formula:
    """The index is one of an element."""
    ends: tuple[Any, ...] = (index >= 0, index < cell.length)
    return all_of(*(end for end in ends if end.parts != (TRUE,)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NumberItem(Either):
    """An element that is a number."""

    cell: SequenceCell
    index: Term

    def cases(self) -> tuple[Case, ...]:
        if isinstance(self.index, Constant):
            own: NumberCell = self.yes  # type: ignore[assignment]  # a place
            return own.cases()
        return super(NumberItem, self).cases()

    @property
    def needs(self) -> Formula:
        """The formula that there is such an element."""
        return _needs(self.cell, self.index)

    def to(self, value: Operand) -> Updates:
        """The updates that give the element another value."""
        return _replaced(self, value)

    def __repr__(self) -> str:
        return f"{self.cell!r}.at({self.index!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Item(Chosen):
    """An element that is of a sort, or of an enum: compare it, or assign it."""

    cell: SequenceCell
    index: Term

    @property
    def needs(self) -> Formula:
        """The formula that there is such an element."""
        return _needs(self.cell, self.index)

    @property
    def advice(self) -> str:
        return f"an element is a value: compare it, as in {self!r} == ..., or assign it"

    @property
    def sides(self) -> tuple[tuple[Formula, Any], ...]:
        exact = isinstance(self.index, Constant)
        return ((TRUE, self.yes),) if exact else super(Item, self).sides

    def __eq__(self, value: object) -> Formula:  # type: ignore[override]  # a formula, not a verdict
        if isinstance(value, Item | ElementCell | Cell):
            return self.same(value)
        return self._reads(f"({self!r} == {shown(value)})", lambda place: place == value)

    def __ne__(self, value: object) -> Formula:  # type: ignore[override]  # as above
        if isinstance(value, Item | ElementCell | Cell):
            return Not(self.same(value))
        return self._reads(f"({self!r} != {shown(value)})", lambda place: place != value)

    __hash__ = None  # type: ignore[assignment]  # == builds formulas, so no hashing

    def among(self, *values: Any) -> Formula:
        """The element is one of these."""
        return Or(tuple(self == value for value in values))

    def before(self, value: Any) -> Formula:
        """The element comes before this one in the order of the sort."""
        return self._reads(f"{self!r}.before({value!r})", lambda place: place.before(value))

    def after(self, value: Any) -> Formula:
        """The element comes after this one in the order of the sort."""
        return self._reads(f"{self!r}.after({value!r})", lambda place: place.after(value))

    def same(self, other: "Item | ElementCell[Any] | Cell[Any]") -> Formula:
        """The element is that of another sequence, or the value of a function."""
        text = f"{self!r}.same({other!r})"
        if not isinstance(other, Item):
            return self._reads(text, lambda place: _equal(place, other, unset=False))
        both = self.about(lambda one: other.about(lambda two: _equal(one, two, unset=False)))
        return Needing((both,), all_of(self.needs, other.needs), text)

    def to(self, value: Any) -> Updates:
        """The updates that put another element in its place."""
        return _replaced(self, value)

    def _reads(self, text: str, of: Callable[[Any], Formula]) -> Formula:
        return Needing((self.about(of),), self.needs, text)

    def about(self, of: Callable[[Any], Formula]) -> Formula:
        """The formula about the place that has this index."""
        if isinstance(self.index, Constant):
            return of(self.yes)
        return any_of(*(all_of(self.index == k, of(place))
                        for k, place in enumerate(self.cell.cells)))

    def __repr__(self) -> str:
        return f"{self.cell!r}.at({self.index!r})"


def _replaced(item: NumberItem | Item, value: Any) -> Updates:
    """The updates that give an element another value."""
    exact = isinstance(item.index, Constant)
    places = [(k, place) for k, place in enumerate(item.cell.cells)
              if not exact or k == item.index.number]  # type: ignore[attr-defined]  # exact
    return Updates(replace(place.to(value), where=Needing(
        () if exact else (item.index == k,), item.needs)) for k, place in places)


def equals(variable: Numbers, of: Term) -> Formula:
    """The variable is this number, which is meant where it is one of the sort (numbered.py)."""
    ends: tuple[Any, ...] = (of >= variable.values.low, of <= variable.values.high)
    return Needing((variable == of,), all_of(*(end for end in ends if end.parts != (TRUE,))),
                   f"({variable!r} == {of!r})")


@dataclass(frozen=True, slots=True, repr=False)
class Needing(And):
    """A formula that is meant only where another one, `needs`, holds (defined.py).

    text: as it is written; empty if nobody wrote it.
    """

    needs: Formula
    text: str = ""

    def __repr__(self) -> str:
        return self.text or super(Needing, self).__repr__()
