"""Terms: numbers in a state, and the formulas that comparisons of them stand for (numbers.py)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVarTuple

from .formula import (
    FALSE,
    TRUE,
    And,
    AtLeast,
    Atom,
    Formula,
    Not,
    Or,
    free_variables,
)
from .kinds import require, shown
from .no_formula import NoFormula
from .place import SpecError, here
from .ranges import Int, Linear, Numeric
from .sorts import Sort
from .symbols import Computed, Function, Number, Update

Ss = TypeVarTuple("Ss")
Case: TypeAlias = tuple[Formula, int]
Operand: TypeAlias = "Term | Numeric | int"
ByChooser: TypeAlias = Mapping[int, int]  # by `id`, of the objects inside a term

CHOICES_MAX: Final = 1 << 14  # of the values of the functions in one comparison


class Term(NoFormula):
    """A number in a state. Compare it to get a formula, assign it with `.to`."""

    __slots__ = ()

    def choosers(self) -> Iterator["Chooser"]:
        """The parts on whose values the number depends, without those that are counted."""
        raise NotImplementedError

    def value(self, chosen: ByChooser) -> Linear:
        """The number, where each chooser has this value."""
        raise NotImplementedError

    def about(self) -> Iterator[Formula]:
        """The conditions inside, for a reader that wants the symbols of a term."""
        raise NotImplementedError

    def compared(self, sign: str, other: "Term") -> Formula | None:  # noqa: ARG002 - see below
        """The comparison with another term, if it needs no case for each value of this one."""
        return None

    @property
    def advice(self) -> str:
        return f"a number is no formula: compare it, as in {self!r} > 0"

    def __add__(self, other: Operand) -> "Term":
        return Arithmetic("+", self, term(other, self, "+"))

    def __radd__(self, other: int) -> "Term":
        return Arithmetic("+", term(other, self, "+"), self)

    def __sub__(self, other: Operand) -> "Term":
        return Arithmetic("-", self, term(other, self, "-"))

    def __rsub__(self, other: int) -> "Term":
        return Arithmetic("-", term(other, self, "-"), self)

    def __mul__(self, other: Operand) -> "Term":
        return Arithmetic("*", self, term(other, self, "*"))

    def __rmul__(self, other: int) -> "Term":
        return Arithmetic("*", term(other, self, "*"), self)

    def __floordiv__(self, other: Operand) -> "Term":
        return Arithmetic("//", self, term(other, self, "//"))

    def __rfloordiv__(self, other: int) -> "Term":
        return Arithmetic("//", term(other, self, "//"), self)

    def __mod__(self, other: Operand) -> "Term":
        return Arithmetic("%", self, term(other, self, "%"))

    def __rmod__(self, other: int) -> "Term":
        return Arithmetic("%", term(other, self, "%"), self)

    def __neg__(self) -> "Term":
        return Arithmetic("-", Constant(0), self)

    def __truediv__(self, other: object) -> NoReturn:
        raise SpecError(here(), f"{self!r} / {shown(other)}: numbers are whole: write //")

    def __lt__(self, other: Operand) -> Formula:
        return compared(self, "<", other)

    def __le__(self, other: Operand) -> Formula:
        return compared(self, "<=", other)

    def __gt__(self, other: Operand) -> Formula:
        return compared(self, ">", other)

    def __ge__(self, other: Operand) -> Formula:
        return compared(self, ">=", other)

    def __eq__(self, other: Operand) -> Formula:  # type: ignore[override]  # a formula, not a verdict
        return compared(self, "==", other)

    def __ne__(self, other: Operand) -> Formula:  # type: ignore[override]  # as above
        return compared(self, "!=", other)

    __hash__ = None  # type: ignore[assignment]  # == builds formulas, so no hashing

    def among(self, *numbers: Operand) -> Formula:
        """The number is one of these."""
        return Or(tuple(self == number for number in numbers))


class Chooser(Term):
    """A term with finitely many values, each with the formula that it has this value.

    In each state one of the formulas holds, and no two.
    """

    __slots__ = ()

    def cases(self) -> tuple[Case, ...]:
        """The formulas, each with the value."""
        raise NotImplementedError

    def choosers(self) -> Iterator["Chooser"]:
        yield self

    def value(self, chosen: ByChooser) -> Linear:
        return Linear(chosen[id(self)])

    def about(self) -> Iterator[Formula]:
        yield from (formula for formula, _ in self.cases())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Constant(Term):
    """A number that is written in the spec."""

    number: int

    def choosers(self) -> Iterator[Chooser]:
        return iter(())

    def value(self, chosen: ByChooser) -> Linear:  # noqa: ARG002 - as for all terms
        return Linear(self.number)

    def about(self) -> Iterator[Formula]:
        return iter(())

    def __repr__(self) -> str:
        return str(self.number)


class NumberFunction(Function[Number, *Ss], Generic[*Ss]):
    """A variable with numbers of a range as its values."""

    def __init__(self, owner: Any, name: str, sorts: tuple[type[Sort], ...], range_: Int,
                 first: int) -> None:
        values = tuple(dict.fromkeys((range_.value(first), *range_.values)))
        super().__init__(owner, name, sorts, values)
        self.range: Final = range_

    def __call__(self, *arguments: *Ss) -> "NumberCell":  # type: ignore[override]  # a cell that computes
        return NumberCell(self, self.checked(arguments))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NumberCell(Chooser):
    """Such a function at its arguments."""

    symbol: NumberFunction[*tuple[Any, ...]]
    arguments: tuple[Sort, ...]

    def __repr__(self) -> str:
        return f"{self.symbol}({', '.join(map(repr, self.arguments))})"

    def cases(self) -> tuple[Case, ...]:
        return tuple((Atom(self.symbol, self.arguments, value), value.value)
                     for value in self.symbol.range.values)

    def to(self, value: Operand) -> Update:
        """The update that assigns the number."""
        wanted = term(value, self, ".to")
        if isinstance(wanted, Constant):
            require(wanted.number in self.symbol.range,
                    f"{self!r}.to({wanted!r}): {self.symbol.name} has the range "
                    f"{self.symbol.range!r}")
            return Update(self.symbol, self.arguments, self.symbol.range.value(wanted.number))
        return Update(self.symbol, self.arguments, Computed(wanted))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Arithmetic(Term):
    """Two terms joined by `+`, `-`, `*`, `//` or `%`, as Python computes it."""

    sign: str
    left: Term
    right: Term

    def __post_init__(self) -> None:
        if self.sign in ("//", "%") and Linear(0) in Decisions(self.right).values:
            advice = ("give its function a range without 0, or choose another number there with "
                      "if_then_else")
            raise SpecError(here(), f"{self!r}: " + (
                "division by zero: write another divisor" if isinstance(self.right, Constant)
                else f"{self.right!r} can be 0: {advice}"))

    def choosers(self) -> Iterator[Chooser]:
        yield from self.left.choosers()
        yield from self.right.choosers()

    def about(self) -> Iterator[Formula]:
        yield from self.left.about()
        yield from self.right.about()

    def value(self, chosen: ByChooser) -> Linear:
        left, right = self.left.value(chosen), self.right.value(chosen)
        if self.sign in ("+", "-"):
            return left.plus(right, 1 if self.sign == "+" else -1)
        if not right.counted and (self.sign == "*" or not left.counted):
            if self.sign == "*":
                return Linear(0).plus(left, right.constant)
            return Linear(_SIGNS[self.sign](left.constant, right.constant))
        if self.sign == "*" and not left.counted:
            return Linear(0).plus(right, left.constant)
        raise SpecError(here(), f"{self!r}: a count or a sum over elements is multiplied by "
                                "numbers and values of functions only, and is not divided: compare "
                                "multiples, as in count(v, vote(v)) * 2 > size(Node)")

    def __repr__(self) -> str:
        inside = (f"({part!r})" if isinstance(part, Arithmetic) and (
            self.sign not in "+-" or (self.sign == "-" and part is self.right)) else repr(part)
            for part in (self.left, self.right))
        return f" {self.sign} ".join(inside)


_SIGNS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "//": int.__floordiv__, "%": int.__mod__,
}


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(And):
    """Two terms compared: its `parts` are the formula over atoms that it stands for."""

    left: Term
    sign: str
    right: Term
    named: tuple[Sort, ...]

    @property
    def mentions(self) -> tuple[Sort, ...]:
        return self.named

    def __repr__(self) -> str:
        return f"({self.left!r} {self.sign} {self.right!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Comparison) and repr(self) == repr(other) and (
            self.parts == other.parts)

    def __hash__(self) -> int:
        return hash(self.parts)


def term(value: object, beside: object, sign: str) -> Term:
    """The value as a term. Raises SpecError for anything but a term and a whole number."""
    found = number_of(value.value if isinstance(value, Number) else value)
    if found is None:
        raise SpecError(here(), f"{beside!r} {sign} {shown(value)}: want a number, as in "
                                f"{beside!r} {sign} 1, or another term")
    return found


def number_of(value: object) -> Term | None:
    """The value as a term, if it is a whole number, a variable that is one, or a term."""
    if isinstance(value, Sort):
        return getattr(value, "number", None)
    return Constant(value) if type(value) is int else value if isinstance(value, Term) else None


def compared(left: Term, sign: str, other: object) -> Formula:
    """The formula that a comparison stands for."""
    right = term(other, left, sign)
    short = left.compared(sign, right)
    if short is None:
        short = right.compared(_TURNED[sign], left)
    parts = (Decisions(Arithmetic("-", left, right)).where(lambda value: truth(value, sign))
             if short is None else short,)
    mentions = tuple(dict.fromkeys((*free(left), *free(right))))
    return Comparison(parts, left, sign, right, mentions)


def free(of: Term) -> Iterator[Sort]:
    """The variables of a term that it does not bind."""
    yield from (v for formula in of.about() for v in free_variables(formula))


def truth(value: Linear, sign: str) -> Formula:
    """The formula that the value and 0 compare in this way."""
    if not value.counted:
        return TRUE if _COMPARED[sign](value.constant, 0) else FALSE
    up = AtLeast(tuple(one.times(n) for n, one in value.counted), -value.constant)
    down = AtLeast(tuple(one.times(-n) for n, one in value.counted), value.constant)
    more, less = (replace(one, bound=one.bound + 1) for one in (up, down))
    return {">=": up, ">": more, "<=": down, "<": less, "==": And((up, down)),
            "!=": Or((more, less))}[sign]


_TURNED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARED: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__,
    ">=": int.__ge__,
}


class Decisions:
    """The formulas that hold where something holds of a term's value, as diagrams over its
    choosers. The values are computed once.
    """

    def __init__(self, of: Term) -> None:
        choosers = _choosers(of)
        self._cases: Final = [cases for _, cases in choosers]
        self.values: Final = [of.value({
            one: number for (same, _), (_, number) in zip(choosers, choice, strict=True)
            for one in same}) for choice in product(*self._cases)]

    def choices(self) -> Iterator[tuple[tuple[Formula, ...], Linear]]:
        """Every choice of values of the choosers: the formulas that they have them, and the value.
        """
        for choice, value in zip(product(*self._cases), self.values, strict=True):
            yield tuple(formula for formula, _ in choice), value

    def where(self, leaf: Callable[[Linear], Formula]) -> Formula:
        """The formula that holds where `leaf` holds of the value."""
        values = iter(self.values)

        def under(place: int) -> Formula:
            if place == len(self._cases):
                return leaf(next(values))
            cases = self._cases[place]
            below: dict[Formula, list[Formula]] = {}
            for formula, _ in cases:
                below.setdefault(under(place + 1), []).append(formula)
            if len(below) == 1:
                return next(iter(below))
            every = [formula for formula, _ in cases]
            parts = [joined([*_elsewhere(every, found), inner]) for inner, found in below.items()
                     if inner != TRUE]
            return parts[0] if len(parts) == 1 else And(tuple(parts))

        return under(0)


def _elsewhere(every: list[Formula], found: list[Formula]) -> list[Formula]:
    """Formulas of which one holds where none of those found does: other values, if of a cell."""
    if all(isinstance(one, Atom) for one in every):
        return [one for one in every if one not in found]
    return [Not(joined(found))]


def joined(parts: list[Formula]) -> Formula:
    kept = tuple(part for part in parts if part != FALSE)
    return kept[0] if len(kept) == 1 else Or(kept)


def _choosers(of: Term) -> list[tuple[list[int], tuple[Case, ...]]]:
    """The cases of each chooser, with the objects that are it."""
    found: dict[Computed, list[Chooser]] = {}
    for one in of.choosers():
        found.setdefault(Computed(one), []).append(one)
    cases = [same[0].cases() for same in found.values()]
    count = 1
    for several in cases:
        count *= len(several)
    require(count <= CHOICES_MAX, f"{of!r} has {count:,} choices of values: at most {CHOICES_MAX:,}"
            " fit; give its functions smaller ranges, or compare in two steps")
    return [([*map(id, same)], each) for same, each in zip(found.values(), cases, strict=True)]


def cases_of(of: Term) -> tuple[Case, ...]:
    """The formulas with their values. Raises SpecError for a term with a count or a sum inside."""
    if isinstance(of, Constant):
        return ((TRUE, of.number),)
    if isinstance(of, Chooser):
        return of.cases()
    decisions = Decisions(of)
    for value in decisions.values:
        require(not value.counted, f"{of!r} has a count or a sum over elements inside: it can be "
                "compared, and assigned, and nothing else can be made of it")
    return tuple((decisions.where(lambda v, n=n: TRUE if v.constant == n else FALSE), n)  # type: ignore[misc]  # the number of now
                 for n in sorted({value.constant for value in decisions.values}))
