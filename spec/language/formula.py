"""Formulas: frozen nodes, compared by structure, one function per pass (`match` on the nodes).

Guards and properties are built from the same nodes. Atoms come from the symbols (symbols.py),
never from here: `rm(p) == RM.WORKING`, `heard(p)`, `prepared(p)`.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, cast

from .kinds import shown
from .no_formula import Bindable
from .place import SpecError, here

if TYPE_CHECKING:
    from .sorts import Sort
    from .symbols import Symbol

Value: TypeAlias = enum.Enum | bool


class Formula:
    """A claim about one state. Combine with `&`, `|`, `~`, `implies`, `forall` and `exists`."""

    __slots__ = ()

    def __and__(self, other: "Formula") -> "Formula":
        return And((self, _joined(self, "&", other)))

    def __or__(self, other: "Formula") -> "Formula":
        return Or((self, _joined(self, "|", other)))

    def __rand__(self, other: object) -> NoReturn:
        raise SpecError(here(), f"{shown(other)} & {self!r}: {_PRECEDENCE.format('&')}")

    def __ror__(self, other: object) -> NoReturn:
        raise SpecError(here(), f"{shown(other)} | {self!r}: {_PRECEDENCE.format('|')}")

    def __invert__(self) -> "Formula":
        return Not(self)

    def __call__(self, *_: object) -> NoReturn:
        raise SpecError(here(), f"{self!r} is a formula: leave out the parentheses behind it")

    def __bool__(self) -> NoReturn:
        # `a and b`, `not a` and `x == A | y == B` would silently drop half of the formula.
        raise SpecError(here(), f"{self!r} has no truth value here: use &, |, ~ and parentheses, "
                                "and among() instead of `in`")


# A formula is shown as it is written, so that it can be pasted into a spec.


@dataclass(frozen=True, slots=True, repr=False)
class And(Formula):
    parts: tuple[Formula, ...]

    @property
    def mentions(self) -> tuple["Sort", ...]:
        """Further free variables: of a comparison that is the same for all elements."""
        return ()

    def __repr__(self) -> str:
        return f"all_of({', '.join(map(repr, self.parts))})" if self.parts else "TRUE"


@dataclass(frozen=True, slots=True, repr=False)
class Or(Formula):
    parts: tuple[Formula, ...]

    def __repr__(self) -> str:
        match self.parts:
            case ():
                return "FALSE"
            case (Not(premise), conclusion):
                return f"implies({premise!r}, {conclusion!r})"
            case _:
                return f"any_of({', '.join(map(repr, self.parts))})"


@dataclass(frozen=True, slots=True, repr=False)
class Not(Formula):
    part: Formula

    def __repr__(self) -> str:
        match self.part:
            case Same(left, right):
                return f"{left!r}.differs({right!r})"
            case Atom() if " == " in (text := repr(self.part)):
                return text.replace(" == ", " != ", 1)
            case _:
                return f"~{self.part!r}"


@dataclass(frozen=True, slots=True, repr=False)
class Same(Formula):
    left: "Sort"
    right: "Sort"

    def __repr__(self) -> str:
        return f"{self.left!r}.same({self.right!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Before(Formula):
    left: "Sort"
    right: "Sort"

    def __repr__(self) -> str:
        return f"{self.left!r}.before({self.right!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Atom(Formula):
    """`symbol(arguments)` has this value; for relations and messages the value is True."""

    symbol: "Symbol"
    arguments: tuple["Sort", ...]
    value: Value

    def __repr__(self) -> str:
        arguments, value = self.symbol.reading(self.arguments, self.value)
        own, place = arguments[: len(self.symbol.domain)], arguments[len(self.symbol.domain) :]
        applied = f"{self.symbol}({', '.join(map(repr, own))})"
        if place:  # of a message that waits in a channel
            applied += f".at({place[0]!r})"
        if isinstance(value, bool):
            return applied if value else f"~{applied}"
        return f"{applied} == {shown(value)}"


@dataclass(frozen=True, slots=True, repr=False)
class Forall(Formula):
    variable: "Sort"
    body: Formula

    def __repr__(self) -> str:
        return f"forall({self.variable!r}, {self.body!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Exists(Formula):
    variable: "Sort"
    body: Formula

    def __repr__(self) -> str:
        return f"exists({self.variable!r}, {self.body!r})"


@dataclass(frozen=True, slots=True)
class Summand:
    """A number for each choice of elements of the variables: that of the case that holds.

    cases: formulas with their numbers. In each state one of them holds, and no two.
    """

    variables: tuple["Sort", ...]
    cases: tuple[tuple[Formula, int], ...]

    def times(self, factor: int) -> "Summand":
        """The same with each number multiplied."""
        return Summand(self.variables, tuple((one, n * factor) for one, n in self.cases))


@dataclass(frozen=True, slots=True, repr=False)
class AtLeast(Formula):
    """The summands, over all choices of elements, are at least `bound` together (numbers.py)."""

    summands: tuple[Summand, ...]
    bound: int

    def __repr__(self) -> str:
        texts = []
        for one in self.summands:
            names = ", ".join(map(repr, one.variables))
            texts += [f"{n} * count(({names},), {f!r})" for f, n in one.cases if n]
        return f"({' + '.join(texts) or '0'} >= {self.bound})"

    @property
    def negation(self) -> "AtLeast":
        """The formula that holds where this one does not."""
        return AtLeast(tuple(one.times(-1) for one in self.summands), 1 - self.bound)


_PRECEDENCE: Final = "Python reads {} before ==, so put each comparison in parentheses"


def _joined(left: Formula, sign: str, right: object) -> Formula:
    """The right side of `&` or `|`, which must be a formula."""
    if isinstance(right, Formula):
        return right
    advice = "" if isinstance(right, bool) else f"; {_PRECEDENCE.format(sign)}"
    problem = f"{left!r} {sign} {shown(right)}: the right side is no formula{advice}"
    raise SpecError(here(), problem)


TRUE: Final = And(())
FALSE: Final = Or(())


def forall(variables: "Sort | tuple[Sort, ...]", body: Formula) -> Formula:
    """The body holds for every element of the variables' sorts."""
    for variable in _bound("forall", variables):
        body = Forall(variable, body)
    return body


