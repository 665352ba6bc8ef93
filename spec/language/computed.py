"""Updates whose value depends on the state before the row: `n(p).to(n(p) + 1)`, `if_then_else`.

Rule 1: Such an update is one of several assignments of a constant, each under a condition; in each
state one of the conditions holds, and no two. So a reader that knows assignments under a condition
knows computed values, and the text of the spec is kept beside them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, overload

from .elements import ElementCell, ElementFunction
from .formula import (
    FALSE,
    TRUE,
    And,
    Atom,
    Formula,
    Not,
    Or,
    all_of,
    any_of,
    forall,
    free_variables,
    implies,
)
from .kinds import no_value, require, shown
from .no_formula import NoFormula
from .numbers import Either
from .place import SpecError, here
from .ranges import Int, Linear, Numeric
from .sorts import ANY, Sort
from .states import Number
from .symbols import Cell, Computed, Symbol, Update
from .terms import (
    Decisions,
    NumberFunction,
    Operand,
    Term,
    free,
    number_of,
    term,
    truth,
)

V = TypeVar("V")
Choice: TypeAlias = tuple[tuple[Formula, ...], Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Chosen(NoFormula):
    """One value of an enum, or one truth value, where a condition holds, and another elsewhere."""

    where: Formula
    yes: Any
    no: Any

    @property
    def sides(self) -> tuple[tuple[Formula, Any], ...]:
        """The two values, each with the condition under which it is assigned."""
        return (self.where, self.yes), (Not(self.where), self.no)

    @property
    def advice(self) -> str:
        return "it is a value: assign it, as in phase(p).to(if_then_else(...))"

    def __repr__(self) -> str:
        return f"if_then_else({self.where!r}, {shown(self.yes)}, {shown(self.no)})"


@overload
def if_then_else(condition: Formula, yes: Term | Numeric, no: Operand) -> Term: ...
@overload
def if_then_else(condition: Formula, yes: int, no: Operand) -> Term: ...
@overload
def if_then_else(condition: Formula, yes: object, no: object) -> Any: ...
def if_then_else(condition: Formula, yes: Any, no: Any) -> Any:
    """The first value where the condition holds, and the second where it does not.

    The values: numbers; or values of an enum, or elements, and functions into them; or truth
    values and formulas.
    """
    given: object = condition
    require(isinstance(given, Formula), f"if_then_else({shown(condition)}, ...): want a formula "
            "first, such as busy(p)")
    if (number := number_of(yes)) is not None:
        return Either(condition, number, term(no, "if_then_else", "of"))
    return Chosen(condition, yes, no)


def resolved(update: Update) -> tuple[Update, ...]:
    """The update as assignments of constants, each under its condition."""
    if not isinstance(update.value, Computed):
        return (update,)
    if isinstance(update.symbol, ElementFunction):
        value, element, holds = _copied(update)
        return (replace(update, value=False), replace(
            value, variables=(*update.variables, element), where=both(update.where, holds)))
    return tuple(replace(update, value=value, where=both(update.where, condition))
                 for value, condition in _by_value(update.symbol, update.value.term)
                 if condition != FALSE)


def _copied(update: Update) -> tuple[Update, Sort, Formula]:
    """The assignment of an element of its own, that element, and the formula: it is assigned."""
    of = update.value.term
    name = f"{update.symbol.name}_value"
    named = (*update.arguments[:-1], *mentioned(of))
    while any(one is not ANY and one.name == name for one in named):
        name += "_"
    element = update.symbol.sorts[-1](name)
    copy = replace(update, arguments=(*update.arguments[:-1], element), value=True)
    return copy, element, _is(of, element)


def _is(of: Any, element: Sort) -> Formula:
    """The value is this element; for a choice between elements and functions into their sort."""
    if isinstance(of, Chosen):
        return any_of(*(all_of(one, _is(value, element)) for one, value in of.sides))
    return of.holds(element) if isinstance(of, ElementCell) else of.same(element)


@dataclass(frozen=True, slots=True)
class CopiedElement:
    """A copied element, for a reader that looks at each one.

    alone: this element is the value, and no other one is. none: no element is.
    """

    element: Sort
    alone: Formula
    none: Formula
    assigned: Update
    cleared: Update


def copied(update: Update) -> CopiedElement | None:
    """The update as one for each element of the sort; None if it copies none."""
    if not isinstance(update.value, Computed) or not isinstance(update.symbol, ElementFunction):
        return None
    assigned, element, holds = _copied(update)
    other = type(element)(f"{element.name}_")
    also = _is(update.value.term, other)
    return CopiedElement(
        element, all_of(holds, forall(other, implies(also, other.same(element)))),
        forall(element, Not(holds)), assigned, replace(update, value=False))


def in_range(update: Update) -> Formula:
    """The formula that the value is one of the function's; TRUE if it always is."""
    if not isinstance(update.value, Computed) or not isinstance(update.symbol, NumberFunction):
        return TRUE
    of, range_ = update.value.term, update.symbol.range
    if range_.saturates:
        return TRUE
    ends = (of >= range_.low, of <= range_.high)
    return all_of(*(end for end in ends if end.parts != (TRUE,)))


