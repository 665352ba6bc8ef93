"""Functions whose values are elements of a sort: `last(s) == t`, `last(s).to(t)`, `last(s).unset`.

Such a function is a relation with one argument more, the value, so that every reader of the tables
knows it already. Rule 1: A cell has at most one value. It holds at the start, where no cell has
one, and after each update: an assignment clears the cell first (decision 047).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar, TypeVarTuple, cast

from .formula import (
    And,
    Atom,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Value,
    all_of,
    implies,
)
from .kinds import shown
from .no_formula import NoFormula
from .place import SpecError, here
from .sorts import ANY, Sort
from .symbols import Computed, Reading, Update, Variable, computed

if TYPE_CHECKING:
    from .machine import Machine

V = TypeVar("V", bound=Sort)
Ss = TypeVarTuple("Ss")

UNSET: Final = "unset"  # the text of a cell without a value


class ElementFunction(Variable, Generic[V, *Ss]):
    """A variable with an element of a sort as its value, or none; initially none.

    sorts: of the arguments, and last of the value.
    """

    def __init__(
        self,
        owner: "Machine[*tuple[Any, ...]]",
        name: str,
        domain: tuple[type[Sort], ...],
        value: type[V],
    ) -> None:
        super().__init__(owner, name, (*domain, value), (False, True))

    def __call__(self, *arguments: *Ss) -> "ElementCell[V]":
        return ElementCell(self, self.checked(arguments))

    @property
    def domain(self) -> tuple[type[Sort], ...]:
        return self.sorts[:-1]

    @property
    def told(self) -> str:
        value = self.sorts[-1].__name__
        return f"{self.signature}, declared as function({self.name!r}, {value}, its arguments),"

    def reading(self, arguments: tuple[Sort, ...], value: Value | Computed) -> Reading:
        *cell, element = arguments
        if value is True:
            return tuple(cell), element
        if isinstance(value, Computed):
            return tuple(cell), value
        # Only an update has the value False: that of all elements.
        return tuple(cell), _NONE

    def plain(self, update: Update) -> tuple[Update, ...]:
        # A copy has cleared the cell before it (computed.py:resolved).
        if update.value is not True or update.arguments[-1] in update.variables:
            return (update,)
        cleared = replace(update, arguments=(*update.arguments[:-1], ANY), value=False)
        return cleared, update


class _Unset:
    """The text of a cell without a value, as a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return UNSET


_NONE: Final[Any] = _Unset()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ElementCell(NoFormula, Generic[V]):
    """Such a function at its arguments: compare it to get a formula, move it to get an update."""

    symbol: ElementFunction[V, *tuple[Any, ...]]
    arguments: tuple[Sort, ...]

    def __repr__(self) -> str:
        return f"{self.symbol}({', '.join(map(repr, self.arguments))})"

    @property
    def advice(self) -> str:
        return f"a function has a value: compare it, as in {self!r} == {self._example}"

    def __eq__(self, value: V) -> Formula:  # type: ignore[override]  # a formula, not a verdict
        return self.holds(self._checked(value))

    def __ne__(self, value: V) -> Formula:  # type: ignore[override]  # as above
        return Not(self.holds(self._checked(value)))

    __hash__ = None  # type: ignore[assignment]  # == builds formulas, so no hashing

    def same(self, other: "ElementCell[V]") -> Formula:
        """Both cells have a value, and it is one element."""
        given: object = other
        if not isinstance(given, ElementCell) or given.symbol.sorts[-1] is not self._sort:
            raise SpecError(here(), f"{self!r}.same({shown(other)}): want another function into "
                                    f"{self._sort.__name__}; with a variable, write {self!r} == "
                                    f"{self._example}")
        value = self._value(*other.arguments)
        return Exists(value, And((self.holds(value), other.holds(value))))

    def among(self, *values: V) -> Formula:
        """The value is one of these."""
        return Or(tuple(self == value for value in values))

    def before(self, value: V) -> Formula:
        """There is a value, and it comes before this element in the order of the sort."""
        own = self._value(self._checked(value))
        return Exists(own, And((self.holds(own), own.before(value))))

    def after(self, value: V) -> Formula:
        """There is a value, and this element comes before it in the order of the sort."""
        own = self._value(self._checked(value))
        return Exists(own, And((self.holds(own), value.before(own))))

    @property
    def unset(self) -> Formula:
        """There is no value."""
        value = self._value()
        return Forall(value, Not(self.holds(value)))

    @property
    def is_set(self) -> Formula:
        """There is a value."""
        value = self._value()
        return Exists(value, self.holds(value))

    def to(self, value: "V | ElementCell[V]") -> Update:
        """The update that assigns the element, in the place of the value before.

        Another function into the sort: its value before the row, or none if it has none.
        """
        given: object = value
        if isinstance(given, NoFormula) and not isinstance(given, Sort):
            return Update(self.symbol, (*self.arguments, ANY), computed(self.symbol, given))
        return Update(self.symbol, (*self.arguments, self._checked(cast("V", value))), True)

    def holds(self, value: Sort) -> Atom:
        """The cell has this value."""
        return Atom(self.symbol, (*self.arguments, value), True)

    def clear(self) -> Update:
        """The update that leaves the cell without a value."""
        return Update(self.symbol, (*self.arguments, ANY), False)

    @property
    def _sort(self) -> type[V]:
        return cast("type[V]", self.symbol.sorts[-1])

    @property
    def _example(self) -> str:
        return self._sort.__name__[0].lower()

    def _value(self, *taken: Sort) -> V:
        """A variable for the value, which is none of the arguments and none of these."""
        name = f"{self.symbol.name}_value"
        while self._sort(name) in (*self.arguments, *taken):
            name += "_"
        return self._sort(name)

    def _checked(self, value: V) -> V:
        given: object = value
        if type(given) is self._sort:
            return value
        advice = f"want a variable of {self._sort.__name__}"
        if given is None:
            advice = f"write {self!r}.unset, or {self!r}.clear() in do="
        elif isinstance(given, ElementCell):
            advice = (f"write {self!r}.same({given!r}) to compare, or choose a variable of "
                      f"{self._sort.__name__} that equals {given!r}")
        raise SpecError(here(), f"{shown(value)} is no value of {self!r}: {advice}")

    def _unordered(self, _: object) -> NoReturn:
        raise SpecError(here(), f"{self!r} is no number: write {self!r}.before({self._example}) or "
                                f"{self!r}.after({self._example}), if {self._sort.__name__} is "
                                "ordered")

    __lt__ = __le__ = __gt__ = __ge__ = _unordered


def one_value(function: ElementFunction[Any, *tuple[Any, ...]]) -> Formula:
    """Rule 1 about this function; its free variables stand for all elements."""
    places = (sort(f"x{i}") for i, sort in enumerate(function.sorts[:-1], 1))
    cell = ElementCell(function, tuple(places))
    one, two = function.sorts[-1]("one"), function.sorts[-1]("two")
    return implies(all_of(cell == one, cell == two), one.same(two))