def exists(variables: "Sort | tuple[Sort, ...]", body: Formula) -> Formula:
    """The body holds for at least one choice of elements."""
    for variable in _bound("exists", variables):
        body = Exists(variable, body)
    return body


def _bound(quantifier: str, variables: object) -> Iterator["Sort"]:
    """The variables that a quantifier binds, innermost first."""
    for variable in reversed(variables if isinstance(variables, tuple) else (variables,)):
        if not isinstance(variable, Bindable):
            advice = f", such as {variable.__name__}('x')" if isinstance(variable, type) else ""
            raise SpecError(here(), f"{quantifier} binds {shown(variable)}: "
                                    f"want a variable{advice}, or a tuple of variables")
        yield cast("Sort", variable)


def implies(premise: Formula, conclusion: Formula) -> Formula:
    """If the premise holds, the conclusion holds too."""
    return Or((Not(premise), conclusion))


def all_of(*parts: Formula) -> Formula:
    """Every part holds; all_of() is true."""
    return And(parts)


def any_of(*parts: Formula) -> Formula:
    """At least one part holds; any_of() is false."""
    return Or(parts)


def negated(formula: Formula) -> Formula:
    """The negation with every `not` pushed down to the atoms."""
    return normal(Not(formula))


def normal(formula: Formula) -> Formula:
    """Negation normal form: `Not` stands before Atom, Same and Before, and in what is counted."""
    match formula:
        case And(parts):
            return And(tuple(normal(part) for part in parts))
        case Or(parts):
            return Or(tuple(normal(part) for part in parts))
        case Forall(variable, body):
            return Forall(variable, normal(body))
        case Exists(variable, body):
            return Exists(variable, normal(body))
        case Not(part):
            return _pushed(part)
        case _:
            return formula


def _pushed(formula: Formula) -> Formula:
    match formula:
        case And(parts):
            return Or(tuple(normal(Not(part)) for part in parts))
        case Or(parts):
            return And(tuple(normal(Not(part)) for part in parts))
        case Forall(variable, body):
            return Exists(variable, normal(Not(body)))
        case Exists(variable, body):
            return Forall(variable, normal(Not(body)))
        case Not(part):
            return normal(part)
        case AtLeast():
            return formula.negation
        case _:
            return Not(formula)


