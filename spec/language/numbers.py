"""Numbers: bounded integers as values of functions, arithmetic, and counts over elements.

    tries = worker.function("tries", Int(0, 5))
    Row("again", at=..., when=tries(w) < 3, do=tries(w).to(tries(w) + 1))
    Always("few", count(v, busy(v)) * 2 <= size(Worker))

Rule 1: A comparison is the formula over atoms that it stands for, so a reader that knows atoms
knows numbers. Only a count or a sum over elements needs a node of its own (formula.py:AtLeast).
Rule 2: A row whose update would leave the range of its function cannot fire, and a state in which
that alone stops it violates `ROW_stays_in_range` (machine.py:Table.ranges); with saturates=True
the nearest number of the range is assigned.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .formula import TRUE, And, Formula, Not, Or, Summand, all_of, exists, forall
from .kinds import require, shown
from .place import SpecError, here
from .ranges import Linear, Numeric
from .sorts import Sort
from .terms import (
    ByChooser,
    Case,
    Chooser,
    Constant,
    Operand,
    Term,
    cases_of,
    compared,
    free,
    joined,
    term,
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Total(Term):
    """A sum over the choices of elements for which a condition holds; `count` adds ones."""

    variables: tuple[Sort, ...]
    each: Term
    where: Formula

    def choosers(self) -> Iterator[Chooser]:
        return iter(())

    def value(self, chosen: ByChooser) -> Linear:  # noqa: ARG002 - it is counted
        cases: list[Case] = [(Not(self.where), 0)] if self.where != TRUE else []
        for formula, number in cases_of(self.each):
            both = formula if self.where == TRUE else And((self.where, formula))
            cases.append((self.where if formula == TRUE else both, number))
        return Linear(0, ((1, Summand(self.variables, tuple(cases))),))

    def about(self) -> Iterator[Formula]:
        yield exists(self.variables, And((self.where, *self.each.about())))

    def __repr__(self) -> str:
        named = _names(self.variables)
        if isinstance(self.each, Constant):
            one = next(iter(self.variables))
            return (f"size({type(one).__name__})" if self.where == TRUE and not self.variables[1:]
                    else f"count({named}, {self.where!r})")
        where = "" if self.where == TRUE else f", where={self.where!r}"
        return f"sum_of({named}, {self.each!r}{where})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Extreme(Chooser):
    """The least or the greatest number over the choices of elements; `otherwise` over none."""

    word: str
    variables: tuple[Sort, ...]
    each: Term
    where: Formula
    otherwise: int | None

    def cases(self) -> tuple[Case, ...]:
        own = cases_of(self.each)
        found: list[Case] = []
        numbers = {n for _, n in own} | ({self.otherwise} if self.otherwise is not None else set())
        for number in sorted(numbers):
            beyond = [f for f, n in own if (n < number if self.word == "min_of" else n > number)]
            equal = [f for f, n in own if n == number]
            it_is: Formula = And((self._some(equal), Not(self._some(beyond))))
            if number == self.otherwise:
                it_is = Or((it_is, Not(exists(self.variables, self.where))))
            found.append((it_is, number))
        return tuple(found)

    def compared(self, sign: str, other: Term) -> Formula | None:
        if set(self.variables) & set(free(other)):
            return None
        if sign in ("==", "!="):
            equal = all_of(self <= other, self >= other)
            return equal if sign == "==" else Not(equal)
        each = compared(self.each, sign, other)
        if (self.word == "min_of") == (sign in ("<", "<=")):
            found: Formula = exists(self.variables, And((self.where, each)))
        else:
            found = forall(self.variables, Or((Not(self.where), each)))
        if self.otherwise is None:
            return found
        some = exists(self.variables, self.where)
        empty = And((Not(some), compared(Constant(self.otherwise), sign, other)))
        return Or((And((some, found)), empty))

    def _some(self, formulas: list[Formula]) -> Formula:
        """Some choice satisfies `where` and one of these."""
        return exists(self.variables, And((self.where, joined(formulas))))

    def about(self) -> Iterator[Formula]:
        yield exists(self.variables, And((self.where, *self.each.about())))

    def __repr__(self) -> str:
        where = "" if self.where == TRUE else f", where={self.where!r}, otherwise={self.otherwise}"
        return f"{self.word}({_names(self.variables)}, {self.each!r}{where})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Either(Chooser):
    """One number where a condition holds, and another one where it does not."""

    where: Formula
    yes: Term
    no: Term

    def cases(self) -> tuple[Case, ...]:
        found: dict[int, list[Formula]] = {}
        for condition, chosen in ((self.where, self.yes), (Not(self.where), self.no)):
            for formula, number in cases_of(chosen):
                found.setdefault(number, []).append(
                    condition if formula == TRUE else And((condition, formula)))
        return tuple((Or(tuple(parts)), number) for number, parts in found.items())

    def about(self) -> Iterator[Formula]:
        yield self.where
        yield from self.yes.about()
        yield from self.no.about()

    def __repr__(self) -> str:
        return f"if_then_else({self.where!r}, {self.yes!r}, {self.no!r})"


def _names(variables: tuple[Sort, ...]) -> str:
    text = ", ".join(map(repr, variables))
    return f"({text})" if variables[1:] else text


def count(variables: Sort | tuple[Sort, ...], where: Formula = TRUE) -> Term:
    """How many choices of elements satisfy `where`."""
    return Total(_variables("count", variables), Constant(1), _formula("count", where))


def size(sort: type[Sort]) -> Term:
    """How many elements the sort has."""
    given: object = sort
    require(isinstance(given, type) and issubclass(given, Sort),
            f"size({shown(sort)}): want a sort, as in size(Node); for elements, count(v, ...)")
    return Total((sort(f"each_{sort.__name__}"),), Constant(1), TRUE)


def sum_of(variables: Sort | tuple[Sort, ...], each: Operand, *, where: Formula = TRUE) -> Term:
    """The sum of a number over all choices of elements that satisfy `where`."""
    return Total(_variables("sum_of", variables), term(each, "sum_of", "of"),
                 _formula("sum_of", where))


def min_of(variables: Sort | tuple[Sort, ...], each: Term | Numeric, *, where: Formula = TRUE,
           otherwise: int | None = None) -> Term:
    """The least number over the choices that satisfy `where`; `otherwise` where none does."""
    return _extreme("min_of", variables, each, where, otherwise)


def max_of(variables: Sort | tuple[Sort, ...], each: Term | Numeric, *, where: Formula = TRUE,
           otherwise: int | None = None) -> Term:
    """The greatest number over the choices that satisfy `where`; `otherwise` where none does."""
    return _extreme("max_of", variables, each, where, otherwise)


def _extreme(word: str, variables: Sort | tuple[Sort, ...], each: object, where: Formula,
             otherwise: int | None) -> Term:
    require((where == TRUE) == (otherwise is None), f"{word}: where= may hold for no element, so "
            "it wants otherwise=, the number in that case, and without where= there is none")
    return Extreme(word, _variables(word, variables), term(each, word, "of"),
                   _formula(word, where), otherwise)


def _variables(word: str, variables: object) -> tuple[Sort, ...]:
    several = variables if isinstance(variables, tuple) else (variables,)
    for one in several:
        require(isinstance(one, Sort), f"{word} counts {shown(one)}: want a variable, as in "
                                       f"{word}(v, ...), or a tuple of variables")
    return several


def _formula(word: str, where: object) -> Formula:
    if isinstance(where, Formula):
        return where
    raise SpecError(here(), f"{word}: where= is {shown(where)}: want a formula, such as busy(v)")
