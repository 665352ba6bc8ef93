"""Formulas: frozen nodes, compared by structure, one function per pass (`match` on the nodes).

Guards and properties are built from the same nodes. Atoms come from the symbols (symbols.py),
never from here: `rm(p) == RM.WORKING`, `heard(p)`, `prepared(p)`.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias, cast

from .kinds import shown
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


_PRECEDENCE: Final = "Python reads {} before ==, so put each comparison in parentheses"


def _joined(left: Formula, sign: str, right: object) -> Formula:
    """The right side of `&` or `|`, which must be a formula."""
    if isinstance(right, Formula):
        return right
    advice = "" if isinstance(right, bool) else f"; {_PRECEDENCE.format(sign)}"
    problem = f"{left!r} {sign} {shown(right)}: the right side is no formula{advice}"
    raise SpecError(here(), problem)


class NoFormula:
    """A value that is not a formula, with advice on what to write instead."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise SpecError(here(), f"{self!r} has no truth value here: {self.advice}")

    @property
    def advice(self) -> str:
        """What to write instead."""
        raise NotImplementedError

    def __invert__(self) -> NoReturn:
        raise SpecError(here(), f"~{self!r}: {self.advice}")

    def __and__(self, _: object) -> NoReturn:
        raise SpecError(here(), f"{self!r} & ...: {self.advice}")

    def __or__(self, _: object) -> NoReturn:
        raise SpecError(here(), f"{self!r} | ...: {self.advice}")


class Bindable(NoFormula):
    """A variable: a quantifier can bind it."""

    __slots__ = ()


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
    """Negation normal form: `Not` stands only before Atom, Same and Before."""
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
    elif isinstance(formula, Not):
        _find_variables(formula.part, inside, free, bound)
    elif isinstance(formula, _QUANTIFIED):
        bound.append(formula.variable)
        _find_variables(formula.body, (*inside, formula.variable), free, bound)
    elif isinstance(formula, _COMPARED):
        free.update({v: None for v in (formula.left, formula.right) if v not in inside})


def strangers(formula: object) -> Iterator[object]:
    """The values in a formula that are not formulas: `x is y`, `a and b` and the like are plain
    bools.
    """
    match formula:
        case And(parts) | Or(parts):
            for part in parts:
                yield from strangers(part)
        case Not(part):
            yield from strangers(part)
        case Forall(_, body) | Exists(_, body):
            yield from strangers(body)
        case Formula():
            return
        case _:
            yield formula