# These walks are most of the time in which a spec is read: they make no generators, and the classes
# that share a field are tuples, since `isinstance` with `A | B` makes a new object for each call.
_JOINED: Final = And, Or
_QUANTIFIED: Final = Forall, Exists
_COMPARED: Final = Same, Before


def atoms(formula: Formula, *, positive: bool = True) -> Iterator[tuple[Atom, bool]]:
    """Every atom with its polarity: True where it stands under an even number of negations."""
    found: list[tuple[Atom, bool]] = []
    _find_atoms(formula, positive, found)
    return iter(found)


def _find_atoms(formula: Formula, positive: bool, found: list[tuple[Atom, bool]]) -> None:
    if isinstance(formula, Atom):
        found.append((formula, positive))
    elif isinstance(formula, _JOINED):
        for part in formula.parts:
            _find_atoms(part, positive, found)
    elif isinstance(formula, Not):
        _find_atoms(formula.part, not positive, found)
    elif isinstance(formula, _QUANTIFIED):
        _find_atoms(formula.body, positive, found)
    elif isinstance(formula, AtLeast):
        for part, rising in counted(formula):
            _find_atoms(part, positive == rising, found)


def counted(formula: AtLeast) -> Iterator[tuple[Formula, bool]]:
    """The cases inside, each with whether the sum grows when more choices satisfy it.

    A case that has neither the least nor the greatest number of its summand occurs with both.
    """
    for one in formula.summands:
        numbers = [n for _, n in one.cases]
        for part, n in one.cases:
            if n > min(numbers):
                yield part, True
            if min(numbers) < n < max(numbers):
                yield part, False


def counts(formula: Formula) -> Iterator[AtLeast]:
    """Every formula about counts inside, the outermost first."""
    if isinstance(formula, AtLeast):
        yield formula
        for one in formula.summands:
            for part, _ in one.cases:
                yield from counts(part)
    elif isinstance(formula, _JOINED):
        for part in formula.parts:
            yield from counts(part)
    elif isinstance(formula, Not):
        yield from counts(formula.part)
    elif isinstance(formula, _QUANTIFIED):
        yield from counts(formula.body)


def free_variables(formula: Formula) -> tuple["Sort", ...]:
    """The variables that no quantifier binds, in order of first occurrence."""
    return every_variable(formula)[0]


def bound_variables(formula: Formula) -> tuple["Sort", ...]:
    """The variables that quantifiers bind, outermost first."""
    return every_variable(formula)[1]


def every_variable(formula: Formula) -> tuple[tuple["Sort", ...], tuple["Sort", ...]]:
    """The free variables and the bound ones, in the order of the two functions above."""
    free: dict[Sort, None] = {}
    bound: list[Sort] = []
    _find_variables(formula, (), free, bound)
    return tuple(free), tuple(bound)


def _find_variables(
    formula: Formula, inside: tuple["Sort", ...], free: dict["Sort", None], bound: list["Sort"],
) -> None:
    if isinstance(formula, Atom):
        free.update({v: None for v in formula.arguments if v not in inside})
    elif isinstance(formula, _JOINED):
        for part in formula.parts:
            _find_variables(part, inside, free, bound)
        if isinstance(formula, And) and formula.mentions:
            free.update({v: None for v in formula.mentions if v not in inside})
    elif isinstance(formula, Not):
        _find_variables(formula.part, inside, free, bound)
    elif isinstance(formula, _QUANTIFIED):
        bound.append(formula.variable)
        _find_variables(formula.body, (*inside, formula.variable), free, bound)
    elif isinstance(formula, _COMPARED):
        free.update({v: None for v in (formula.left, formula.right) if v not in inside})
    elif isinstance(formula, AtLeast):
        for one in formula.summands:
            bound += one.variables
            for part, _ in one.cases:
                _find_variables(part, (*inside, *one.variables), free, bound)


def strangers(formula: object) -> Iterator[object]:
    """The values in a formula that are none, as `x is y` and `a and b`, which are bools."""
    match formula:
        case And(parts) | Or(parts):
            for part in parts:
                yield from strangers(part)
        case Not(part):
            yield from strangers(part)
        case Forall(_, body) | Exists(_, body):
            yield from strangers(body)
        case AtLeast(summands):
            for one in summands:
                for part, _ in one.cases:
                    yield from strangers(part)
        case Formula():
            return
        case _:
            yield formula