def alternatives(update: Update) -> Iterator[tuple[tuple[Formula, ...], Update | None]]:
    """The update as cases: conditions, and the constant that is assigned where all of them hold.

    In each state one of the cases holds, and no two. None: the value is out of range.
    """
    if not isinstance(update.value, Computed):
        yield (), update
        return
    if not isinstance(update.symbol, NumberFunction):
        for conditions, value in _choices(update.symbol, update.value.term):
            yield conditions, replace(update, value=value)
        return
    range_ = update.symbol.range
    for conditions, value in Decisions(update.value.term).choices():
        if value.counted:
            for one in range_.values:
                yield (*conditions, _assigns(range_, one, value)), replace(update, value=one)
            if not range_.saturates:
                yield (*conditions, truth(value.plus(Linear(-range_.low)), "<")), None
                yield (*conditions, truth(value.plus(Linear(-range_.high)), ">")), None
            continue
        number = value.constant
        if range_.saturates:
            number = min(max(number, range_.low), range_.high)
        yield conditions, replace(update, value=range_.value(number)) if number in range_ else None


def _assigns(range_: Int, number: Number, value: Linear) -> Formula:
    """The formula that this number of the range is assigned for this value."""
    sign = "=="
    if range_.saturates and number.value in (range_.low, range_.high):
        sign = "<=" if number.value == range_.low else ">="
    return truth(value.plus(Linear(-number.value)), sign)


def _by_value(symbol: Symbol, of: Any) -> Iterator[tuple[Any, Formula]]:
    if isinstance(symbol, NumberFunction):
        decisions = Decisions(of)
        for number in symbol.range.values:
            yield number, decisions.where(partial(_assigns, symbol.range, number))
        return
    found: dict[Any, list[Formula]] = {}
    for conditions, value in _choices(symbol, of):
        found.setdefault(value, []).append(all_of(*conditions))
    for value, parts in found.items():
        yield value, parts[0] if len(parts) == 1 else Or(tuple(parts))


def _choices(symbol: Symbol, of: Any) -> Iterator[Choice]:
    """The values of an enum or truth values, each with the conditions under which it is assigned.
    """
    if isinstance(of, Chosen):
        for condition, chosen in of.sides:
            for more, value in _choices(symbol, chosen):
                yield (condition, *more), value
    elif isinstance(of, Cell) and not symbol.is_boolean:
        for value in of.symbol.values:
            yield (Atom(of.symbol, of.arguments, value),), value
    elif isinstance(of, Formula) and symbol.is_boolean:
        yield (of,), True
        yield (Not(of),), False
    else:
        yield (), of


def mentioned(value: Any) -> Iterator[Sort]:
    """The free variables of a computed value, also of one that is the same for all elements."""
    match value:
        case Computed(term):
            yield from mentioned(term)
        case Term():
            yield from free(value)
        case Formula():
            yield from free_variables(value)
        case Cell() | ElementCell():
            yield from value.arguments
        case Sort():
            yield value
        case Chosen(where, yes, no):
            for part in (where, yes, no):
                yield from mentioned(part)


def _check_element(symbol: ElementFunction[Any, *tuple[Any, ...]], of: Any) -> None:
    if isinstance(of, Chosen):
        _check_element(symbol, of.yes)
        _check_element(symbol, of.no)
        return
    sort = symbol.sorts[-1]
    right = type(of) is sort or (isinstance(of, ElementCell) and of.symbol.sorts[-1] is sort)
    require(right, f"{shown(of)} is no value of {symbol.signature}: want a variable of "
                   f"{sort.__name__}, or another function into it")


def check_value(symbol: Symbol, of: Any) -> None:
    """Raise SpecError unless the symbol has each of the values."""
    if symbol.is_boolean and isinstance(of, Cell):
        raise SpecError(here(), f"{of!r} is no truth value: compare it, as in {of.advice}")
    if isinstance(symbol, ElementFunction):
        _check_element(symbol, of)
        return
    for _, value in _choices(symbol, of):
        if value not in symbol.values or type(value) is not type(symbol.values[0]):
            raise SpecError(here(), no_value(value, symbol.signature, symbol.values))


def both(one: Formula, two: Formula) -> Formula:
    """Both hold; a condition that always holds is not written."""
    return two if one == TRUE else one if two == TRUE else And((one, two))
